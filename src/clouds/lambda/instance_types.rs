//! `InstanceTypes`: asks Lambda for its machine types, one question for all regions.

use crate::lambda::CLOUD;
use crate::lambda::types::{self, SOURCE, Types};
use crate::listing::{Listing, deadline, within};
use gpuplan_clouds_http::{Http, Reply, Request};
use gpuplan_clouds_http::{endpoint, variable};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError};

const BASE: &str = "https://cloud.lambda.ai";
const PATH: &str = "/api/v1/instance-types";
const KEY: &str = "LAMBDA_API_KEY";

pub struct InstanceTypes {
    endpoint: String,
    key: Option<String>,
}

impl InstanceTypes {
    pub fn from_environment() -> Self {
        Self { endpoint: endpoint("GPUPLAN_LAMBDA_ENDPOINT", BASE), key: variable(KEY) }
    }

    pub fn at(endpoint: &str, key: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), key: Some(key.to_owned()).filter(|key| !key.is_empty()) }
    }

    async fn types(&self) -> Result<Reply<Types>, SourceError> {
        let key = self.key.as_deref().ok_or(SourceError::MissingCredentials { variable: KEY })?;
        let request = Request::get(format!("{}{PATH}", self.endpoint)).secret("authorization", key, "Bearer ");
        Http::new()?.json(&request).await
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let reply = self.types().await?;
        Ok(types::machines(&reply.value, known.hardware, &reply.answered_at.strftime("%Y-%m-%d").to_string()))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let reply = self.types().await?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, reply.answered_at);
        types::list(&reply.value, &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for InstanceTypes {
    fn about(&self) -> About {
        About::account(CLOUD, "lambda-machine-types")
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Lambda", deadline(known), self.list(known)))
    }
}

impl PriceSource for InstanceTypes {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Lambda", deadline(query), self.ask(query)))
    }
}
