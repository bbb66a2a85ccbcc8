//! `DropletSizes`: asks DigitalOcean for its droplet sizes, one question for all regions.

use crate::digitalocean::CLOUD;
use crate::digitalocean::sizes::{self, Answer, SOURCE};
use crate::listing::{Listing, Rows, deadline, within};
use gpuplan_clouds_http::{Http, Reply, Request};
use gpuplan_clouds_http::{endpoint, variable};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError};

const BASE: &str = "https://api.digitalocean.com";
const PATH: &str = "/v2/sizes";
/// The most that a page may have (docs.digitalocean.com/reference/api, "Links & Pagination"); there were 147 sizes in 2026.
const SIZES_OF_A_PAGE: usize = 200;
const MOST_PAGES: usize = 10;
/// As `doctl` names the variable, and as Terraform's provider does.
const TOKENS: [&str; 2] = ["DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_TOKEN"];

pub struct DropletSizes {
    endpoint: String,
    token: Option<String>,
}

impl DropletSizes {
    pub fn from_environment() -> Self {
        let token = TOKENS.into_iter().find_map(variable);
        Self { endpoint: endpoint("GPUPLAN_DIGITALOCEAN_ENDPOINT", BASE), token }
    }

    pub fn at(endpoint: &str, token: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), token: Some(token.to_owned()).filter(|token| !token.is_empty()) }
    }

    /// The sizes of all pages, as old as the first of them.
    async fn sizes(&self) -> Result<Reply<Rows<sizes::Size>>, SourceError> {
        let token = self.token.as_deref().ok_or(SourceError::MissingCredentials { variable: TOKENS[0] })?;
        let (http, mut all) = (Http::new()?, None::<Reply<Rows<sizes::Size>>>);
        for page in 1..=MOST_PAGES {
            let url = format!("{}{PATH}?per_page={SIZES_OF_A_PAGE}&page={page}", self.endpoint);
            let request = Request::get(url).secret("authorization", token, "Bearer ");
            let Reply { value: Answer { sizes, links }, answered_at, modified_at } = http.json(&request).await?;
            let whole = all.get_or_insert(Reply { value: Rows::default(), answered_at, modified_at });
            whole.value.read.extend(sizes.read);
            whole.value.unreadable += sizes.unreadable;
            if links.is_last() {
                return all.ok_or_else(|| Self::unreadable("there are none".to_owned()));
            }
        }
        Err(Self::unreadable(format!("there are more than {MOST_PAGES} pages")))
    }

    fn unreadable(detail: String) -> SourceError {
        SourceError::Malformed { field: "sizes".to_owned(), detail }
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let reply = self.sizes().await?;
        Ok(sizes::machines(&reply.value, known.hardware, &reply.answered_at.strftime("%Y-%m-%d").to_string()))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let reply = self.sizes().await?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, reply.answered_at);
        sizes::list(&reply.value, &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for DropletSizes {
    fn about(&self) -> About {
        About::account(CLOUD, "digitalocean-machines")
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("DigitalOcean", deadline(known), self.list(known)))
    }
}

impl PriceSource for DropletSizes {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("DigitalOcean", deadline(query), self.ask(query)))
    }
}
