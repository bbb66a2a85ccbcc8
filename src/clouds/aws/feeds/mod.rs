//! What AWS tells anybody without an account: the spot advisor, the spot price feed and the documents of its price page. None is sent
//! again that has not changed.

pub mod addresses;
pub mod advisor;
pub mod price_map;
pub mod spot_feed;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::CLOUD;
use crate::feeds::addresses::Addresses;
use crate::feeds::price_map::{Places, PriceMap};
use crate::prices::gather::gather;
use crate::prices::price_list::{ListPrice, ListPrices};
use gpuplan_clouds_http::{Http, Reply, Request};
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PriceSource, RiskAnswer, RiskSource, SourceError};

/// Regions asked at the same time; a document of one is some 60 kB, packed.
const LANES: usize = 8;

/// Bands of interruption by machine type and region.
pub struct SpotAdvisor {
    addresses: Addresses,
}

/// Spot prices of whole regions.
pub struct SpotFeed {
    addresses: Addresses,
}

/// On-demand list prices, region by region.
pub struct PriceMaps {
    addresses: Addresses,
}

impl SpotAdvisor {
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses }
    }

    /// The document has no date inside; the day on which it last changed is the honest one.
    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let reply = kept::<advisor::AdvisorDocument>(&Http::new()?, self.addresses.advisor_document(), query).await?;
        Ok(reply.value.risks(&query.instances(), reply.modified_at.unwrap_or(reply.answered_at)))
    }
}

impl SpotFeed {
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let reply = kept::<spot_feed::SpotFeedDocument>(&Http::new()?, self.addresses.feed_document(), query).await?;
        Ok(reply.value.answer(&query.instances(), reply.modified_at.unwrap_or(reply.answered_at)))
    }
}

impl PriceMaps {
    pub fn new(addresses: Addresses) -> Self {
        Self { addresses }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let http = &Http::new()?;
        let deadline = Instant::now() + query.patience;
        let places = &kept::<Places>(http, self.addresses.places(), query).await?.value;
        let lanes = query.wanted.keys().map(|region| async move {
            let rows = timeout_at(deadline, self.region(http, places, region, query)).await;
            (region.to_string(), rows.unwrap_or_else(|_| Err(late())).map(|rows| (region, rows)))
        });
        let regions: Vec<_> = stream::iter(lanes.collect::<Vec<_>>()).buffered(LANES).collect().await;
        let mut prices = ListPrices::new(query, price_map::SOURCE);
        for (region, rows) in gather(regions, &mut prices.notes)? {
            for row in rows {
                prices.add(region, row.map(Some));
            }
        }
        let (offers, notes) = prices.into_offers(Timestamp::now());
        Ok(PriceAnswer { offers, history: Vec::new(), notes })
    }

    async fn region(
        &self,
        http: &Http,
        places: &Places,
        region: &str,
        query: &OfferQuery<'_>,
    ) -> Result<Vec<Result<ListPrice, String>>, SourceError> {
        let malformed = |detail: String| SourceError::Malformed { field: "prices of a region".to_owned(), detail };
        let name =
            places.name(region).ok_or_else(|| malformed("AWS's list of places has no such region".to_owned()))?;
        let instances = &query.instances();
        let map = kept::<PriceMap>(http, self.addresses.price_map(name), query).await?.value;
        map.prices(region, name, |instance| instances.contains_key(instance)).map_err(malformed)
    }
}

/// A public document, which is not sent again where the copy of an earlier question has not changed.
async fn kept<T: DeserializeOwned>(http: &Http, url: String, query: &OfferQuery<'_>) -> Result<Reply<T>, SourceError> {
    http.kept_json(&Request::get(url), query.documents.as_deref()).await
}

fn late() -> SourceError {
    let detail = "the prices of the region were not read in time".to_owned();
    SourceError::Unreachable { place: "the end of the document".to_owned(), detail }
}

impl RiskSource for SpotAdvisor {
    fn about(&self) -> About {
        About::public(CLOUD, advisor::SOURCE)
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

impl PriceSource for SpotFeed {
    fn about(&self) -> About {
        About::public(CLOUD, spot_feed::SOURCE)
    }

    fn address(&self) -> String {
        self.addresses.feed_document()
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}

impl PriceSource for PriceMaps {
    fn about(&self) -> About {
        About::public(CLOUD, price_map::SOURCE)
    }

    fn address(&self) -> String {
        self.addresses.price_map("REGION")
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}
