//! From Verda's machine types and what its locations have to offers. Pure.

use serde::Deserialize;
use serde_json::Value;

use crate::listing::{Gpus, Listing, Rows};
use crate::price;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Availability, Purchase};

/// Id of this source in an offer.
pub const SOURCE: &str = "verda-instance-types";

/// A machine type. Unknown fields are ignored, every field may be missing; prices are texts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Type {
    #[serde(rename = "instance_type")]
    name: String,
    gpu: Described,
    gpu_memory: Memory,
    currency: Value,
    price_per_hour: Value,
    spot_price: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Described {
    /// Such as `2x RTX A6000 48GB`.
    description: String,
    number_of_gpus: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Memory {
    /// Of all GPUs together.
    size_in_gigabytes: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Location {
    location_code: String,
    availabilities: Vec<String>,
}

impl Type {
    /// Its GPUs, where it says how many.
    pub fn gpus(&self) -> Option<Gpus<'_>> {
        let count =
            self.gpu.number_of_gpus.as_u64().and_then(|gpus| u16::try_from(gpus).ok()).filter(|gpus| *gpus > 0)?;
        let memory_gb = self.gpu_memory.size_in_gigabytes.as_f64().map(|total| total / f64::from(count));
        let name = self.gpu.description.split_once("x ").map_or(self.gpu.description.as_str(), |(_, name)| name);
        Some(Gpus { name, memory_gb, count })
    }

    fn machine(&self, listing: &mut Listing) -> Option<InstanceId> {
        let Gpus { name, memory_gb, count } = self.gpus()?;
        listing.with_gpus(name, memory_gb, count)
    }

    fn price(&self, purchase: Purchase) -> &Value {
        if purchase == Purchase::Spot { &self.spot_price } else { &self.price_per_hour }
    }
}

/// Offers on these terms where a location has the machine; where none has, one that is sold out and has no place.
/// Without `locations` nobody knows where, or whether, it can be had.
pub fn list(types: &Rows<Type>, purchase: Purchase, locations: Option<&Rows<Location>>, listing: &mut Listing) {
    let mut nowhere = Vec::new();
    for row in &types.read {
        let Some(instance) = row.machine(listing) else { continue };
        if purchase == Purchase::Spot && row.spot_price.is_null() {
            continue;
        }
        if row.currency.as_str().is_some_and(|currency| !currency.eq_ignore_ascii_case("usd")) {
            listing.note(&row.name, "the price is not in dollars; it is left out".to_owned());
            continue;
        }
        let rate = price::rate(row.price(purchase));
        let mut is_somewhere = false;
        let known = locations.iter().flat_map(|locations| &locations.read);
        for location in known.filter(|location| location.availabilities.contains(&row.name)) {
            is_somewhere = true;
            if let Some(offer) = listing.offer(instance, Some(&location.location_code), purchase, rate.clone()) {
                offer.availability = Availability::Seen;
                offer.flags = format!("instance_type={}", row.name).into();
            }
        }
        if !is_somewhere {
            nowhere.push((instance, rate));
        }
    }
    for (instance, rate) in nowhere {
        // Another machine type of the same hardware may be there.
        if locations.is_none() {
            listing.offer(instance, None, purchase, rate);
        } else if !listing.has(instance, purchase) {
            listing.sold_out(instance, purchase, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;
    use gpuplan_market::{PriceAnswer, Suspicion};

    fn recorded(file: &str, key: &str) -> Value {
        serde_json::from_str::<Value>(file).unwrap()[key].clone()
    }

    fn types() -> Value {
        recorded(include_str!("../../../tests/fixtures/verda/instance_types.json"), "types")
    }

    fn read(types: Value, locations: Option<Value>) -> PriceAnswer {
        let types: Rows<Type> = serde_json::from_value(types).unwrap();
        let locations: Option<Rows<Location>> = locations.map(|locations| serde_json::from_value(locations).unwrap());
        let mut listing = Listing::new(&HARDWARE, "verda", SOURCE, Timestamp::UNIX_EPOCH);
        for purchase in [Purchase::OnDemand, Purchase::Spot] {
            list(&types, purchase, locations.as_ref(), &mut listing);
        }
        listing.answer()
    }

    fn shown(answer: &PriceAnswer) -> Vec<(&str, Purchase, String, Availability)> {
        let offers = answer.offers.iter();
        offers
            .map(|offer| (&*offer.place.region, offer.purchase, offer.quote.rate.to_string(), offer.availability))
            .collect()
    }

    #[test]
    fn the_recorded_types_are_where_their_locations_say() {
        let locations = recorded(include_str!("../../../tests/fixtures/verda/availability.json"), "locations");
        let answer = read(types(), Some(locations));
        let expected = [
            // One H100, which no location has.
            ("any", Purchase::OnDemand, "3.95".to_owned(), Availability::SoldOut),
            ("any", Purchase::Spot, "1.70".to_owned(), Availability::SoldOut),
            // Two RTX A6000; the total memory of 96 GB is that of both.
            ("FIN-01", Purchase::OnDemand, "1.98".to_owned(), Availability::Seen),
            ("FIN-01", Purchase::Spot, "0.70".to_owned(), Availability::Seen),
        ];
        assert_eq!(shown(&answer), expected);
        assert_eq!(&*answer.offers[2].flags, "instance_type=2A6000.20V");
        assert_eq!(answer.notes[0].detail, "1 machine type is not in the catalog: 1 x Tesla V100 16GB");
    }

    #[test]
    fn without_locations_nothing_is_claimed_about_stock() {
        let answer = read(types(), None);
        assert!(answer.offers.iter().all(|offer| offer.availability == Availability::Unknown));
        assert!(answer.offers.iter().all(|offer| offer.suspicions == [Suspicion::PlaceUnknown]));
        assert_eq!(answer.offers.len(), 4);
    }

    #[test]
    fn what_is_no_price_in_dollars_is_a_note_and_missing_spot_is_nothing() {
        let mut row = types()[0].clone();
        row["spot_price"] = json!(null);
        assert_eq!(read(json!([row]), None).offers.len(), 1);
        row["price_per_hour"] = json!("N/A*");
        let answer = read(json!([row]), None);
        assert!(answer.offers.is_empty() && answer.notes.len() == 1);
        row["currency"] = json!("eur");
        assert_eq!(read(json!([row]), None).notes[0].detail, "the price is not in dollars; it is left out");
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_refused(price in any::<f64>(), text in ".{0,40}", gpus in any::<u32>()) {
            let mut row = types()[0].clone();
            for price in [json!(price), json!(text)] {
                row["price_per_hour"] = price.clone();
                row["spot_price"] = price;
                prop_assert!(read(json!([row]), None).offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
            }
            row["gpu"] = json!({ "number_of_gpus": gpus, "description": text });
            let answer = read(json!([row]), None);
            prop_assert!(gpus > 0 && u16::try_from(gpus).is_ok() || answer.offers.is_empty(), "no machine has {gpus} GPUs");
            prop_assert!(serde_json::from_str::<Rows<Type>>(&text).is_err());
        }
    }
}
