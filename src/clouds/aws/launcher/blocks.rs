//! Capacity blocks as a `Seller`: offered, bought once with the marks of the run, and found again by them.

use std::collections::HashMap;

use aws_sdk_ec2::types::{
    CapacityBlockOffering, CapacityReservation, CapacityReservationInstancePlatform, CapacityReservationState,
    ResourceType, Tag, TagSpecification,
};
use jiff::{SignedDuration, Timestamp};

use crate::catalog::zones::zone_ids;
use crate::errors::launch_error;
use crate::launcher::filter::filter;
use crate::launcher::known::AwsLauncher;
use crate::prices::block::ultraservers;
use gpuplan_launch::block::{BlockOffer, BlockOrder, BlockQuery, Seller};
use gpuplan_launch::{LaunchError, names};
use gpuplan_market::BoxFuture;
use gpuplan_units::Usd;

/// States of a reservation that can carry machines now or later (EC2 API reference, `CapacityReservation`).
const ALIVE: [CapacityReservationState; 6] = [
    CapacityReservationState::Active,
    CapacityReservationState::Assessing,
    CapacityReservationState::Delayed,
    CapacityReservationState::PaymentPending,
    CapacityReservationState::Pending,
    CapacityReservationState::Scheduled,
];

impl AwsLauncher {
    async fn blocks(&self, wish: &BlockQuery) -> Result<Vec<BlockOffer>, LaunchError> {
        let (account, region) = (&self.account().await?, wish.region.as_str());
        let client = &account.ec2(region);
        let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let question = client.describe_capacity_block_offerings().capacity_duration_hours(count(wish.hours));
        let question = match ultraservers(&wish.instance_type, wish.machines) {
            Some(racks) => question.ultraserver_type(racks.name).ultraserver_count(count(racks.count)),
            None => question.instance_type(&wish.instance_type).instance_count(count(wish.machines)),
        };
        let mut pages = question.into_paginator().send();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| launch_error(account.error(region, &error)))?;
            found.extend(page.capacity_block_offerings().iter().cloned());
        }
        let mut notes = Vec::new();
        let zones = if found.is_empty() { HashMap::new() } else { zone_ids(account, client, region, &mut notes).await };
        if let Some(note) = notes.first() {
            // Blocks whose zone nobody can name would look like none for sale.
            return Err(LaunchError::Unclear { code: note.to_string() });
        }
        let of_zone = |block: &CapacityBlockOffering| zones.get(block.availability_zone()?).cloned();
        let mut offers: Vec<BlockOffer> = found.iter().filter_map(|block| offer(block, of_zone(block)?)).collect();
        offers.sort_by_key(|offer| (offer.starts_at, offer.upfront_usd));
        Ok(offers)
    }

    async fn buy_block(&self, run: &str, order: &BlockOrder) -> Result<String, LaunchError> {
        let (account, region) = (&self.account().await?, order.region.as_str());
        let owner = self.caller(account).await?;
        let marks =
            [(names::RUN, run.to_owned()), (names::OWNER, owner), (names::EXPIRES, order.offer.ends_at.to_string())];
        let tags = marks.into_iter().map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
        let tagged =
            TagSpecification::builder().resource_type(ResourceType::CapacityReservation).set_tags(Some(tags)).build();
        let purchase =
            account.ec2_to_rent(region).purchase_capacity_block().capacity_block_offering_id(&order.offer.id);
        let purchase =
            purchase.instance_platform(CapacityReservationInstancePlatform::LinuxUnix).tag_specifications(tagged);
        let answer = purchase.send().await.map_err(|error| launch_error(account.error(region, &error)))?;
        let bought = answer.capacity_reservation().and_then(CapacityReservation::capacity_reservation_id);
        bought
            .map(str::to_owned)
            .ok_or_else(|| LaunchError::Unclear { code: "the answer names no reservation".to_owned() })
    }

    async fn block_of(&self, run: &str, region: &str) -> Result<Option<String>, LaunchError> {
        let account = &self.account().await?;
        let own = filter(&format!("tag:{}", names::RUN), run);
        let mut pages = account.ec2(region).describe_capacity_reservations().filters(own).into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| launch_error(account.error(region, &error)))?;
            let alive = page
                .capacity_reservations()
                .iter()
                .find(|block| block.state().is_some_and(|state| ALIVE.contains(state)));
            if let Some(id) = alive.and_then(CapacityReservation::capacity_reservation_id) {
                return Ok(Some(id.to_owned()));
            }
        }
        Ok(None)
    }
}

/// `None`: something that a buyer has to know is missing, or not in dollars.
fn offer(block: &CapacityBlockOffering, zone_id: String) -> Option<BlockOffer> {
    let time = |time: &aws_sdk_ec2::primitives::DateTime| Timestamp::from_second(time.secs()).ok();
    let starts_at = time(block.start_date()?)?;
    let span = || block.capacity_block_duration_hours().map(|hours| SignedDuration::from_hours(i64::from(hours)));
    let ends_at = block.end_date().and_then(time).or_else(|| starts_at.checked_add(span()?).ok())?;
    Some(BlockOffer {
        id: block.capacity_block_offering_id()?.to_owned(),
        zone_id,
        starts_at,
        ends_at,
        upfront_usd: Usd::parse(block.upfront_fee()?)
            .ok()
            .filter(|fee| *fee > Usd::ZERO && block.currency_code() == Some("USD"))?,
    })
}

impl Seller for AwsLauncher {
    fn offered<'a>(&'a self, wish: &'a BlockQuery) -> BoxFuture<'a, Result<Vec<BlockOffer>, LaunchError>> {
        Box::pin(self.blocks(wish))
    }

    fn buy<'a>(&'a self, run: &'a str, order: &'a BlockOrder) -> BoxFuture<'a, Result<String, LaunchError>> {
        Box::pin(self.buy_block(run, order))
    }

    fn bought<'a>(&'a self, run: &'a str, region: &'a str) -> BoxFuture<'a, Result<Option<String>, LaunchError>> {
        Box::pin(self.block_of(run, region))
    }
}
