//! From the machines on Vast's marketplace to offers. Pure.

use serde::Deserialize;
use serde_json::Value;

use crate::listing::{Gpus, Listing, Rows};
use crate::price;
use gpuplan_market::{Availability, Purchase, Suspicion};
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "vast-bundles";

/// Disk that is rented with a machine, since Vast rents none without: the image, the data of a small run and a checkpoint. GB.
const DISK_GB: i128 = 100;
/// Storage is quoted for a month of 30 days.
const HOURS_OF_A_MONTH: i128 = 720;
/// Share of time that a host was reachable, as Vast measures it; a host below is left out.
const RELIABLE: f64 = 0.98;
const MIB_OF_A_GIB: f64 = 1024.0;

#[derive(Debug, Deserialize)]
pub struct Bundles {
    pub offers: Rows<Bundle>,
}

/// A machine for rent. Prices are for all its GPUs and an hour, without disk.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Bundle {
    id: Value,
    gpu_name: String,
    num_gpus: Value,
    /// MiB of one GPU.
    gpu_ram: Value,
    dph_base: Value,
    min_bid: Value,
    /// Dollars for a GB and month.
    storage_cost: Value,
    /// GB.
    disk_space: Value,
    geolocation: Value,
    reliability: Value,
    reliability2: Value,
    verification: Value,
    rentable: Value,
    rented: Value,
}

impl Bundle {
    fn is_for_rent(&self) -> bool {
        self.id.is_u64()
            && self.rentable != false
            && self.rented != true
            && self.verification.as_str().is_none_or(|state| state == "verified")
    }

    /// A host that nobody has measured is not reliable.
    fn is_sound(&self) -> bool {
        let reliability = self.reliability2.as_f64().or(self.reliability.as_f64());
        reliability.is_some_and(|share| share >= RELIABLE)
            && self.disk_space.as_f64().is_some_and(|gb| gb >= DISK_GB as f64)
    }

    fn with_disk(&self, machine: &Value) -> Result<UsdPerHour, String> {
        let machine = price::rate(machine)?;
        if self.storage_cost.as_f64() == Some(0.0) {
            return Ok(machine);
        }
        let disk = price::amount(&self.storage_cost).map_err(|detail| format!("storage: {detail}"))?;
        price::sum(machine, price::hourly(disk, DISK_GB, HOURS_OF_A_MONTH)?)
    }

    /// Its GPUs, where it says how many.
    fn gpus(&self) -> Option<Gpus<'_>> {
        let count = self.num_gpus.as_u64().and_then(|gpus| u16::try_from(gpus).ok()).filter(|gpus| *gpus > 0)?;
        Some(Gpus { name: &self.gpu_name, memory_gb: self.gpu_ram.as_f64().map(|mib| mib / MIB_OF_A_GIB), count })
    }

    /// `BG` of `Bulgaria, BG`.
    fn country(&self) -> Option<&str> {
        let code = self.geolocation.as_str()?.rsplit(", ").next()?.trim();
        (code.len() == 2 && code.bytes().all(|letter| letter.is_ascii_uppercase())).then_some(code)
    }
}

/// The cheapest sound machine for each number of each GPU in each country, with its id.
pub fn list(rows: &Rows<Bundle>, listing: &mut Listing) {
    listing.unreadable("vast", rows.unreadable);
    let for_rent: Vec<&Bundle> = rows.read.iter().filter(|row| row.is_for_rent()).collect();
    for row in for_rent.iter().filter(|row| row.is_sound()) {
        let Some(Gpus { name, memory_gb, count }) = row.gpus() else { continue };
        let Some(instance) = listing.with_gpus(name, memory_gb, count) else { continue };
        let id = row.id.as_u64().map_or_else(|| "unknown".to_owned(), |id| id.to_string());
        let flags = format!("offer={id} disk_gb={DISK_GB}");
        if let Some(offer) = listing.offer(instance, row.country(), Purchase::OnDemand, row.with_disk(&row.dph_base)) {
            offer.availability = Availability::Seen;
            offer.flags = flags.as_str().into();
        }
        if row.min_bid.is_null() {
            continue;
        }
        if let Some(offer) = listing.offer(instance, row.country(), Purchase::Spot, row.with_disk(&row.min_bid)) {
            offer.suspicions.push(Suspicion::BidFloor);
            offer.flags = flags.into();
        }
    }
    let left_out = for_rent.iter().filter(|row| !row.is_sound()).count();
    if left_out > 0 {
        let detail = format!(
            "{left_out} of {} machines are left out: reliability below {RELIABLE} or unknown, or less than {DISK_GB} GB of disk",
            for_rent.len()
        );
        listing.note("vast", detail);
    }
}

/// The GPUs of the sound machines for rent.
pub fn gpus(rows: &Rows<Bundle>) -> impl Iterator<Item = Gpus<'_>> {
    rows.read.iter().filter(|row| row.is_for_rent() && row.is_sound()).filter_map(Bundle::gpus)
}

/// The question: every machine that is verified and free, the cheapest first.
pub fn question() -> String {
    let is = |value: bool| serde_json::json!({ "eq": value });
    serde_json::json!({
        "verified": is(true), "rentable": is(true), "rented": is(false), "type": "on-demand",
        "order": [["dph_total", "asc"]], "limit": MOST_MACHINES
    })
    .to_string()
}

/// More than the marketplace has had at one time, by the limit that others ask with.
const MOST_MACHINES: u32 = 3000;

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;
    use gpuplan_market::PriceAnswer;

    fn read(rows: Value) -> PriceAnswer {
        let bundles: Bundles = serde_json::from_value(json!({ "offers": rows })).unwrap();
        let mut listing = Listing::new(&HARDWARE, "vast", SOURCE, Timestamp::UNIX_EPOCH);
        list(&bundles.offers, &mut listing);
        listing.answer()
    }

    fn row(changes: Value) -> Value {
        let text = include_str!("../../../tests/fixtures/vast/bundle.json");
        let mut row = serde_json::from_str::<Value>(text).unwrap()["offers"][0].clone();
        row["reliability2"] = json!(0.995);
        for (key, value) in changes.as_object().unwrap() {
            row[key] = value.clone();
        }
        row
    }

    #[test]
    fn the_recorded_machine_is_of_unknown_reliability() {
        let answer = read(
            serde_json::from_str::<Value>(include_str!("../../../tests/fixtures/vast/bundle.json")).unwrap()["offers"]
                .clone(),
        );
        assert!(answer.offers.is_empty());
        assert_eq!(
            answer.notes[0].detail,
            "1 of 1 machines are left out: reliability below 0.98 or unknown, or less than 100 GB of disk"
        );
    }

    #[test]
    fn the_rate_has_the_disk_in_it_and_names_the_machine() {
        let answer = read(json!([row(json!({ "min_bid": 0.1 }))]));
        let found: Vec<_> = answer
            .offers
            .iter()
            .map(|offer| (offer.purchase, offer.quote.rate.to_string(), offer.suspicions.clone()))
            .collect();
        // 0.2 + 100 GB x 0.1 / 720 h, rounded up.
        let expected = [
            (Purchase::OnDemand, "0.213888889".to_owned(), vec![]),
            (Purchase::Spot, "0.113888889".to_owned(), vec![Suspicion::BidFloor]),
        ];
        assert_eq!(found, expected);
        assert_eq!(&*answer.offers[0].flags, "offer=1 disk_gb=100");
        assert_eq!(&*answer.offers[0].place.region, "BG");
        assert_eq!(read(json!([row(json!({ "storage_cost": 0 }))])).offers[0].quote.rate.to_string(), "0.20");
    }

    #[test]
    fn of_a_country_the_cheapest_stays_and_no_country_is_no_place() {
        let rows = json!([
            row(json!({ "id": 7, "dph_base": 0.18 })),
            row(json!({ "id": 8, "dph_base": 0.15 })),
            row(json!({ "id": 9, "dph_base": 0.01, "reliability2": 0.9 })),
            row(json!({ "id": 10, "dph_base": 0.01, "verification": "unverified" })),
            row(json!({ "id": 11, "dph_base": 0.01, "disk_space": 49.75 })),
            row(json!({ "id": 12, "dph_base": 0.01, "rented": true })),
            row(json!({ "id": 13, "geolocation": null })),
        ]);
        let answer = read(rows);
        let found: Vec<_> = answer.offers.iter().map(|offer| (&*offer.place.region, &*offer.flags)).collect();
        assert_eq!(found, [("BG", "offer=8 disk_gb=100"), ("any", "offer=13 disk_gb=100")]);
        assert_eq!(answer.offers[1].suspicions, [Suspicion::PlaceUnknown]);
    }

    #[test]
    fn a_card_of_another_size_and_a_price_of_nothing_are_no_offers() {
        assert!(
            read(json!([row(json!({ "gpu_name": "RTX 4090", "gpu_ram": 49140 }))])).notes[0]
                .detail
                .contains("not in the catalog")
        );
        for price in [json!(0), json!(null), json!("N/A*"), json!(-0.2)] {
            let answer = read(json!([row(json!({ "dph_base": price }))]));
            assert!(answer.offers.is_empty() && answer.notes.len() == 1, "{price}");
        }
        assert_eq!(
            read(json!([row(json!({ "storage_cost": null }))])).notes[0].detail,
            "storage: the price is missing"
        );
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_refused(price in any::<f64>(), storage in any::<f64>(), text in ".{0,40}") {
            for price in [json!(price), json!(text)] {
                let answer = read(json!([row(json!({ "dph_base": price, "min_bid": price, "storage_cost": storage, "geolocation": text }))]));
                prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
            }
            prop_assert!(serde_json::from_str::<Bundles>(&text).is_err());
        }
    }
}
