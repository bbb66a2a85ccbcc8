//! `SkuPrices`: the public price list of Compute Engine, asked page by page and composed into machines.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::account::project::Project;
use crate::encoded::percent_encoded;
use crate::prices::compose::{self, Parts};
use crate::prices::skus;
use crate::{CLOUD, sdk};
use gpuplan_clouds_http::variable;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::{About, BoxFuture, OfferQuery, PriceAnswer, PriceSource, SourceError, SourceNote};

/// The one secret that the price list needs, and the easiest to have.
const KEY: &str = "GPUPLAN_GCP_API_KEY";
const ADDRESS: &str = "https://cloudbilling.googleapis.com";
/// Compute Engine in the Cloud Billing Catalog.
const SERVICE: &str = "services/6F81-5844-456A/skus";
/// The most that one answer may have (Cloud Billing Catalog v1, `services.skus.list`).
const PAGE_SIZE: u32 = 5000;
/// Some 30,000 rows make seven pages; an answer that goes on and on is broken.
const MOST_PAGES: usize = 40;

/// The Cloud Billing Catalog, with an API key or, in a build with the SDK, the application default credentials.
pub struct SkuPrices {
    project: Project,
    key: Option<String>,
}

impl SkuPrices {
    /// The key of the environment is not read for a stand-in on this machine.
    pub fn from_environment() -> Self {
        let project = Project::from_environment();
        let key = if project.is_stand_in() { None } else { variable(KEY) };
        Self { project, key }
    }

    pub fn at(project: Project, key: Option<&str>) -> Self {
        Self { project, key: key.map(str::to_owned) }
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let (parts, zones) = tokio::join!(self.parts(query.patience), sdk::zones(&self.project, query.patience));
        let (parts, answered_at, mut notes) = parts?;
        let (offers, missing) = compose::offers(query, &parts, answered_at);
        notes.extend(missing);
        let offers = match zones {
            Ok(zones) => {
                let (placed, without_zone) = zones.place(offers, query.hardware);
                notes.extend(without_zone);
                placed
            }
            Err(error) => {
                let detail =
                    format!("the zones that have a machine are not known ({error}); prices stand for their region");
                notes.push(SourceNote { place: CLOUD.to_owned(), detail });
                offers
            }
        };
        Ok(PriceAnswer { offers, history: Vec::new(), notes })
    }

    /// All priced parts, and when the first of them was said.
    async fn parts(&self, patience: Duration) -> Result<(Parts, Timestamp, Vec<SourceNote>), SourceError> {
        let (http, until) = (Http::new()?, Instant::now() + patience);
        let (mut parts, mut notes, mut token) = (Parts::default(), Vec::new(), String::new());
        let mut first_answer = None;
        for _ in 0..MOST_PAGES {
            let left = until.saturating_duration_since(Instant::now());
            let page = async { http.json::<skus::Page>(&self.page(&token).await?).await };
            let page = tokio::time::timeout(left, page).await.map_err(|_| self.unreachable(patience))??;
            let answered_at = *first_answer.get_or_insert(page.answered_at);
            for row in page.value.skus.iter().filter_map(|row| skus::read(row, answered_at)) {
                match row {
                    Ok(priced) => notes.extend(parts.add(&priced)),
                    Err(note) => notes.push(note),
                }
            }
            token = page.value.next_page_token;
            if token.is_empty() {
                return Ok((parts, answered_at, notes));
            }
        }
        Err(SourceError::Malformed {
            field: "nextPageToken".to_owned(),
            detail: format!("{MOST_PAGES} pages and no end"),
        })
    }

    async fn page(&self, token: &str) -> Result<Request, SourceError> {
        let mut url = format!("{}/v1/{SERVICE}?pageSize={PAGE_SIZE}&currencyCode=USD", self.project.address(ADDRESS));
        if !token.is_empty() {
            url += &format!("&pageToken={}", percent_encoded(token));
        }
        match &self.key {
            Some(key) => {
                self.project.may_have_keys()?;
                Ok(Request::get(url).secret("x-goog-api-key", key, ""))
            }
            None => sdk::signed(&self.project, Request::get(url)).await.map_err(|error| match error {
                SourceError::MissingCredentials { .. } => SourceError::MissingCredentials { variable: KEY },
                other => other,
            }),
        }
    }

    fn unreachable(&self, patience: Duration) -> SourceError {
        let detail = format!("the price list was not complete within {} s", patience.as_secs());
        SourceError::Unreachable { place: self.project.address(ADDRESS).to_owned(), detail }
    }
}

impl PriceSource for SkuPrices {
    fn about(&self) -> About {
        About::account(CLOUD, compose::SOURCE)
    }

    fn address(&self) -> String {
        format!("{}/v1/{SERVICE}", self.project.address(ADDRESS))
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(self.ask(query))
    }
}
