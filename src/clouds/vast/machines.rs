//! `Machines`: asks Vast for everything on its marketplace, in one question. A key is not needed.

use crate::listing::{Listing, deadline, machines_with, within};
use crate::vast::CLOUD;
use crate::vast::bundles::{self, Bundles, SOURCE};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::{Http, Reply, Request};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError};

const BASE: &str = "https://console.vast.ai";
const PATH: &str = "/api/v0/bundles/";

pub struct Machines {
    endpoint: String,
}

impl Machines {
    pub fn from_environment() -> Self {
        Self::at(&endpoint("GPUPLAN_VAST_ENDPOINT", BASE))
    }

    pub fn at(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned() }
    }

    async fn bundles(&self) -> Result<Reply<Bundles>, SourceError> {
        let request = Request::post(format!("{}{PATH}", self.endpoint), "application/json", bundles::question());
        Http::new()?.json(&request).await
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let reply = self.bundles().await?;
        Ok(machines_with(bundles::gpus(&reply.value.offers), CLOUD, known.hardware, reply.answered_at))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let reply = self.bundles().await?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, reply.answered_at);
        bundles::list(&reply.value.offers, &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for Machines {
    fn about(&self) -> About {
        About::public(CLOUD, "vast-machines")
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Vast", deadline(known), self.list(known)))
    }
}

impl PriceSource for Machines {
    fn about(&self) -> About {
        About::public(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Vast", deadline(query), self.ask(query)))
    }
}
