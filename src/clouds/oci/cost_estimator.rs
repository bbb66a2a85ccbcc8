//! `CostEstimator`: asks for the two public documents behind Oracle's cost estimator.

use crate::listing::{Listing, deadline, within};
use crate::oci::CLOUD;
use crate::oci::shapes::{self, Document, Product, SOURCE, Shape};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError};

const BASE: &str = "https://www.oracle.com";
const PATH: &str = "/a/ocom/docs/cloudestimator2/data";

pub struct CostEstimator {
    endpoint: String,
}

impl CostEstimator {
    pub fn from_environment() -> Self {
        Self::at(&endpoint("GPUPLAN_OCI_ENDPOINT", BASE))
    }

    pub fn at(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned() }
    }

    fn document(&self, name: &str) -> Request {
        Request::get(format!("{}{PATH}/{name}.json", self.endpoint))
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let shapes = Http::new()?.json::<Document<Shape>>(&self.document("shapes")).await?;
        Ok(shapes::machines(&shapes.value.items, known.hardware, &shapes.answered_at.strftime("%Y-%m-%d").to_string()))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let http = Http::new()?;
        let (shapes, products) = (self.document("shapes"), self.document("products"));
        let (shapes, products) =
            tokio::try_join!(http.json::<Document<Shape>>(&shapes), http.json::<Document<Product>>(&products))?;
        // A price stands on both documents, so it is as old as the older one.
        let answered_at = shapes.answered_at.min(products.answered_at);
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, answered_at);
        shapes::list(&shapes.value.items, &products.value.items, &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for CostEstimator {
    fn about(&self) -> About {
        About::public(CLOUD, "oci-shapes")
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Oracle's cost estimator", deadline(known), self.list(known)))
    }
}

impl PriceSource for CostEstimator {
    fn about(&self) -> About {
        About::public(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Oracle's cost estimator", deadline(query), self.ask(query)))
    }
}
