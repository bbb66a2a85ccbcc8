//! From Vultr's plans to machines and offers. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::listing::{Listing, Rows};
use crate::price;
use crate::vultr::CLOUD;
use gpuplan_hardware::{CloudId, Hardware, MachineSheet};
use gpuplan_market::{Availability, MachineList, Purchase, SourceNote};
use gpuplan_units::names::plain;

/// Id of this source in an offer.
pub const SOURCE: &str = "vultr-plans";

const MIB_OF_A_GIB: f64 = 1024.0;
/// Numbers of GPUs that machines are built with: of a plan with another number the memory was read wrongly.
const BUILT_WITH: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Plans name a GPU's memory by its label, of which less is visible, and a B200's by that of the chip: 192 of 180 GB.
const MEMORY_TOLERANCE: f64 = 0.12;

/// One answer; it has plans of one of the two kinds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Answer {
    pub plans: Rows<Plan>,
    pub plans_metal: Rows<Plan>,
    pub meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Meta {
    pub links: Links,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Links {
    /// Cursor of the next page; empty: this is the last.
    pub next: String,
}

/// A plan. Unknown fields are ignored, every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// Such as `vcg-a40-24c-120g-48vram` or `vbm-112c-2048gb-8-h100-gpu`.
    id: String,
    vcpu_count: Value,
    /// Of bare metal, which has no `vcpu_count`.
    cpu_threads: Value,
    /// MiB.
    ram: Value,
    /// GB of one disk.
    disk: Value,
    disk_count: Value,
    #[serde(flatten)]
    cost: Cost,
    /// Where it costs something else, by region.
    location_cost: BTreeMap<String, Cost>,
    /// `vcg` and `vdm`: virtual machines with GPUs.
    r#type: Value,
    /// Where it can be deployed now.
    locations: Vec<String>,
    deploy_ondemand: Value,
    deploy_preemptible: Value,
    /// Of all GPUs of the plan, or of its share of one.
    gpu_vram_gb: Value,
    /// Such as `NVIDIA_A100`.
    gpu_type: Value,
}

/// An hour of a plan.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cost {
    hourly_cost: Value,
    hourly_cost_preemptible: Value,
}

impl Cost {
    fn on(&self, purchase: Purchase) -> &Value {
        if purchase == Purchase::Spot { &self.hourly_cost_preemptible } else { &self.hourly_cost }
    }
}

/// The GPUs of a plan, as its sheet has them.
struct Gpus<'a> {
    model: &'a str,
    /// `8`, or a share such as `4/80`.
    count: String,
    /// Of each, or of the share.
    memory_mib: Option<f64>,
}

impl Plan {
    fn has_gpus(&self) -> bool {
        self.id.ends_with("-gpu") || matches!(self.r#type.as_str(), Some("vcg" | "vdm"))
    }

    /// What the plan says of its GPUs; some say it in their id alone. `None`: the GPU has no row, or no such number of it is built.
    fn gpus(&self, hardware: &Hardware) -> Option<Gpus<'_>> {
        let words: Vec<&str> = self.id.split('-').collect();
        if let ["vbm", .., before, model, "gpu"] = words.as_slice() {
            let count = if before.bytes().all(|c| c.is_ascii_digit()) { *before } else { "1" };
            return Some(Gpus { model, count: count.to_owned(), memory_mib: None });
        }
        let named = self.gpu_type.as_str().and_then(|named| Some(named.split_once('_')?.1));
        let model = named.or(words.get(1).copied())?;
        let in_its_id = || words.last()?.strip_suffix("vram")?.parse().ok();
        let total_gb = self.gpu_vram_gb.as_u64().or_else(in_its_id).filter(|gb| *gb > 0)?;
        let (count, share_of_gb) = split(total_gb as f64, &sizes(hardware, model))?;
        let count = share_of_gb.map_or_else(|| count.to_string(), |whole| format!("{total_gb}/{whole}"));
        let each = if share_of_gb.is_some() { 1.0 } else { count.parse().ok()? };
        Some(Gpus { model, count, memory_mib: Some(total_gb as f64 / each * MIB_OF_A_GIB) })
    }

    fn sheet(&self, hardware: &Hardware, as_of: &str) -> Option<MachineSheet> {
        let Gpus { model, count, memory_mib } = self.gpus(hardware)?;
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let is_bare_metal = self.id.starts_with("vbm-");
        let disks = if is_bare_metal { self.disk_count.as_f64().unwrap_or(1.0) } else { 1.0 };
        let sold = [(self.is_sold(Purchase::OnDemand), "on-demand"), (self.is_sold(Purchase::Spot), "spot")];
        let sold: Vec<&str> = sold.into_iter().filter(|(is_sold, _)| *is_sold).map(|(_, word)| word).collect();
        Some(MachineSheet {
            name: self.id.clone(),
            gpu: model.to_uppercase(),
            vendor: if model.to_lowercase().starts_with("mi") { "AMD" } else { "NVIDIA" }.to_owned(),
            gpus: count,
            gpu_memory_mib: memory_mib,
            vcpus: number(&self.vcpu_count).or(number(&self.cpu_threads)).unwrap_or_default(),
            memory_mib: self.ram.as_f64().unwrap_or_default(),
            local_nvme_gb: self.disk.as_f64().map(|gb| gb * disks),
            network_gbit_per_s: None,
            cpu_architecture: if model.to_lowercase().starts_with("gh") { "arm64" } else { "x86_64" }.to_owned(),
            sold_as: sold.join(" "),
            as_of: as_of.to_owned(),
        })
    }

    fn is_sold(&self, purchase: Purchase) -> bool {
        match purchase {
            Purchase::Spot => self.deploy_preemptible != false && !self.cost.hourly_cost_preemptible.is_null(),
            _ => self.deploy_ondemand != false,
        }
    }

    fn price_in(&self, region: &str, purchase: Purchase) -> &Value {
        let own = self.location_cost.get(region).map(|cost| cost.on(purchase));
        own.filter(|price| !price.is_null()).unwrap_or_else(|| self.cost.on(purchase))
    }
}

/// Label sizes of the GPUs of this family that Vultr is known to have, else of all; GB.
fn sizes(hardware: &Hardware, model: &str) -> Vec<f64> {
    let is_family = |id| plain(&hardware.gpu(id).family) == plain(model);
    let cloud = CloudId::new(CLOUD);
    let here = hardware.instances().iter().filter(|it| it.cloud == cloud && is_family(it.node.gpu));
    let here: Vec<f64> = here.map(|it| hardware.gpu(it.node.gpu).memory_label_gb).collect();
    if !here.is_empty() {
        return here;
    }
    let all = hardware.gpus().iter().filter(|gpu| plain(&gpu.family) == plain(model));
    all.map(|gpu| gpu.memory_label_gb).collect()
}

/// So much memory as whole GPUs of one of these sizes, or as the share of one: its size.
fn split(total_gb: f64, sizes: &[f64]) -> Option<(u16, Option<u16>)> {
    let whole = sizes.iter().find_map(|size| {
        let fits = |count: &&f64| (total_gb / **count / size - 1.0).abs() <= MEMORY_TOLERANCE;
        BUILT_WITH.iter().find(fits).map(|count| (*count as u16, None))
    });
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    whole.or_else(|| (total_gb < largest).then(|| (1, Some(largest.round() as u16))))
}

/// Offers where a plan can be deployed; of one that can be nowhere, its price without a place.
pub fn list(plans: &[Plan], listing: &mut Listing) {
    for plan in plans.iter().filter(|plan| plan.has_gpus()) {
        let Some(instance) = listing.named(&plan.id) else { continue };
        for purchase in [Purchase::OnDemand, Purchase::Spot].into_iter().filter(|terms| plan.is_sold(*terms)) {
            let places: Vec<&String> = plan.locations.iter().filter(|place| !place.is_empty()).collect();
            for place in &places {
                if let Some(offer) =
                    listing.offer(instance, Some(place), purchase, price::rate(plan.price_in(place, purchase)))
                {
                    offer.availability = Availability::Seen;
                }
            }
            if places.is_empty() {
                listing.sold_out(instance, purchase, price::rate(plan.cost.on(purchase)));
            }
        }
    }
}

/// Plans that the catalog lacks. Where they can be deployed now is no list of where Vultr has them.
pub fn machines(plans: &[Plan], hardware: &Hardware, as_of: &str) -> MachineList {
    let cloud = CloudId::new(CLOUD);
    let mut list = MachineList::default();
    let unknown = plans.iter().filter(|plan| plan.has_gpus() && hardware.find_instance(&cloud, &plan.id).is_none());
    for plan in unknown {
        match plan.sheet(hardware, as_of) {
            Some(sheet) => list.sheets.push(sheet),
            None => list.notes.push(SourceNote {
                place: plan.id.clone(),
                detail: "which GPUs it has, or which part of one, is not said; it is left out".to_owned(),
            }),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::listing::HARDWARE;
    use gpuplan_market::PriceAnswer;

    const RECORDED: &str = include_str!("../../../tests/fixtures/vultr/plans.json");

    fn plans(answer: Value) -> Vec<Plan> {
        let answer: Answer = serde_json::from_value(answer).unwrap();
        answer.plans.read.into_iter().chain(answer.plans_metal.read).collect()
    }

    fn recorded() -> Vec<Plan> {
        plans(serde_json::from_str(RECORDED).unwrap())
    }

    /// Machines learnt first, as the program does.
    fn read(plans: &[Plan]) -> (Hardware, PriceAnswer, Vec<SourceNote>) {
        let mut hardware = HARDWARE.clone();
        let mut machines = machines(plans, &hardware, "2026-11-24");
        machines.teach(&CloudId::new(CLOUD), &mut hardware);
        let mut listing = Listing::new(&hardware, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        list(plans, &mut listing);
        let answer = listing.answer();
        (hardware, answer, machines.notes)
    }

    #[test]
    fn the_recorded_plans_are_machines_slices_and_bare_metal() {
        let (hardware, answer, notes) = read(&recorded());
        let found: Vec<(&str, &str, String, String, String)> = answer
            .offers
            .iter()
            .map(|offer| {
                let it = hardware.instance(offer.instance);
                let gpu = hardware.gpu(it.node.gpu).id.as_str();
                let terms = format!("{} {}", offer.purchase, offer.place.region);
                (it.name.as_str(), gpu, it.node.gpus.to_string(), terms, offer.quote.rate.to_string())
            })
            .collect();
        let row = |name: &'static str, gpu: &'static str, gpus: &str, terms: &str, rate: &str| {
            (name, gpu, gpus.to_owned(), terms.to_owned(), rate.to_owned())
        };
        let expected = [
            row("vcg-a100-12c-120g-80vram", "a100-pcie-80", "1", "on-demand ewr", "2.397"),
            row("vcg-a40-24c-120g-48vram", "a40", "1", "on-demand blr", "1.712"),
            row("vcg-a100-1c-6g-4vram", "a100-pcie-80", "1/20", "on-demand ewr", "0.123"),
            row("vcg-a100-6c-60g-40vram", "a100-pcie-80", "1/2", "on-demand ewr", "1.397"),
            row("vbm-256c-2048gb-8-mi300x-gpu", "mi300x", "8", "on-demand ord", "17.52"),
            row("vbm-256c-2048gb-8-mi300x-gpu", "mi300x", "8", "spot ord", "14.72"),
            row("vbm-112c-2048gb-8-h100-gpu", "h100-sxm5-80", "8", "on-demand sea", "23.92"),
            row("vbm-112c-2048gb-8-h100-gpu", "h100-sxm5-80", "8", "spot sea", "18.40"),
        ];
        for row in &expected {
            assert!(found.contains(row), "{row:?}\n{found:#?}");
        }
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        let unread = notes.iter().filter(|note| note.place == "vcg-mi325x-252c-2872g-1536vram").count();
        assert_eq!(unread, 1, "six MI325X are not built: {notes:?}");
    }

    #[test]
    fn a_slice_has_its_share_of_memory_and_speed() {
        let (hardware, ..) = read(&recorded());
        let slice = hardware.find_instance(&CloudId::new(CLOUD), "vcg-a100-1c-6g-4vram").unwrap();
        let node = hardware.instance(slice).node;
        assert!((node.card_share() - 0.05).abs() < 1e-12 && node.gpu_memory.gib() <= 4.0, "{node:?}");
        assert_eq!(hardware.instance(slice).vcpus, 1);
    }

    #[test]
    fn what_nobody_can_deploy_is_no_offer_and_a_price_of_nothing_is_a_note() {
        let row = |changes: Value| {
            let mut row =
                json!({ "id": "vcg-a40-24c-120g-48vram", "type": "vcg", "hourly_cost": 1.712, "locations": ["blr"] });
            row.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            read(&plans(json!({ "plans": [row] }))).1
        };
        assert!(row(json!({ "deploy_ondemand": false })).offers.is_empty());
        assert_eq!(row(json!({ "locations": [""] })).offers[0].availability, Availability::SoldOut);
        assert_eq!(row(json!({ "hourly_cost": 0 })).notes.len(), 1);
        assert!(row(json!({ "type": "vc2", "id": "vc2-2c-4gb" })).offers.is_empty());
    }

    #[test]
    fn memory_is_whole_gpus_or_a_share_of_one_or_refused() {
        assert_eq!(split(640.0, &[80.0]), Some((8, None)));
        assert_eq!(split(1536.0, &[180.0]), Some((8, None)));
        assert_eq!(split(40.0, &[80.0]), Some((1, Some(80))));
        assert_eq!(split(40.0, &[40.0, 80.0]), Some((1, None)));
        assert_eq!((split(1536.0, &[256.0]), split(48.0, &[])), (None, None));
    }

    /// Ids as another program lists them, of which most say their GPUs in no other way.
    #[test]
    fn ids_alone_say_which_gpus_there_are() {
        let ids = [
            ("vcg-a100-12c-120g-80vram", "a100-pcie-80", "1"),
            ("vcg-a100-1c-12g-8vram", "a100-pcie-80", "1/10"),
            ("vcg-a100-2c-15g-10vram", "a100-pcie-80", "1/8"),
            ("vcg-a100-3c-30g-20vram", "a100-pcie-80", "1/4"),
            ("vcg-a100-24c-240g-160vram", "a100-pcie-80", "2"),
            ("vcg-a100-96c-960g-640vram", "a100-pcie-80", "8"),
            ("vcg-a16-2c-8g-2vram", "a16", "1/8"),
            ("vcg-a16-3c-32g-8vram", "a16", "1/2"),
            ("vcg-a16-6c-64g-16vram", "a16", "1"),
            ("vcg-a16-96c-960g-256vram", "a16", "16"),
            ("vcg-a40-1c-5g-2vram", "a40", "1/24"),
            ("vcg-a40-6c-30g-12vram", "a40", "1/4"),
            ("vcg-a40-96c-480g-192vram", "a40", "4"),
            ("vcg-l40s-128c-1500g-384vram", "l40s", "8"),
            ("vcg-b200-248c-2826g-1536vram", "b200-sxm-180", "8"),
            ("vbm-48c-1024gb-4-a100-gpu", "a100-pcie-80", "4"),
            ("vbm-72c-480gb-gh200-gpu", "gh200-96", "1"),
            ("vbm-64c-2048gb-8-l40-gpu", "l40s", "8"),
            ("vbm-256c-3072gb-8-mi355x-gpu", "mi355x", "8"),
        ];
        let rows: Vec<Value> = ids
            .iter()
            .map(|(id, ..)| json!({ "id": id, "type": "vdm", "hourly_cost": 1.0, "locations": ["ewr"] }))
            .collect();
        let (hardware, answer, notes) = read(&plans(json!({ "plans": rows })));
        for (id, gpu, count) in ids {
            let found = hardware.find_instance(&CloudId::new(CLOUD), id).map(|found| hardware.instance(found).node);
            let found = found.map(|node| (hardware.gpu(node.gpu).id.as_str(), node.gpus.to_string()));
            assert_eq!(found, Some((gpu, count.to_owned())), "{id}: {notes:?}");
        }
        assert_eq!(answer.offers.len(), ids.len());
    }

    #[test]
    fn a_region_may_have_a_price_of_its_own() {
        let plan = json!({ "id": "vcg-a40-24c-120g-48vram", "type": "vcg", "hourly_cost": 1.712, "locations": ["blr", "gru"],
            "location_cost": { "gru": { "hourly_cost": 2.14, "monthly_cost": 1562 }, "nrt": {} } });
        let (_, answer, _) = read(&plans(json!({ "plans": [plan] })));
        let rates: Vec<_> = answer.offers.iter().map(|it| (&*it.place.region, it.quote.rate.to_string())).collect();
        assert_eq!(rates, [("blr", "1.712".to_owned()), ("gru", "2.14".to_owned())]);
    }

    proptest! {
        #[test]
        fn any_plan_is_read_or_refused(id in ".{0,40}", gpus in any::<u64>(), price in any::<f64>()) {
            let row = json!({ "id": id, "type": "vcg", "gpu_type": "NVIDIA_A100", "gpu_vram_gb": gpus, "hourly_cost": price,
                "hourly_cost_preemptible": id, "locations": [id] });
            let (_, answer, _) = read(&plans(json!({ "plans": [row] })));
            prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
        }
    }
}
