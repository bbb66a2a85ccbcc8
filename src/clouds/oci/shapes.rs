//! From the shapes and products of Oracle's cost estimator to offers. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::listing::{Listing, Rows};
use crate::oci::CLOUD;
use crate::price::{self, NANO};
use gpuplan_hardware::{CloudId, Hardware, MachineSheet};
use gpuplan_market::{MachineList, Purchase};
use gpuplan_units::{Usd, UsdPerHour};

/// Id of this source in an offer.
pub const SOURCE: &str = "oci-cost-estimator";

/// Preemptible capacity costs half of on-demand (Oracle documentation, "Preemptible Instances", billing).
const PREEMPTIBLE_PARTS: i128 = 2;

/// A document of either kind. Unknown fields are ignored, every field may be missing.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: serde::de::DeserializeOwned")]
pub struct Document<T> {
    pub items: Rows<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Shape {
    name: String,
    hidden: bool,
    status: Value,
    allow_preemptible: bool,
    gpu_qty: Value,
    gpu_memory_qty: Value,
    bundle_memory_qty: Value,
    products: Vec<Part>,
}

/// What a shape is billed by.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    #[serde(rename = "partNumber")]
    number: String,
    qty: Value,
    #[serde(rename = "type")]
    kind: Kind,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kind {
    value: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Product {
    part_number: String,
    billing_model: Value,
    #[serde(rename = "pricetype")]
    price_type: Value,
    currency_code_localizations: Vec<Localization>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Localization {
    currency_code: Value,
    prices: Vec<Tier>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tier {
    model: Value,
    value: Value,
}

impl Product {
    /// Dollars for one unit and hour, where that is all there is to the price.
    fn hourly(&self) -> Result<Usd, String> {
        let refuse = |what: &str| format!("product {} {what}; it is left out", self.part_number);
        if self.billing_model != "UCM" || self.price_type != "HOUR" {
            return Err(refuse("is not billed by the hour"));
        }
        let dollars = self.currency_code_localizations.iter().find(|prices| prices.currency_code == "USD");
        match dollars.map(|dollars| dollars.prices.as_slice()) {
            Some([tier]) if tier.model == "PAY_AS_YOU_GO" => price::amount(&tier.value),
            _ => Err(refuse("has no single pay-as-you-go price in dollars")),
        }
    }
}

impl Shape {
    /// Oracle lists rack machines with a remark behind the name that it has elsewhere.
    fn name(&self) -> &str {
        self.name.strip_suffix(" (NVL72)").unwrap_or(&self.name)
    }

    /// `A100` of `BM.GPU.A100-v2.8`; the oldest shapes name no GPU, and some say so.
    fn gpu(&self) -> Option<&str> {
        let name = self.name().split_once(".GPU.")?.1.rsplit_once('.')?.0;
        name.split('-').next().filter(|gpu| !gpu.eq_ignore_ascii_case("unknown"))
    }

    /// As Oracle describes it, where its name says which GPU it has. The memory of its GPUs is that of all together.
    fn sheet(&self, as_of: &str) -> Option<MachineSheet> {
        let gpus = self.gpu_qty.as_u64().filter(|gpus| *gpus > 0)?;
        let gb = |value: &Value| value.as_f64().filter(|gb| *gb > 0.0);
        Some(MachineSheet {
            name: self.name().to_owned(),
            gpu: self.gpu()?.to_owned(),
            vendor: if self.gpu()?.starts_with("MI") { "AMD" } else { "NVIDIA" }.to_owned(),
            gpus: gpus.to_string(),
            gpu_memory_mib: gb(&self.gpu_memory_qty).map(|gb| gb * 1024.0 / gpus as f64),
            vcpus: 0,
            memory_mib: gb(&self.bundle_memory_qty).unwrap_or(0.0) * 1e9 / f64::from(1 << 20),
            local_nvme_gb: None,
            network_gbit_per_s: None,
            cpu_architecture: if self.name.contains(".GB") { "arm64" } else { "x86_64" }.to_owned(),
            sold_as: if self.allow_preemptible { "on-demand spot" } else { "on-demand" }.to_owned(),
            as_of: as_of.to_owned(),
        })
    }

    fn is_sold(&self) -> bool {
        !self.hidden && self.status == "ACTIVE"
    }

    /// Sum over the parts. The part called `ocpu` is priced per GPU and hour on a shape that has GPUs.
    fn rate(&self, gpus: u32, products: &BTreeMap<&str, &Product>) -> Result<UsdPerHour, String> {
        let mut total: Option<UsdPerHour> = None;
        let mut has_gpus = false;
        for part in &self.products {
            let product = products.get(part.number.as_str());
            let unit = product
                .ok_or_else(|| format!("product {} is not in the price list; it is left out", part.number))?
                .hourly()?;
            let rate = match part.kind.value.as_str() {
                Some("ocpu") if !has_gpus => {
                    has_gpus = true;
                    price::hourly(unit, i128::from(gpus), 1)?
                }
                Some("memory") => price::hourly(unit, price::amount(&part.qty)?.nanos(), NANO)?,
                _ => return Err(format!("product {} is of an unknown kind; it is left out", part.number)),
            };
            total = Some(total.map_or(Ok(rate), |total| price::sum(total, rate))?);
        }
        total.filter(|_| has_gpus).ok_or_else(|| "no product says what its GPUs cost; it is left out".to_owned())
    }
}

/// Shapes with GPUs that the catalog lacks. Where they are the list does not say.
pub fn machines(shapes: &Rows<Shape>, hardware: &Hardware, as_of: &str) -> MachineList {
    let cloud = CloudId::new(CLOUD);
    let sold = shapes.read.iter().filter(|shape| shape.is_sold());
    let unknown = sold.filter(|shape| hardware.find_instance(&cloud, shape.name()).is_none());
    MachineList { sheets: unknown.filter_map(|shape| shape.sheet(as_of)).collect(), ..MachineList::default() }
}

/// Every shape with GPUs. The list names no region.
pub fn list(shapes: &Rows<Shape>, products: &Rows<Product>, listing: &mut Listing) {
    listing.unreadable("oci shapes", shapes.unreadable);
    listing.unreadable("oci products", products.unreadable);
    let products: BTreeMap<&str, &Product> =
        products.read.iter().map(|product| (product.part_number.as_str(), product)).collect();
    for shape in shapes.read.iter().filter(|shape| shape.is_sold()) {
        let Some(gpus) = shape.gpu_qty.as_u64().filter(|gpus| *gpus > 0) else { continue };
        let Some(instance) = listing.named(shape.name()) else { continue };
        let known = listing.hardware().instance(instance).node.devices();
        if gpus != u64::from(known) {
            listing.note(shape.name(), format!("the cloud says {gpus} GPUs and the catalog {known}; it is left out"));
            continue;
        }
        let rate = shape.rate(known, &products);
        if shape.allow_preemptible
            && let Ok(rate) = &rate
            && let Some(offer) = {
                let half = price::hourly(Usd::from_nanos(rate.nanos().into()), 1, PREEMPTIBLE_PARTS);
                listing.offer(instance, None, Purchase::Spot, half)
            }
        {
            offer.flags = "half_of_on_demand".into();
        }
        listing.offer(instance, None, Purchase::OnDemand, rate);
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

    fn read(shapes: Value, products: Value) -> PriceAnswer {
        let shapes: Document<Shape> = serde_json::from_value(json!({ "items": shapes })).unwrap();
        let products: Document<Product> = serde_json::from_value(json!({ "items": products })).unwrap();
        let mut listing = Listing::new(&HARDWARE, "oci", SOURCE, Timestamp::UNIX_EPOCH);
        list(&shapes.items, &products.items, &mut listing);
        listing.answer()
    }

    fn shape(name: &str, gpus: u32, parts: Value) -> Value {
        json!({ "name": name, "hidden": false, "status": "ACTIVE", "allowPreemptible": false, "gpuQty": gpus, "products": parts })
    }

    fn product(number: &str, price: Value) -> Value {
        let prices = json!([{ "model": "PAY_AS_YOU_GO", "value": price }]);
        let dollars = json!([{ "currencyCode": "EUR", "prices": [] }, { "currencyCode": "USD", "prices": prices }]);
        json!({ "partNumber": number, "billingModel": "UCM", "pricetype": "HOUR", "currencyCodeLocalizations": dollars })
    }

    fn gpus_only() -> Value {
        json!([{ "partNumber": "B98415", "qty": 112, "type": { "value": "ocpu" } }])
    }

    #[test]
    fn the_ocpu_of_a_gpu_shape_is_an_hour_of_one_gpu() {
        let answer = read(json!([shape("BM.GPU.H100.8", 8, gpus_only())]), json!([product("B98415", json!(10))]));
        assert_eq!(answer.offers[0].quote.rate.to_string(), "80.00");
        assert_eq!(answer.offers[0].suspicions, [Suspicion::PlaceUnknown]);
        assert_eq!(answer.notes, []);
    }

    #[test]
    fn memory_counts_and_preemptible_is_half() {
        let parts = json!([
            { "partNumber": "G", "qty": 15, "type": { "value": "ocpu" } }, { "partNumber": "M", "qty": 81.6, "type": { "value": "memory" } }
        ]);
        let mut shape = shape("VM.GPU.A10.1", 1, parts);
        shape["allowPreemptible"] = json!(true);
        let answer = read(json!([shape]), json!([product("G", json!(2)), product("M", json!(0.0015))]));
        let found: Vec<_> = answer.offers.iter().map(|offer| (offer.purchase, offer.quote.rate.to_string())).collect();
        assert_eq!(found, [(Purchase::OnDemand, "2.1224".to_owned()), (Purchase::Spot, "1.0612".to_owned())]);
    }

    #[test]
    fn a_shape_that_no_catalog_has_becomes_a_machine() {
        let mut new = shape("BM.GPU.Vera-v2.8", 8, gpus_only());
        (new["gpuMemoryQty"], new["bundleMemoryQty"]) = (json!(2304), json!(4096));
        let old = shape("BM.GPU9.4", 4, gpus_only());
        let mut gone = new.clone();
        (gone["name"], gone["hidden"]) = (json!("BM.GPU.Gone.8"), json!(true));
        let unknown = shape("BM.GPU.UNKNOWN.8", 8, gpus_only());
        let shapes: Document<Shape> = serde_json::from_value(
            json!({ "items": [new, old, unknown, gone, shape("BM.GPU.H100.8", 8, gpus_only())] }),
        )
        .unwrap();
        let mut list = machines(&shapes.items, &HARDWARE, "2026-11-24");
        let names: Vec<&str> = list.sheets.iter().map(|sheet| sheet.name.as_str()).collect();
        assert_eq!(names, ["BM.GPU.Vera-v2.8"], "one that names no GPU is no machine");
        let (mut hardware, cloud) = (HARDWARE.clone(), CloudId::new(CLOUD));
        list.teach(&cloud, &mut hardware);
        let node = hardware.instance(hardware.find_instance(&cloud, "BM.GPU.Vera-v2.8").unwrap()).node;
        let gpu = hardware.gpu(node.gpu);
        assert_eq!((gpu.is_assumed(), node.devices(), gpu.memory_visible_mib), (true, 8, 294_912.0));
    }

    #[test]
    fn the_rack_shape_is_found_under_its_own_name() {
        let answer =
            read(json!([shape("BM.GPU.GB200.4 (NVL72)", 4, gpus_only())]), json!([product("B98415", json!(16))]));
        assert_eq!(answer.offers[0].quote.rate.to_string(), "64.00");
    }

    #[test]
    fn the_recorded_shapes_have_no_gpu_and_say_nothing() {
        let shapes: Document<Shape> =
            serde_json::from_str(include_str!("../../../tests/fixtures/oci/shapes.json")).unwrap();
        let mut listing = Listing::new(&HARDWARE, "oci", SOURCE, Timestamp::UNIX_EPOCH);
        list(&shapes.items, &Rows::default(), &mut listing);
        let answer = listing.answer();
        assert!(answer.offers.is_empty() && answer.notes.is_empty());
    }

    #[test]
    fn what_is_no_plain_price_is_a_note() {
        let mut by_month = product("B98415", json!(10));
        by_month["pricetype"] = json!("MONTH");
        let mut committed = product("B98415", json!(10));
        committed["currencyCodeLocalizations"][1]["prices"][0]["model"] = json!("COMMIT");
        let mut tiered = product("B98415", json!(10));
        tiered["currencyCodeLocalizations"][1]["prices"] =
            json!([{ "model": "PAY_AS_YOU_GO", "value": 0 }, { "model": "PAY_AS_YOU_GO", "value": 1 }]);
        for product in [
            by_month,
            committed,
            tiered,
            product("B98415", json!(0)),
            product("B98415", json!("N/A*")),
            product("other", json!(1)),
        ] {
            let answer = read(json!([shape("BM.GPU.H100.8", 8, gpus_only())]), json!([product]));
            assert!(answer.offers.is_empty() && answer.notes.len() == 1, "{product}");
        }
        let answer = read(
            json!([shape("BM.GPU.H100.8", 4, gpus_only()), shape("BM.GPU.H100.8", 8, json!([]))]),
            json!([product("B98415", json!(10))]),
        );
        assert!(answer.offers.is_empty() && answer.notes.len() == 2);
    }

    proptest! {
        #[test]
        fn any_price_is_read_or_refused(price in any::<f64>(), quantity in any::<f64>(), text in ".{0,40}") {
            let parts = json!([
                { "partNumber": "G", "type": { "value": "ocpu" } }, { "partNumber": "M", "qty": quantity, "type": { "value": "memory" } }
            ]);
            for price in [json!(price), json!(text)] {
                let answer = read(json!([shape("VM.GPU.A10.1", 1, parts.clone())]), json!([product("G", price), product("M", json!(0.0015))]));
                prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
                prop_assert_eq!(answer.offers.len() + answer.notes.len(), 1);
            }
            prop_assert!(serde_json::from_str::<Document<Shape>>(&text).is_err());
        }
    }
}
