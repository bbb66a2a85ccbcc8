//! JarvisLabs: what a GPU costs in its regions and how many are free, for who has a key.

use gpuplan_clouds_http::{Http, Reply, Request, endpoint, variable};
use gpuplan_market::{
    About, Availability, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, Purchase,
    SourceError,
};
use serde::Deserialize;
use serde_json::Value;

use crate::listing::{Gpus, Listing, Rows, deadline, machines_with, within};
use crate::price;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "jarvis-labs";
/// Id of this source in an offer.
pub const SOURCE: &str = "jarvis-labs-servers";

const BASE: &str = "https://backendprod.jarvislabs.net";
const PATH: &str = "/misc/server_meta";
const KEY: &str = "JL_API_KEY";
/// GPUs of a machine that are told apart, as far as a server has them.
const COUNTS: [u16; 4] = [1, 2, 4, 8];

/// The answer: servers by GPU and region.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Answer {
    server_meta: Rows<Server>,
}

/// Any number of the GPUs of a server is a machine. Numbers come as such or as texts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Server {
    /// Such as `A100-80GB`.
    gpu_type: String,
    region: String,
    /// GB of one GPU.
    vram: Value,
    /// GPUs of the server; missing: nobody says, so one is.
    num_gpus: Value,
    num_free_devices: Value,
    spot_num_free_devices: Value,
    /// Dollars for a GPU.
    price_per_hour: Value,
    /// The same for who may be interrupted; `null`: not sold so.
    spot_price: Value,
}

impl Server {
    fn machines(&self) -> impl Iterator<Item = Gpus<'_>> {
        let (most, memory_gb) = (number(&self.num_gpus).unwrap_or(1.0), number(&self.vram));
        let counts = COUNTS.into_iter().filter(move |count| f64::from(*count) <= most);
        counts.map(move |count| Gpus { name: &self.gpu_type, memory_gb, count })
    }

    fn terms(&self) -> impl Iterator<Item = (Purchase, &Value, &Value)> {
        let on_demand = (Purchase::OnDemand, &self.price_per_hour, &self.num_free_devices);
        let spot = (Purchase::Spot, &self.spot_price, &self.spot_num_free_devices);
        std::iter::once(on_demand).chain(Some(spot).filter(|(_, price, _)| !price.is_null()))
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number| *number > 0.0)
}

/// An offer of every machine in every region, with whether so many GPUs are free there.
pub fn list(answer: &Answer, listing: &mut Listing) {
    listing.unreadable(CLOUD, answer.server_meta.unreadable);
    for server in &answer.server_meta.read {
        let region = Some(server.region.as_str()).filter(|region| !region.is_empty());
        for Gpus { name, memory_gb, count } in server.machines() {
            let Some(instance) = listing.with_gpus(name, memory_gb, count) else { continue };
            for (purchase, price, free) in server.terms() {
                let rate = price::amount(price).and_then(|price| price::hourly(price, count.into(), 1));
                if let Some(offer) = listing.offer(instance, region, purchase, rate) {
                    offer.availability = match free.as_u64() {
                        Some(free) if free >= u64::from(count) => Availability::Seen,
                        Some(_) => Availability::SoldOut,
                        None => Availability::Unknown,
                    };
                }
            }
        }
    }
}

/// Asks for all servers at once.
pub struct Servers {
    endpoint: String,
    key: Option<String>,
}

impl Servers {
    /// With the key of `JL_API_KEY`.
    pub fn from_environment() -> Self {
        Self { endpoint: endpoint("GPUPLAN_JARVIS_LABS_ENDPOINT", BASE), key: variable(KEY) }
    }

    /// At another address, with this key.
    pub fn at(endpoint: &str, key: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), key: Some(key.to_owned()).filter(|key| !key.is_empty()) }
    }

    async fn servers(&self) -> Result<Reply<Answer>, SourceError> {
        let key = self.key.as_deref().ok_or(SourceError::MissingCredentials { variable: KEY })?;
        let request = Request::get(format!("{}{PATH}", self.endpoint)).secret("authorization", key, "Bearer ");
        Http::new()?.json(&request).await
    }

    async fn find(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let reply = self.servers().await?;
        let gpus = reply.value.server_meta.read.iter().flat_map(Server::machines);
        Ok(machines_with(gpus, CLOUD, known.hardware, reply.answered_at))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let reply = self.servers().await?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, reply.answered_at);
        list(&reply.value, &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for Servers {
    fn about(&self) -> About {
        About::account(CLOUD, "jarvis-labs-machines")
    }

    fn address(&self) -> String {
        format!("{}{PATH}", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("JarvisLabs", deadline(known), self.find(known)))
    }
}

impl PriceSource for Servers {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        MachineSource::address(self)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("JarvisLabs", deadline(query), self.ask(query)))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;

    const RECORDED: &str = include_str!("../../../tests/fixtures/jarvis_labs/server_meta.json");

    fn read(answer: &Value) -> PriceAnswer {
        let mut listing = Listing::new(&HARDWARE, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        list(&serde_json::from_value(answer.clone()).unwrap(), &mut listing);
        listing.answer()
    }

    #[test]
    fn machines_cost_their_gpus_and_are_there_as_far_as_they_are_free() {
        let answer = read(&serde_json::from_str(RECORDED).unwrap());
        let found: Vec<_> = answer
            .offers
            .iter()
            .map(|offer| {
                let name = HARDWARE.instance(offer.instance).name.as_str();
                (name, &*offer.place.region, offer.purchase, offer.quote.rate.to_string(), offer.availability)
            })
            .collect();
        let (seen, list) = (Availability::Seen, Purchase::OnDemand);
        for (name, region, purchase, rate) in [
            ("l4.1x", "india-noida-01", list, "0.44"),
            ("l4.1x", "india-noida-01", Purchase::Spot, "0.29"),
            ("h100-sxm.1x", "europe-01", list, "2.99"),
        ] {
            assert!(found.contains(&(name, region, purchase, rate.to_owned(), seen)), "{name} {purchase}: {found:?}");
        }
        let said = answer.notes.iter().map(ToString::to_string).collect::<String>();
        assert!(said.contains("not in the catalog") && said.contains("2 x L4"), "{said}");
    }

    #[test]
    fn what_is_no_price_is_a_note_and_what_is_taken_is_sold_out() {
        let row = |price: Value, free: Value| {
            json!({"server_meta": [{"gpu_type": "L4", "region": "r", "vram": "24", "price_per_hour": price,
                "spot_price": null, "num_free_devices": free}, 7]})
        };
        let taken = read(&row(json!(0.44), json!(0)));
        assert_eq!((taken.offers.len(), taken.offers[0].availability), (1, Availability::SoldOut));
        assert_eq!(taken.notes.len(), 1, "a row that is none: {:?}", taken.notes);
        assert_eq!(read(&row(json!(0.44), json!("bad"))).offers[0].availability, Availability::Unknown);
        for price in [json!("bad"), json!(0), json!(-1), json!(null)] {
            let answer = read(&row(price.clone(), json!(1)));
            assert_eq!((answer.offers.len(), answer.notes.len()), (0, 2), "{price}: {:?}", answer.notes);
        }
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_refused(price in any::<f64>(), text in ".{0,40}") {
            for price in [json!(price), json!(text)] {
                let row = json!({"server_meta": [{"gpu_type": "L4", "region": "r", "vram": "24", "price_per_hour": price, "spot_price": price}]});
                prop_assert!(read(&row).offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
            }
        }
    }
}
