//! From Lambda's list of machine types to offers. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::listing::Listing;
use crate::price;
use gpuplan_market::{Availability, Purchase};

/// Id of this source in an offer.
pub const SOURCE: &str = "lambda-instance-types";

const CENTS_OF_A_DOLLAR: i128 = 100;

#[derive(Debug, Deserialize)]
pub struct Types {
    data: BTreeMap<String, TypeRow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TypeRow {
    instance_type: Machine,
    regions_with_capacity_available: Vec<Region>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Machine {
    description: Value,
    price_cents_per_hour: Value,
    specs: Specs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Specs {
    gpus: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Region {
    name: Value,
}

/// An offer in every region that has the machine; where none has, one that is sold out and has no place.
pub fn list(types: &Types, listing: &mut Listing) {
    for (name, row) in types.data.iter().filter(|(_, row)| row.instance_type.specs.gpus.as_u64() != Some(0)) {
        let Some(instance) = listing.named(name) else { continue };
        let machine = &row.instance_type;
        let stated = machine.specs.gpus.as_u64().or_else(|| leading_count(machine.description.as_str()?));
        let known = u64::from(listing.hardware().instance(instance).node.devices());
        if stated.is_some_and(|stated| stated != known) {
            listing.note(
                name,
                format!("the cloud says {} GPUs and the catalog {known}; it is left out", stated.unwrap_or_default()),
            );
            continue;
        }
        let rate =
            price::amount(&machine.price_cents_per_hour).and_then(|cents| price::hourly(cents, 1, CENTS_OF_A_DOLLAR));
        let regions: Vec<&str> =
            row.regions_with_capacity_available.iter().filter_map(|region| region.name.as_str()).collect();
        for region in &regions {
            if let Some(offer) = listing.offer(instance, Some(region), Purchase::OnDemand, rate.clone()) {
                offer.availability = Availability::Seen;
            }
        }
        if regions.is_empty() {
            listing.sold_out(instance, Purchase::OnDemand, rate);
        }
    }
}

/// The count in `8x H100 (80 GB SXM5)`.
fn leading_count(description: &str) -> Option<u64> {
    description.split_once("x ")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;
    use gpuplan_market::{PriceAnswer, Suspicion};

    fn read(text: &str) -> PriceAnswer {
        let mut listing = Listing::new(&HARDWARE, "lambda", SOURCE, Timestamp::UNIX_EPOCH);
        list(&serde_json::from_str(text).unwrap(), &mut listing);
        listing.answer()
    }

    fn one(price: &Value, gpus: &Value, regions: &[&str]) -> PriceAnswer {
        let regions: Vec<Value> = regions.iter().map(|name| json!({ "name": name })).collect();
        let machine =
            json!({ "description": "8x H100 (80 GB SXM5)", "price_cents_per_hour": price, "specs": { "gpus": gpus } });
        read(
            &json!({ "data": { "gpu_8x_h100_sxm5": { "instance_type": machine, "regions_with_capacity_available": regions } } })
                .to_string(),
        )
    }

    #[test]
    fn the_recorded_answer_is_one_machine_in_one_region() {
        let answer = read(include_str!("../../../tests/fixtures/lambda/instance_types.json"));
        assert_eq!((answer.offers.len(), answer.notes.len()), (1, 0));
        assert_eq!(answer.offers[0].quote.rate.to_string(), "31.92");
        assert_eq!(&*answer.offers[0].place.region, "us-east-1");
        assert_eq!(answer.offers[0].availability, Availability::Seen);
    }

    #[test]
    fn what_no_region_has_is_sold_out_and_its_price_stays_known() {
        let answer = one(&json!(3192), &json!(8), &[]);
        assert_eq!(answer.offers[0].availability, Availability::SoldOut);
        assert_eq!(answer.offers[0].suspicions, [Suspicion::PlaceUnknown]);
        assert_eq!(answer.offers[0].quote.rate.to_string(), "31.92");
    }

    #[test]
    fn what_is_no_price_or_another_machine_is_a_note() {
        for price in [json!(0), json!(null), json!(-1), json!("N/A*")] {
            let answer = one(&price, &json!(8), &["us-east-1"]);
            assert!(answer.offers.is_empty() && answer.notes.len() == 1, "{price}");
        }
        assert_eq!(one(&json!(129.5), &json!(null), &["a", "b"]).offers[1].quote.rate.to_string(), "1.295");
        let answer = one(&json!(3192), &json!(4), &["us-east-1"]);
        assert_eq!(answer.notes[0].detail, "the cloud says 4 GPUs and the catalog 8; it is left out");
        let answer = read(
            r#"{"data":{"gpu_1x_new":{"instance_type":{"price_cents_per_hour":1,"specs":{"gpus":1}}},"cpu_4x":{"instance_type":{"specs":{"gpus":0}}}}}"#,
        );
        assert_eq!(answer.notes[0].detail, "1 machine type is not in the catalog: gpu_1x_new");
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_refused(price in any::<f64>(), text in ".{0,20}", gpus in any::<u64>()) {
            for price in [json!(price), json!(text)] {
                let answer = one(&price, &json!(gpus), &["us-east-1"]);
                prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
            }
            prop_assert!(serde_json::from_str::<Types>(&text).is_err());
        }
    }
}
