//! `EvictionRates`: asks Azure Resource Graph for the eviction bands of spot machines, over the whole tenant.

use serde_json::json;

use crate::azure::CLOUD;
use crate::azure::eviction::{self, Page, SOURCE};
use crate::azure::sign_in;
use crate::listing::{deadline, within};
use gpuplan_clouds_http::{Http, Request};
use gpuplan_hardware::CloudId;
use gpuplan_market::{About, BoxFuture, OfferQuery, RiskAnswer, RiskSource, SourceError};

const PATH: &str = "/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01";
/// Machines with a GPU only; the `id` must be among the columns for the answer to have further pages.
const QUERY: &str = "SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' \
    | where tostring(sku.name) startswith 'standard_n' \
    | project id, sku = tostring(sku.name), location, rate = tostring(properties.evictionRate)";
const MOST_PAGES: usize = 50;

/// Eviction bands of the last days by machine type and region.
pub struct EvictionRates {
    endpoint: String,
    /// `None`: that of the user or of the machine.
    token: Option<String>,
}

impl EvictionRates {
    pub fn from_environment() -> Self {
        Self { endpoint: sign_in::management(), token: None }
    }

    pub fn at(endpoint: &str, token: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), token: Some(token.to_owned()) }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<RiskAnswer, SourceError> {
        let token = match &self.token {
            Some(token) => token.clone(),
            None => sign_in::token().await?,
        };
        let (http, mut answer, mut next) = (Http::new()?, RiskAnswer::default(), None::<String>);
        for _ in 0..MOST_PAGES {
            let body = match &next {
                None => json!({ "query": QUERY }),
                Some(skip) => json!({ "query": QUERY, "options": { "$skipToken": skip } }),
            };
            let url = format!("{}{PATH}", self.endpoint);
            let request =
                Request::post(url, "application/json", body.to_string()).secret("authorization", &token, "Bearer ");
            let page: Page = http.json(&request).await?.value;
            eviction::list(&page.data, query.hardware, &CloudId::new(CLOUD), &mut answer);
            next = page.skip_token.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(answer);
            }
        }
        Err(SourceError::Malformed {
            field: "$skipToken".to_owned(),
            detail: format!("there are more than {MOST_PAGES} pages"),
        })
    }
}

impl RiskSource for EvictionRates {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn risks<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<RiskAnswer, SourceError>> {
        Box::pin(within("Azure Resource Graph", deadline(query), self.ask(query)))
    }
}
