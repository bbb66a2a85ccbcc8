//! `Machines`: asks Vast for everything on its marketplace, in one question. A key is not needed.

use crate::listing::{Listing, deadline, within};
use crate::vast::CLOUD;
use crate::vast::bundles::{self, Bundles, SOURCE};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PriceSource, SourceError};

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

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let request = Request::post(format!("{}{PATH}", self.endpoint), "application/json", bundles::question());
        let reply = Http::new()?.json::<Bundles>(&request).await?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, reply.answered_at);
        bundles::list(&reply.value.offers, &mut listing);
        Ok(listing.answer())
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
        Box::pin(within("Vast", deadline(), self.ask(query)))
    }
}
