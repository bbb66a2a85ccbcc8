//! `Instances`: asks each zone of Scaleway for its servers and what of them is there now. A key is not needed; prices are in euros.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use jiff::Timestamp;

use crate::euro::{self, EuroRate};
use crate::listing::{Listing, deadline, within};
use crate::scaleway::CLOUD;
use crate::scaleway::servers::{self, Answer, Room, SOURCE, Server};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_market::{
    About, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, SourceError, SourceNote,
};
use serde::de::DeserializeOwned;

const BASE: &str = "https://api.scaleway.com";
/// All of them (scaleway.com/en/developers/api/instances, "Availability Zones").
const ZONES: [&str; 9] =
    ["fr-par-1", "fr-par-2", "fr-par-3", "nl-ams-1", "nl-ams-2", "nl-ams-3", "pl-waw-1", "pl-waw-2", "pl-waw-3"];
/// The most that a page may have; a zone had some seventy servers in 2026.
const ROWS_OF_A_PAGE: usize = 100;
const MOST_PAGES: usize = 10;

/// Scaleway's public interface; a key is not needed.
pub struct Instances {
    endpoint: String,
    /// Where the European Central Bank is.
    bank: String,
}

type Named<T> = BTreeMap<String, T>;

impl Instances {
    /// Where the environment says, else where Scaleway is.
    pub fn from_environment() -> Self {
        Self::at(&endpoint("GPUPLAN_SCALEWAY_ENDPOINT", BASE))
    }

    /// With the European Central Bank at another address.
    #[must_use]
    pub fn with_euro(self, bank: &str) -> Self {
        Self { bank: bank.to_owned(), ..self }
    }

    /// At another address.
    pub fn at(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), bank: euro::address() }
    }

    /// Rows of all pages and when the oldest was made. The page after the last one is empty.
    async fn pages<T: DeserializeOwned>(
        &self,
        http: &Http,
        zone: &str,
        what: &str,
    ) -> Result<(Named<T>, Timestamp), SourceError> {
        let (mut rows, mut oldest) = (Named::new(), Timestamp::MAX);
        for page in 1..=MOST_PAGES {
            let base = &self.endpoint;
            let url =
                format!("{base}/instance/v1/zones/{zone}/products/servers{what}?page={page}&per_page={ROWS_OF_A_PAGE}");
            let reply = http.json::<Answer<T>>(&Request::get(url)).await?;
            oldest = oldest.min(reply.answered_at);
            let is_last = reply.value.servers.len() < ROWS_OF_A_PAGE;
            rows.extend(reply.value.servers);
            if is_last {
                return Ok((rows, oldest));
            }
        }
        let detail = format!("there are more than {MOST_PAGES} pages");
        Err(SourceError::Malformed { field: "servers".to_owned(), detail })
    }

    /// What every zone says, and why others do not. An error where none does.
    async fn zones(&self) -> Result<(Vec<Zone>, Vec<SourceNote>), SourceError> {
        let http = Http::new()?;
        let ask = async |name: &'static str| {
            let (servers, room) =
                tokio::join!(self.pages::<Server>(&http, name, ""), self.pages::<Room>(&http, name, "/availability"));
            let ((servers, answered_at), room) = (servers?, room.map(|(room, _)| room).ok());
            Ok::<_, SourceError>(Zone { name, servers, room, answered_at })
        };
        let (mut zones, mut notes, mut first) = (Vec::new(), Vec::new(), None);
        for (name, answer) in ZONES.iter().zip(join_all(ZONES.map(ask)).await) {
            match answer {
                Ok(zone) => zones.push(zone),
                Err(error) => {
                    notes.push(SourceNote { place: (*name).to_owned(), detail: error.to_string() });
                    first.get_or_insert(error);
                }
            }
        }
        first.filter(|_| zones.is_empty()).map_or(Ok((zones, notes)), Err)
    }

    async fn list(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let (zones, notes) = self.zones().await?;
        let mut list = MachineList { notes, ..MachineList::default() };
        for zone in &zones {
            let as_of = zone.answered_at.strftime("%Y-%m-%d").to_string();
            servers::machines(zone.name, &zone.servers, known.hardware, &as_of, &mut list);
        }
        Ok(list)
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let http = Http::new()?;
        let (zones, euro) = tokio::try_join!(self.zones(), EuroRate::today(&http, &self.bank))?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        for zone in &zones.0 {
            listing.answered_at = zone.answered_at;
            servers::list(zone.name, &zone.servers, zone.room.as_ref(), &euro, &mut listing);
        }
        for note in zones.1 {
            listing.note(&note.place, note.detail);
        }
        Ok(listing.answer())
    }
}

/// What a zone says.
struct Zone {
    name: &'static str,
    servers: Named<Server>,
    /// `None`: it does not say.
    room: Option<Named<Room>>,
    answered_at: Timestamp,
}

impl MachineSource for Instances {
    fn about(&self) -> About {
        About::public(CLOUD, "scaleway-machines")
    }

    fn address(&self) -> String {
        format!("{}/instance/v1/zones/ZONE/products/servers", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Scaleway", deadline(known), self.list(known)))
    }
}

impl PriceSource for Instances {
    fn about(&self) -> About {
        About::public(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}/instance/v1/zones/ZONE/products/servers", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Scaleway", deadline(query), self.ask(query)))
    }
}
