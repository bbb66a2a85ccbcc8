//! Hyperstack: what its regions have in stock and what a GPU costs, for who has a key.

use std::collections::BTreeMap;

use gpuplan_clouds_http::{Http, Request, endpoint, variable};
use gpuplan_market::{
    About, Availability, BoxFuture, MachineList, MachineSource, OfferQuery, PriceAnswer, PriceSource, Purchase,
    SourceError,
};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::listing::{Gpus, Listing, Rows, deadline, machines_with, within};
use crate::price;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "hyperstack";
/// Id of this source in an offer.
pub const SOURCE: &str = "hyperstack-flavors";

const BASE: &str = "https://infrahub-api.nexgencloud.com";
const KEY: &str = "HYPERSTACK_API_KEY";

/// The answer of `core/flavors`: machine types by GPU and region.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Flavors {
    data: Rows<Group>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    /// Such as `H100-80G-PCIe`, with `-spot` where its machines may be taken back; empty for machines without one.
    gpu: Option<String>,
    region_name: String,
    flavors: Rows<Flavor>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Flavor {
    /// Such as `n3-H100x8`.
    name: String,
    gpu_count: Value,
    stock_available: Option<bool>,
}

/// A line of `pricebook`, in dollars an hour: of a GPU under its name, of a core, of a disk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Price {
    name: String,
    value: Value,
}

/// A machine type in a region.
struct Machine<'a> {
    flavor: &'a str,
    region: &'a str,
    /// As the price list names its GPU.
    gpu: &'a str,
    purchase: Purchase,
    /// As a catalog names it: `H100 PCIe`.
    name: String,
    memory_gb: Option<f64>,
    count: u16,
    has_stock: Option<bool>,
}

impl Flavors {
    /// Machine types with GPUs. What says no number of them has none.
    fn machines(&self) -> Vec<Machine<'_>> {
        let mut machines = Vec::new();
        for group in &self.data.read {
            let Some(gpu) = group.gpu.as_deref().filter(|gpu| !gpu.is_empty()) else { continue };
            let (card, purchase) = match gpu.strip_suffix("-spot") {
                Some(card) => (card, Purchase::Spot),
                None => (gpu, Purchase::OnDemand),
            };
            let (name, memory_gb) = named(card);
            for row in &group.flavors.read {
                let count = row.gpu_count.as_u64().and_then(|gpus| u16::try_from(gpus).ok());
                let Some(count) = count.filter(|gpus| *gpus > 0) else { continue };
                machines.push(Machine {
                    flavor: &row.name,
                    region: &group.region_name,
                    gpu,
                    purchase,
                    name: name.clone(),
                    memory_gb,
                    count,
                    has_stock: row.stock_available,
                });
            }
        }
        machines
    }

    fn unreadable(&self) -> usize {
        self.data.unreadable + self.data.read.iter().map(|group| group.flavors.unreadable).sum::<usize>()
    }
}

/// `H100-80G-PCIe-NVLink`: an H100 PCIe of 80 GB. A bridge between pairs of cards is no other card.
fn named(gpu: &str) -> (String, Option<f64>) {
    let memory = |word: &str| word.strip_suffix('G')?.parse::<f64>().ok();
    let words = gpu.split('-').filter(|word| memory(word).is_none() && !word.eq_ignore_ascii_case("nvlink"));
    (words.collect::<Vec<_>>().join(" "), gpu.split('-').find_map(memory))
}

/// An offer of every machine type in every region, with what is known of its stock.
pub fn list(flavors: &Flavors, prices: &[Price], listing: &mut Listing) {
    let prices: BTreeMap<&str, &Value> = prices.iter().map(|price| (price.name.as_str(), &price.value)).collect();
    listing.unreadable(CLOUD, flavors.unreadable());
    for machine in flavors.machines() {
        let Some(instance) = listing.with_gpus(&machine.name, machine.memory_gb, machine.count) else { continue };
        let rate = prices.get(machine.gpu).map_or_else(
            || Err("the price list has no price for this GPU".to_owned()),
            |price| price::hourly(price::amount(price)?, machine.count.into(), 1),
        );
        let region = Some(machine.region).filter(|region| !region.is_empty());
        if let Some(offer) = listing.offer(instance, region, machine.purchase, rate) {
            offer.availability = match machine.has_stock {
                Some(true) => Availability::Seen,
                Some(false) => Availability::SoldOut,
                None => Availability::Unknown,
            };
            offer.flags = format!("flavor={}", machine.flavor).into();
        }
    }
}

/// Asks for the machine types of all regions and for the price list.
pub struct Hyperstack {
    endpoint: String,
    key: Option<String>,
}

impl Hyperstack {
    /// With the key of `HYPERSTACK_API_KEY`.
    pub fn from_environment() -> Self {
        Self { endpoint: endpoint("GPUPLAN_HYPERSTACK_ENDPOINT", BASE), key: variable(KEY) }
    }

    /// At another address, with this key.
    pub fn at(endpoint: &str, key: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), key: Some(key.to_owned()).filter(|key| !key.is_empty()) }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Timestamp), SourceError> {
        let key = self.key.as_deref().ok_or(SourceError::MissingCredentials { variable: KEY })?;
        let request = Request::get(format!("{}/v1/{path}", self.endpoint)).secret("api_key", key, "");
        let reply = Http::new()?.json(&request).await?;
        Ok((reply.value, reply.answered_at))
    }

    async fn find(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let (flavors, answered_at) = self.get::<Flavors>("core/flavors").await?;
        let machines = flavors.machines();
        let gpus = machines.iter().map(|row| Gpus { name: &row.name, memory_gb: row.memory_gb, count: row.count });
        Ok(machines_with(gpus, CLOUD, known.hardware, answered_at))
    }

    async fn ask(&self, query: &OfferQuery<'_>) -> Result<PriceAnswer, SourceError> {
        let (flavors, prices) =
            tokio::try_join!(self.get::<Flavors>("core/flavors"), self.get::<Rows<Price>>("pricebook"))?;
        let mut listing = Listing::new(query.hardware, CLOUD, SOURCE, prices.1);
        listing.unreadable("price list", prices.0.unreadable);
        list(&flavors.0, &prices.0.read, &mut listing);
        Ok(listing.answer())
    }
}

impl MachineSource for Hyperstack {
    fn about(&self) -> About {
        About::account(CLOUD, "hyperstack-machines")
    }

    fn address(&self) -> String {
        format!("{}/v1/core/flavors", self.endpoint)
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(within("Hyperstack", deadline(known), self.find(known)))
    }
}

impl PriceSource for Hyperstack {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}/v1", self.endpoint)
    }

    fn offers<'a>(&'a self, query: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<PriceAnswer, SourceError>> {
        Box::pin(within("Hyperstack", deadline(query), self.ask(query)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;

    /// Shaped as Hyperstack's published SDK declares its answers; stock and prices are made up.
    fn read(stock: &Value, price: &Value) -> PriceAnswer {
        let flavor = |name: &str, gpus: u32| json!({ "name": name, "gpu_count": gpus, "stock_available": stock });
        let flavors = json!({ "status": true, "data": [
            { "gpu": "H100-80G-PCIe-NVLink", "region_name": "CANADA-1", "flavors": [flavor("n3-H100x1", 1), flavor("n3-H100x8", 8)] },
            { "gpu": "", "region_name": "CANADA-1", "flavors": [flavor("n1-cpu-small", 0)] },
        ] });
        let prices: Rows<Price> =
            serde_json::from_value(json!([{ "name": "H100-80G-PCIe-NVLink", "value": price }, 7])).unwrap();
        let mut listing = Listing::new(&HARDWARE, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        list(&serde_json::from_value(flavors).unwrap(), &prices.read, &mut listing);
        listing.answer()
    }

    #[test]
    fn a_machine_costs_its_gpus_and_stock_is_what_the_region_says() {
        for (stock, availability) in [
            (json!(true), Availability::Seen),
            (json!(false), Availability::SoldOut),
            (json!(null), Availability::Unknown),
        ] {
            let answer = read(&stock, &json!(1.95));
            let [offer] = answer.offers.as_slice() else { panic!("{answer:?}") };
            assert_eq!((&*offer.place.region, offer.quote.rate.to_string()), ("CANADA-1", "1.95".to_owned()));
            assert_eq!(offer.availability, availability);
            assert_eq!(answer.notes[0].detail, "1 machine type is not in the catalog: 8 x H100 PCIe");
        }
    }

    #[test]
    fn a_gpu_without_a_price_is_a_note() {
        let mut listing = Listing::new(&HARDWARE, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        let flavors = json!({ "data": [{ "gpu": "L40", "region_name": "NORWAY-1", "flavors": [{ "name": "n3-L40x1", "gpu_count": 1 }] }] });
        list(&serde_json::from_value(flavors).unwrap(), &[], &mut listing);
        let answer = listing.answer();
        assert!(answer.offers.is_empty());
        assert_eq!(answer.notes[0].detail, "the price list has no price for this GPU");
    }

    #[test]
    fn what_is_named_spot_is_spot_of_the_same_card() {
        let flavor = json!([{ "name": "n3-H100x1-spot", "gpu_count": 1, "stock_available": true }]);
        let flavors =
            json!({ "data": [{ "gpu": "H100-80G-PCIe-spot", "region_name": "CANADA-1", "flavors": flavor }] });
        let prices: Rows<Price> = serde_json::from_value(json!([
            { "name": "H100-80G-PCIe", "value": "1.9" }, { "name": "H100-80G-PCIe-spot", "value": "1.52" }
        ]))
        .unwrap();
        let mut listing = Listing::new(&HARDWARE, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        list(&serde_json::from_value(flavors).unwrap(), &prices.read, &mut listing);
        let answer = listing.answer();
        let [offer] = answer.offers.as_slice() else { panic!("{answer:?}") };
        let name = HARDWARE.instance(offer.instance).name.as_str();
        assert_eq!(
            (name, offer.purchase, offer.quote.rate.to_string()),
            ("h100-pcie.1x", Purchase::Spot, "1.52".to_owned())
        );
    }

    #[test]
    fn names_of_gpus_are_read() {
        for (listed, name, memory_gb) in [
            ("H200-141G-SXM5", "H200 SXM5", Some(141.0)),
            ("A100-80G-PCIe", "A100 PCIe", Some(80.0)),
            ("RTX-A6000", "RTX A6000", None),
            ("L40", "L40", None),
        ] {
            assert_eq!(named(listed), (name.to_owned(), memory_gb));
        }
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_refused(price in any::<f64>(), text in ".{0,40}") {
            for price in [json!(price), json!(text)] {
                prop_assert!(read(&json!(true), &price).offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
            }
        }
    }
}
