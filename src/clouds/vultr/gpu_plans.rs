//! `GpuPlans`: asks Vultr for its plans, virtual machines and bare metal apart. A key is not needed.

use crate::listing::{Listing, deadline, within};
use crate::vultr::CLOUD;
use crate::vultr::plans::{self, Answer, Plan, SOURCE};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError};
use jiff::Timestamp;

const BASE: &str = "https://api.vultr.com";
/// Both kinds of plans; a page has at most 500 of them (vultr.com/api, "Meta and Pagination"), and there are fewer.
const PATHS: [&str; 2] = ["/v2/plans?type=all&per_page=500", "/v2/plans-metal?per_page=500"];
const MOST_PAGES: usize = 10;

pub struct GpuPlans {
    endpoint: String,
}

impl GpuPlans {
    pub fn from_environment() -> Self {
        Self::at(&endpoint("GPUPLAN_VULTR_ENDPOINT", BASE))
    }

    pub fn at(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned() }
    }

    /// All plans, how many rows could not be read, and when the older of the answers was made.
    async fn plans(&self) -> Result<(Vec<Plan>, usize, Timestamp), SourceError> {
        let http = Http::new()?;
        let (one, other) = tokio::try_join!(self.pages(&http, PATHS[0]), self.pages(&http, PATHS[1]))?;
        let (mut plans, unreadable, answered_at) = one;
        plans.extend(other.0);
        Ok((plans, unreadable + other.1, answered_at.min(other.2)))
    }

    async fn pages(&self, http: &Http, path: &str) -> Result<(Vec<Plan>, usize, Timestamp), SourceError> {
        let (mut plans, mut unreadable, mut oldest, mut cursor) = (Vec::new(), 0, Timestamp::MAX, String::new());
        for _ in 0..MOST_PAGES {
            let next = if cursor.is_empty() { String::new() } else { format!("&cursor={cursor}") };
            let reply = http.json::<Answer>(&Request::get(format!("{}{path}{next}", self.endpoint))).await?;
            oldest = oldest.min(reply.answered_at);
            for rows in [reply.value.plans, reply.value.plans_metal] {
                unreadable += rows.unreadable;
                plans.extend(rows.read);
            }
            cursor = reply.value.meta.links.next;
            if cursor.is_empty() {
                return Ok((plans, unreadable, oldest));
            }
            // It goes into an address, so only what needs no escape there is taken.
            if !cursor.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_=.".contains(&c)) {
                let detail = "it is no cursor".to_owned();
                return Err(SourceError::Malformed { field: "meta.links.next".to_owned(), detail });
            }
        }
        let detail = format!("there are more than {MOST_PAGES} pages");
        Err(SourceError::Malformed { field: "meta.links.next".to_owned(), detail })
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let (plans, _, answered_at) = self.plans().await?;
        Ok(plans::machines(&plans, known.hardware, &answered_at.strftime("%Y-%m-%d").to_string()))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let (plans, unreadable, answered_at) = self.plans().await?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, answered_at);
        listing.unreadable(CLOUD, unreadable);
        plans::list(&plans, &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for GpuPlans {
    fn about(&self) -> About {
        About::public(CLOUD, "vultr-machines")
    }

    fn address(&self) -> String {
        format!("{}/v2/plans", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Vultr", deadline(known), self.list(known)))
    }
}

impl PriceSource for GpuPlans {
    fn about(&self) -> About {
        About::public(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}/v2/plans", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Vultr", deadline(query), self.ask(query)))
    }
}
