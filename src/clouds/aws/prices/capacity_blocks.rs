//! `CapacityBlocks`: asks in every region which blocks can be had next, for machine types that are sold so: as many machines for as long as
//! is wished, else one for a day.

use std::collections::HashMap;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::primitives::DateTime;
use futures_util::future::join_all;
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::session::{Account, Session};
use crate::catalog::zones::zone_ids;
use crate::feeds::addresses::service;
use crate::prices::block::{self, Block};
use crate::prices::gather::gather;
use crate::prices::spot::Region;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PriceSource, SourceError, Span};

/// Capacity blocks, paid upfront: the only way to some machines.
pub struct CapacityBlocks {
    session: Session,
}

impl CapacityBlocks {
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let account = &self.session.sign_in_for(query.patience).await?;
        let is_sold_so = |id: &&InstanceId| query.hardware.instance(**id).sold_as.capacity_block;
        let named = |id: &InstanceId| (query.hardware.instance(*id).name.clone(), *id);
        let regions =
            query.wanted.iter().map(|(region, ids)| (region, ids.iter().filter(is_sold_so).map(named).collect()));
        let questions = regions.filter(|(_, instances): &(_, HashMap<_, _>)| !instances.is_empty()).map(
            |(region, instances)| async move {
                (region.to_string(), account.in_time(region, ask_region(account, region, &instances, query)).await)
            },
        );
        let outcomes = join_all(questions).await;
        let mut answer = PriceAnswer::default();
        for part in gather(outcomes, &mut answer.notes)? {
            answer.offers.extend(part.offers);
            answer.notes.extend(part.notes);
        }
        Ok(answer)
    }
}

/// A machine type that is refused costs only itself.
async fn ask_region(
    account: &Account,
    region: &str,
    instances: &HashMap<String, InstanceId>,
    query: &OfferQuery<'_>,
) -> Result<PriceAnswer, SourceError> {
    let client = &account.ec2(region);
    let mut names: Vec<(&String, &InstanceId)> = instances.iter().collect();
    names.sort();
    let place = |name: &str| format!("{region}, {name}");
    let questions = names.into_iter().map(|(name, id)| async move {
        let wish = Wish { name, span: query.span(*id), until: query.until };
        (place(name), offerings(account, client, region, wish).await)
    });
    let outcomes = join_all(questions).await;
    let mut notes = Vec::new();
    let blocks: Vec<Block> = gather(outcomes, &mut notes)?.into_iter().flatten().collect();
    let answered_at = Timestamp::now();
    let zones = if blocks.is_empty() { HashMap::new() } else { zone_ids(account, client, region, &mut notes).await };
    let region = Region { name: region, zone_ids: &zones, instances, listed: None, answered_at };
    let (offers, unread) = block::offers(&region, &blocks);
    notes.extend(unread);
    Ok(PriceAnswer { offers, history: Vec::new(), notes })
}

/// What is asked for.
struct Wish<'a> {
    name: &'a str,
    span: Span,
    until: Option<Timestamp>,
}

async fn offerings(
    account: &Account,
    client: &Client,
    region: &str,
    Wish { name, span, until }: Wish<'_>,
) -> Result<Vec<Block>, SourceError> {
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let racks = block::ultraservers(name, span.machines);
    let question = client.describe_capacity_block_offerings();
    let question = match racks {
        Some(racks) => question.ultraserver_type(racks.name).ultraserver_count(count(racks.count)),
        None => question.instance_type(name).instance_count(count(span.machines)),
    };
    let question = question
        .capacity_duration_hours(count(span.hours))
        .set_end_date_range(until.map(|until| DateTime::from_secs(until.as_second())));
    let mut pages = question.into_paginator().send();
    let mut blocks = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| account.error(region, &error))?;
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        blocks.extend(page.capacity_block_offerings().iter().map(|block| Block {
            id: text(block.capacity_block_offering_id()),
            instance_type: racks.map_or_else(|| text(block.instance_type()), |_| name.to_owned()),
            zone_name: text(block.availability_zone()),
            machines: match (racks, block.ultraserver_count()) {
                (Some(racks), Some(found)) => found.saturating_mul(count(racks.machines_each)),
                _ => block.instance_count().unwrap_or_default(),
            },
            hours: block.capacity_block_duration_hours().unwrap_or_default(),
            starts: block.start_date().and_then(|time| Timestamp::new(time.secs(), 0).ok()),
            ends: block.end_date().and_then(|time| Timestamp::new(time.secs(), 0).ok()),
            upfront_fee: text(block.upfront_fee()),
            currency: text(block.currency_code()),
        }));
    }
    Ok(blocks)
}

impl PriceSource for CapacityBlocks {
    fn about(&self) -> About {
        About::account(CLOUD, block::SOURCE)
    }

    fn address(&self) -> String {
        service("EC2", "DescribeCapacityBlockOfferings")
    }

    fn sells_ahead(&self) -> bool {
        true
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}
