//! From Lambda's list of machine types to offers. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::lambda::CLOUD;
use crate::listing::Listing;
use crate::price;
use gpuplan_hardware::{CloudId, Hardware, MachineSheet};
use gpuplan_market::{Availability, MachineList, Purchase};

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
    /// Such as `H100 (80 GB SXM5)`.
    gpu_description: Value,
    price_cents_per_hour: Value,
    specs: Specs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Specs {
    gpus: Value,
    vcpus: Value,
    memory_gib: Value,
    storage_gib: Value,
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

/// Machine types that the catalog lacks, as Lambda describes them. Where it has capacity now is no list of where it has them.
pub fn machines(types: &Types, hardware: &Hardware, as_of: &str) -> MachineList {
    let cloud = CloudId::new(CLOUD);
    let unknown = types.data.iter().filter(|(name, _)| hardware.find_instance(&cloud, name).is_none());
    let sheets = unknown.filter_map(|(name, row)| sheet(name, &row.instance_type, hardware, as_of)).collect();
    MachineList { sheets, ..MachineList::default() }
}

fn sheet(name: &str, machine: &Machine, hardware: &Hardware, as_of: &str) -> Option<MachineSheet> {
    let specs = &machine.specs;
    let described = machine.gpu_description.as_str()?;
    let (family, rest) = described.split_once(" (").unwrap_or((described, ""));
    let words: Vec<&str> = rest.trim_end_matches(')').split_whitespace().collect();
    let (memory_gb, form) = match words.as_slice() {
        [gb, "GB", form @ ..] => (gb.parse::<f64>().ok(), form.join(" ")),
        _ => (None, String::new()),
    };
    let whole = format!("{family} {form}");
    let gpus = specs.gpus.as_u64().filter(|gpus| *gpus > 0)?;
    Some(MachineSheet {
        name: name.to_owned(),
        gpu: if hardware.find_gpu(&whole).is_some() { whole } else { family.to_owned() },
        vendor: "nvidia".to_owned(),
        gpus: gpus.to_string(),
        gpu_memory_mib: memory_gb.map(|gb| gb * 1024.0),
        vcpus: specs.vcpus.as_u64().and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or_default(),
        memory_mib: specs.memory_gib.as_f64().unwrap_or_default() * 1024.0,
        local_nvme_gb: specs.storage_gib.as_f64().map(|gib| gib * f64::from(1 << 30) / 1e9),
        network_gbit_per_s: None,
        cpu_architecture: if family.starts_with('G') { "arm64" } else { "x86_64" }.to_owned(),
        sold_as: "on-demand".to_owned(),
        as_of: as_of.to_owned(),
    })
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

    #[test]
    fn a_machine_that_no_catalog_has_is_priced_once_its_description_is_known() {
        let machine = |description: &str| {
            json!({ "gpu_description": description, "price_cents_per_hour": 499,
                "specs": { "gpus": 4, "vcpus": 104, "memory_gib": 900, "storage_gib": 11264 } })
        };
        let row = |description: &str| json!({ "instance_type": machine(description), "regions_with_capacity_available": [{ "name": "us-west-1" }] });
        let data = json!({ "data": { "gpu_4x_h100_new": row("H100 (80 GB SXM5)"), "gpu_4x_vera": row("Vera Q7 (192 GB)"), "odd": row("?") } });
        let types: Types = serde_json::from_value(data).unwrap();
        let mut hardware = HARDWARE.clone();
        let mut list = machines(&types, &hardware, "2026-11-24");
        list.teach(&CloudId::new(CLOUD), &mut hardware);
        let gpu = |name: &str| {
            let instance = hardware.instance(hardware.find_instance(&CloudId::new(CLOUD), name).unwrap());
            (hardware.gpu(instance.node.gpu).id.clone(), instance.vcpus)
        };
        assert_eq!(
            (gpu("gpu_4x_h100_new"), gpu("gpu_4x_vera")),
            (("h100-sxm5-80".to_owned(), 104), ("vera-q7-192".to_owned(), 104))
        );
        assert!(list.regions.is_empty() && list.notes.iter().any(|note| note.place == "odd"), "{:?}", list.notes);
        let mut listing = Listing::new(&hardware, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        super::list(&types, &mut listing);
        assert_eq!(listing.answer().offers.len(), 2);
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
