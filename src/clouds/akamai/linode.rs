//! `Linode`: asks Akamai for its plans and where they can be had. A key is not needed.

use jiff::Timestamp;

use crate::akamai::CLOUD;
use crate::akamai::types::{self, Answer, Plan, Room, SOURCE};
use crate::listing::{Listing, deadline, within};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError};
use serde::de::DeserializeOwned;

const BASE: &str = "https://api.linode.com";
const TYPES: &str = "/v4/linode/types";
const ROOM: &str = "/v4/regions/availability";
/// The most that a page may have (techdocs.akamai.com/linode-api/reference/pagination); there were 75 plans in 2026.
const ROWS_OF_A_PAGE: usize = 500;
const MOST_PAGES: u64 = 20;

/// Linode's public interface; a key is not needed.
pub struct Linode {
    endpoint: String,
}

impl Linode {
    /// Where the environment says, else where Linode is.
    pub fn from_environment() -> Self {
        Self::at(&endpoint("GPUPLAN_AKAMAI_ENDPOINT", BASE))
    }

    /// At another address.
    pub fn at(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned() }
    }

    /// Rows of all pages, how many could not be read, and when the oldest page was made.
    async fn pages<T: DeserializeOwned>(&self, path: &str) -> Result<(Vec<T>, usize, Timestamp), SourceError> {
        let http = Http::new()?;
        let (mut rows, mut unreadable, mut oldest) = (Vec::new(), 0, Timestamp::MAX);
        for page in 1..=MOST_PAGES {
            let url = format!("{}{path}?page={page}&page_size={ROWS_OF_A_PAGE}", self.endpoint);
            let reply = http.json::<Answer<T>>(&Request::get(url)).await?;
            oldest = oldest.min(reply.answered_at);
            unreadable += reply.value.data.unreadable;
            rows.extend(reply.value.data.read);
            if page >= reply.value.pages {
                return Ok((rows, unreadable, oldest));
            }
        }
        let detail = format!("there are more than {MOST_PAGES} pages");
        Err(SourceError::Malformed { field: "pages".to_owned(), detail })
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let (plans, _, answered_at) = self.pages::<Plan>(TYPES).await?;
        Ok(types::machines(&plans, known.hardware, &answered_at.strftime("%Y-%m-%d").to_string()))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let (plans, room) = tokio::join!(self.pages::<Plan>(TYPES), self.pages::<Room>(ROOM));
        let (plans, unreadable, answered_at) = plans?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, answered_at);
        listing.unreadable(CLOUD, unreadable);
        let room = room.map(|(room, unreadable, _)| {
            listing.unreadable("regions", unreadable);
            room
        });
        let room =
            room.map_err(|error| listing.note("regions", format!("where there is room is not known: {error}"))).ok();
        types::list(&plans, room.as_deref(), &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for Linode {
    fn about(&self) -> About {
        About::public(CLOUD, "akamai-machines")
    }

    fn address(&self) -> String {
        format!("{}{TYPES}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Akamai", deadline(known), self.list(known)))
    }
}

impl PriceSource for Linode {
    fn about(&self) -> About {
        About::public(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}{TYPES}", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Akamai", deadline(query), self.ask(query)))
    }
}
