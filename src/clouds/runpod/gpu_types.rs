//! `GpuTypes`: asks RunPod which data centres there are, then each of them for its GPUs. A key is not needed.

use futures_util::StreamExt;
use futures_util::stream;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::listing::{Listing, deadline, machines_with, within};
use crate::runpod::CLOUD;
use crate::runpod::stock::{self, DataCenters, GpuTypeRow, SOURCE};
use gpuplan_clouds_http::{Http, Reply, Request};
use gpuplan_clouds_http::{endpoint, one_line, redacted, variable};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError};

const BASE: &str = "https://api.runpod.io";
const PATH: &str = "/graphql";
/// Data centres asked at a time.
const LANES: usize = 8;
const DATA_CENTERS: &str = "query { dataCenters { id listed } }";
/// What is sold at all.
const SOLD: &str = "query { gpuTypes { id memoryInGb secureCloud maxGpuCountSecureCloud } }";
/// Stock differs by the number of GPUs in a machine, so every number is asked for.
const GPU_TYPES: &str = "query Stock($place: String) { gpuTypes { \
    id memoryInGb secureCloud securePrice maxGpuCountSecureCloud \
    x1: lowestPrice(input: {gpuCount: 1, secureCloud: true, dataCenterId: $place}) { minimumBidPrice stockStatus } \
    x2: lowestPrice(input: {gpuCount: 2, secureCloud: true, dataCenterId: $place}) { minimumBidPrice stockStatus } \
    x4: lowestPrice(input: {gpuCount: 4, secureCloud: true, dataCenterId: $place}) { minimumBidPrice stockStatus } \
    x8: lowestPrice(input: {gpuCount: 8, secureCloud: true, dataCenterId: $place}) { minimumBidPrice stockStatus } } }";

pub struct GpuTypes {
    endpoint: String,
    key: Option<String>,
}

type Stock<'a> = BoxFuture<'a, Result<Reply<stock::GpuTypes>, SourceError>>;

impl GpuTypes {
    pub fn from_environment() -> Self {
        Self { endpoint: endpoint("GPUPLAN_RUNPOD_ENDPOINT", BASE), key: variable("RUNPOD_API_KEY") }
    }

    pub fn at(endpoint: &str, key: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), key: Some(key.to_owned()).filter(|key| !key.is_empty()) }
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let types = self.graphql::<stock::GpuTypes>(&Http::new()?, SOLD, json!({})).await?;
        let gpus = types.value.gpu_types.read.iter().flat_map(GpuTypeRow::gpus);
        Ok(machines_with(gpus, CLOUD, known.hardware, types.answered_at))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let (http, until) = (Http::new()?, deadline(query));
        let places = within("RunPod", until, self.graphql::<DataCenters>(&http, DATA_CENTERS, json!({}))).await?;
        let places: Vec<String> =
            places.value.data_centers.read.into_iter().filter(|place| place.listed).map(|place| place.id).collect();
        let questions: Vec<Stock> = places.iter().map(|place| self.stock(&http, place, until)).collect();
        let answers: Vec<_> = stream::iter(questions).buffered(LANES).collect().await;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, jiff::Timestamp::UNIX_EPOCH);
        let (mut newest, mut first_error) = (None, None);
        for (place, answer) in places.iter().zip(answers) {
            match answer {
                Ok(reply) => {
                    listing.answered_at = reply.answered_at;
                    stock::list(&reply.value.gpu_types, place, &mut listing);
                    newest = Some(reply.value.gpu_types);
                }
                Err(error) => {
                    listing.note(place, error.to_string());
                    first_error.get_or_insert(error);
                }
            }
        }
        match (newest, first_error) {
            (None, Some(error)) => Err(error),
            // Only who has heard all data centres knows that none has it. List prices are the same in each.
            (Some(rows), None) => {
                stock::list_sold_out(&rows, &mut listing);
                Ok(listing.answer())
            }
            _ => Ok(listing.answer()),
        }
    }

    fn stock<'a>(&'a self, http: &'a Http, place: &'a str, until: Instant) -> Stock<'a> {
        Box::pin(within(place, until, self.graphql(http, GPU_TYPES, json!({ "place": place }))))
    }

    async fn graphql<T: DeserializeOwned>(
        &self,
        http: &Http,
        query: &str,
        variables: Value,
    ) -> Result<Reply<T>, SourceError> {
        let body = json!({ "query": query, "variables": variables }).to_string();
        let mut request = Request::post(format!("{}{PATH}", self.endpoint), "application/json", body);
        if let Some(key) = &self.key {
            request = request.secret("authorization", key, "Bearer ");
        }
        let reply = http.json::<stock::Reply<T>>(&request).await?;
        let (answered_at, modified_at) = (reply.answered_at, reply.modified_at);
        match (reply.value.data, reply.value.errors.first()) {
            (Some(value), None) => Ok(Reply { value, answered_at, modified_at }),
            (_, error) => Err(SourceError::Refused { code: "GraphQL".to_owned(), detail: self.said(error) }),
        }
    }

    /// The message of an error, without the key.
    fn said(&self, error: Option<&Value>) -> String {
        let words = error.and_then(|error| error["message"].as_str()).unwrap_or("an answer without data");
        one_line(&redacted(words, self.key.iter().map(String::as_str)))
    }
}

impl MachineSource for GpuTypes {
    fn about(&self) -> About {
        About::public(CLOUD, "runpod-machines")
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("RunPod", deadline(known), self.list(known)))
    }
}

impl PriceSource for GpuTypes {
    fn about(&self) -> About {
        About::public(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}
