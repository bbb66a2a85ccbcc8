//! `SpotPrices`: asks EC2 in every region at once for the spot price in force now, who lists the machine, and earlier prices.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::describe_spot_price_history::paginator::DescribeSpotPriceHistoryPaginator;
use aws_sdk_ec2::types::{InstanceType, SpotPrice};
use futures_util::future::join_all;
use jiff::Timestamp;

use crate::CLOUD;
use crate::account::session::{Account, Session};
use crate::catalog::offerings::{differences, listed};
use crate::catalog::zones::zone_ids;
use crate::feeds::addresses::service;
use crate::prices::gather::gather;
use crate::prices::spot::{self, Pool, Region, SpotPriceRow};
use crate::prices::spot_series::Series;
use gpuplan_hardware::{Hardware, InstanceId};
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PricePoint, PriceSource, SourceError, SourceNote};

/// Both are asked for: accounts of before 2014 have the first, all others the second.
pub const PRODUCTS: [&str; 2] = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"];
/// How far back EC2 remembers (documentation of DescribeSpotPriceHistory).
const HISTORY: Duration = Duration::from_hours(90 * 24);
/// Earlier prices are given up after so many rows of a region; EC2 gives a thousand a page, newest first.
const HISTORY_ROWS: usize = 100_000;

/// EC2's spot price history, read with the account's own credentials.
pub struct SpotPrices {
    session: Session,
}

impl SpotPrices {
    pub fn new(session: Session) -> Self {
        Self { session }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let account = &self.session.sign_in_for(query.patience).await?;
        let mut unchecked = query.instances();
        let questions = query.wanted.iter().map(|(region, instances)| {
            let instances: HashMap<_, _> =
                instances.iter().map(|id| (query.hardware.instance(*id).name.clone(), *id)).collect();
            let mut to_check: Vec<_> =
                instances.keys().filter(|name| unchecked.remove(name.as_str()).is_some()).cloned().collect();
            to_check.sort();
            let client = account.ec2(region);
            let question = Question { account, client, region, instances, to_check, with_history: query.history };
            async move { (region.to_string(), account.in_time(region, question.ask(query.hardware)).await) }
        });
        let outcomes = join_all(questions.collect::<Vec<_>>()).await;
        let mut answer = PriceAnswer::default();
        for part in gather(outcomes, &mut answer.notes)? {
            answer.offers.extend(part.offers);
            answer.history.extend(part.history);
            answer.notes.extend(part.notes);
        }
        Ok(answer)
    }
}

impl PriceSource for SpotPrices {
    fn about(&self) -> About {
        About::account(CLOUD, spot::SOURCE)
    }

    fn address(&self) -> String {
        service("EC2", "DescribeSpotPriceHistory")
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

/// What is asked in one region.
struct Question<'a> {
    account: &'a Account,
    client: Client,
    region: &'a str,
    instances: HashMap<String, InstanceId>,
    /// Machine types whose figures are compared here and in no other region.
    to_check: Vec<String>,
    with_history: bool,
}

impl Question<'_> {
    /// Only the prices in force can fail the region; whatever else is not said costs only itself.
    async fn ask(self, hardware: &Hardware) -> Result<PriceAnswer, SourceError> {
        let types: Vec<&String> = self.instances.keys().collect();
        let (prices, listed, mut notes, (history, cut_off)) = tokio::join!(
            self.prices_in_force(),
            listed(self.account, &self.client, self.region, &types),
            differences(self.account, &self.client, self.region, &self.to_check, hardware),
            self.earlier_prices(),
        );
        let rows = prices?;
        let answered_at = Timestamp::now();
        let mut zones = HashMap::new();
        if rows.iter().any(|row| row.zone_id.is_none()) {
            zones = zone_ids(self.account, &self.client, self.region, &mut notes).await;
        }
        let listed = listed
            .map_err(|error| notes.push(self.note(format!("nobody said which zones list a machine: {error}"))))
            .ok();
        let listed = listed
            .map(|pairs| pairs.into_iter().filter_map(|(name, zone)| Some((*self.instances.get(&name)?, zone.into()))));
        let listed = listed.map(Iterator::collect);
        let (offers, unread) = self.named(&zones, listed.as_ref(), answered_at).offers(&rows);
        notes.extend(unread);
        notes.extend(cut_off.map(|why| self.note(why)));
        Ok(PriceAnswer { offers, history, notes })
    }

    fn named<'a>(
        &'a self,
        zone_ids: &'a HashMap<String, String>,
        listed: Option<&'a HashSet<Pool>>,
        answered_at: Timestamp,
    ) -> Region<'a> {
        Region { name: self.region, zone_ids, instances: &self.instances, listed, answered_at }
    }

    /// From now on means the price in force now, once for each pool and product.
    async fn prices_in_force(&self) -> Result<Vec<SpotPriceRow>, SourceError> {
        let mut pages = self.pages(SystemTime::now()).send();
        let mut rows = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| self.account.error(self.region, &error))?;
            rows.extend(page.spot_price_history().iter().map(row));
        }
        Ok(rows)
    }

    /// As far back as patience lasts, and why it did not last. Thinned page by page.
    async fn earlier_prices(&self) -> (Vec<PricePoint>, Option<String>) {
        if !self.with_history {
            return (Vec::new(), None);
        }
        let (mut series, mut notes, mut rows) = (Series::default(), Vec::new(), 0);
        let zones = zone_ids(self.account, &self.client, self.region, &mut notes).await;
        let region = self.named(&zones, None, Timestamp::now());
        let mut pages = self.pages(SystemTime::now() - HISTORY).send();
        let deadline = self.account.soon();
        let why = loop {
            match tokio::time::timeout_at(deadline, pages.next()).await {
                Ok(None) => break None,
                Ok(Some(Ok(page))) => {
                    let page: Vec<SpotPriceRow> = page.spot_price_history().iter().map(row).collect();
                    series.add(&region, &page);
                    rows += page.len();
                }
                Ok(Some(Err(error))) => {
                    break Some(format!("earlier prices: {}", self.account.error(self.region, &error)));
                }
                Err(_) => break Some("earlier prices took too long; the oldest are missing".to_owned()),
            }
            if rows >= HISTORY_ROWS {
                break Some(format!("more than {HISTORY_ROWS} earlier prices; the oldest are missing"));
            }
        };
        (series.into_points(self.region), why)
    }

    fn pages(&self, since: SystemTime) -> DescribeSpotPriceHistoryPaginator {
        self.client
            .describe_spot_price_history()
            .start_time(since.into())
            .set_instance_types(Some(self.instances.keys().map(|name| InstanceType::from(name.as_str())).collect()))
            .set_product_descriptions(Some(PRODUCTS.map(str::to_owned).to_vec()))
            .into_paginator()
    }

    fn note(&self, detail: String) -> SourceNote {
        SourceNote { place: self.region.to_owned(), detail }
    }
}

pub fn row(price: &SpotPrice) -> SpotPriceRow {
    let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
    SpotPriceRow {
        instance_type: text(price.instance_type().map(InstanceType::as_str)),
        zone_name: text(price.availability_zone()),
        zone_id: price.availability_zone_id().filter(|id| !id.is_empty()).map(str::to_owned),
        price: text(price.spot_price()),
        since: price.timestamp().and_then(|time| Timestamp::new(time.secs(), 0).ok()),
    }
}
