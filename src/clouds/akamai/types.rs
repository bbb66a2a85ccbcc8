//! From Linode's plans and the room in its regions to machines and offers. Pure.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::akamai::CLOUD;
use crate::listing::{Listing, Rows};
use crate::price;
use gpuplan_hardware::{CloudId, Hardware, MachineSheet};
use gpuplan_market::{Availability, MachineList, Purchase, SourceNote};

/// Id of this source in an offer.
pub const SOURCE: &str = "akamai-types";

/// One page.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub struct Answer<T> {
    pub data: Rows<T>,
    /// How many there are; missing: this is all.
    #[serde(default)]
    pub pages: u64,
}

/// A plan. Unknown fields are ignored, every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Plan {
    id: String,
    /// Such as `RTX4000 Ada x1 Small`.
    label: String,
    gpus: Value,
    /// MiB.
    memory: Value,
    vcpus: Value,
    /// Mbit/s.
    network_out: Value,
    price: Price,
    region_prices: Vec<Price>,
}

/// An hour of a plan, in a region where it costs something else.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Price {
    id: String,
    hourly: Value,
}

/// Whether a region has a plan now.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Room {
    region: String,
    plan: String,
    available: bool,
}

impl Plan {
    fn gpus(&self) -> Option<u64> {
        self.gpus.as_u64().filter(|count| *count > 0)
    }

    /// `RTX4000 Ada` of `RTX4000 Ada x1 Small`, `RTX6000` of `Dedicated 32GB + RTX6000 GPU x1`. `None`: it is worded in another way.
    fn model(&self) -> Option<&str> {
        let count = self.gpus()?;
        let (before, _) = self.label.split_once(&format!(" x{count}"))?;
        let model = before.rsplit_once("+ ").map_or(before, |(_, model)| model);
        let model = model.strip_suffix(" GPU").unwrap_or(model);
        // What Akamai calls `RTX PRO 6000 Blackwell` is the Server Edition (its announcement of 18 March 2026).
        Some(model.strip_suffix(" Blackwell").unwrap_or(model)).filter(|model| !model.is_empty())
    }

    fn sheet(&self, as_of: &str) -> Option<MachineSheet> {
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        Some(MachineSheet {
            name: self.id.clone(),
            gpu: self.model()?.to_owned(),
            vendor: "NVIDIA".to_owned(),
            gpus: self.gpus()?.to_string(),
            gpu_memory_mib: None,
            vcpus: number(&self.vcpus).unwrap_or_default(),
            memory_mib: self.memory.as_f64().unwrap_or_default(),
            local_nvme_gb: None,
            network_gbit_per_s: self.network_out.as_f64().map(|mbit| mbit / 1e3),
            cpu_architecture: "x86_64".to_owned(),
            sold_as: "on-demand".to_owned(),
            as_of: as_of.to_owned(),
        })
    }

    fn price_in(&self, region: &str) -> &Value {
        let own = self.region_prices.iter().find(|price| price.id == region);
        &own.unwrap_or(&self.price).hourly
    }
}

/// Offers where a region has a plan now; of one that none has, its price without a place. `room`: `None` where nobody said.
pub fn list(plans: &[Plan], room: Option<&[Room]>, listing: &mut Listing) {
    for plan in plans.iter().filter(|plan| plan.gpus().is_some()) {
        let Some(instance) = listing.named(&plan.id) else { continue };
        let places = room.into_iter().flatten().filter(|room| room.available && room.plan == plan.id);
        let mut is_had = false;
        for Room { region, .. } in places {
            is_had = true;
            if let Some(offer) =
                listing.offer(instance, Some(region), Purchase::OnDemand, price::rate(plan.price_in(region)))
            {
                offer.availability = Availability::Seen;
            }
        }
        let rate = price::rate(&plan.price.hourly);
        match room {
            Some(_) if !is_had => listing.sold_out(instance, Purchase::OnDemand, rate),
            Some(_) => {}
            None => {
                listing.offer(instance, None, Purchase::OnDemand, rate);
            }
        }
    }
}

/// Plans that the catalog lacks. Where they can be had now is no list of where Akamai has them.
pub fn machines(plans: &[Plan], hardware: &Hardware, as_of: &str) -> MachineList {
    let cloud = CloudId::new(CLOUD);
    let mut list = MachineList::default();
    let unknown =
        plans.iter().filter(|plan| plan.gpus().is_some() && hardware.find_instance(&cloud, &plan.id).is_none());
    for plan in unknown {
        match plan.sheet(as_of) {
            Some(sheet) => list.sheets.push(sheet),
            None => list.notes.push(SourceNote {
                place: plan.id.clone(),
                detail: "which GPUs it has is not said; it is left out".to_owned(),
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

    /// Machines learnt first, as the program does.
    fn read(plans: Value, room: Option<Value>) -> (Hardware, PriceAnswer, Vec<SourceNote>) {
        let plans: Answer<Plan> = serde_json::from_value(plans).unwrap();
        let room = room.map(|room| serde_json::from_value::<Answer<Room>>(room).unwrap().data.read);
        let mut hardware = HARDWARE.clone();
        let mut machines = machines(&plans.data.read, &hardware, "2026-11-29");
        machines.teach(&CloudId::new(CLOUD), &mut hardware);
        let mut listing = Listing::new(&hardware, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        list(&plans.data.read, room.as_deref(), &mut listing);
        let answer = listing.answer();
        (hardware, answer, machines.notes)
    }

    fn recorded(part: &str) -> Value {
        let all: Value = serde_json::from_str(include_str!("../../../tests/fixtures/akamai/linode.json")).unwrap();
        all[part].clone()
    }

    fn found(hardware: &Hardware, answer: &PriceAnswer) -> Vec<(String, String, String, String)> {
        let row = |offer: &gpuplan_market::Offer| {
            let it = hardware.instance(offer.instance);
            let gpu = format!("{} {}", it.node.gpus, hardware.gpu(it.node.gpu).id);
            (it.name.clone(), gpu, offer.place.region.to_string(), offer.quote.rate.to_string())
        };
        answer.offers.iter().map(row).collect()
    }

    #[test]
    fn plans_are_offers_where_a_region_has_them() {
        let (hardware, answer, notes) = read(recorded("types"), Some(recorded("availability")));
        let row = |a: &str, b: &str, c: &str, d: &str| (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned());
        let expected = [
            row("g2-gpu-rtx4000a1-s", "1 rtx-4000-ada", "id-cgk", "0.62"),
            row("g2-gpu-rtx4000a1-s", "1 rtx-4000-ada", "us-ord", "0.52"),
            row("g2-gpu-rtx4000a4-m", "4 rtx-4000-ada", "any", "3.57"),
            row("g3-gpu-rtxpro6000-blackwell-1", "1 rtx-pro-6000-blackwell-se", "us-ord", "2.50"),
        ];
        assert_eq!(found(&hardware, &answer), expected);
        let sold_out = answer.offers.iter().find(|offer| &*offer.place.region == "any").unwrap();
        assert_eq!(sold_out.availability, Availability::SoldOut);
        assert_eq!(
            (answer.notes.len(), notes.len()),
            (1, 1),
            "a plan of which the list has no price: {:?}",
            answer.notes
        );
        let learnt = hardware.find_instance(&CloudId::new(CLOUD), "g3-gpu-rtxpro6000-blackwell-1").unwrap();
        assert_eq!(hardware.instance(learnt).host_network_gbit_per_s, Some(8.0));
    }

    #[test]
    fn without_the_room_of_regions_a_price_has_no_place() {
        let (hardware, answer, _) = read(recorded("types"), None);
        let found = found(&hardware, &answer);
        assert!(found.len() == 3 && found.iter().all(|(_, _, region, _)| region == "any"), "{found:?}");
        assert!(answer.offers.iter().all(|offer| offer.availability == Availability::Unknown));
    }

    #[test]
    fn a_label_says_which_gpu_it_is() {
        let model = |label: &str, gpus: u64| {
            let plan: Plan = serde_json::from_value(json!({"label": label, "gpus": gpus})).unwrap();
            plan.model().map(str::to_owned)
        };
        assert_eq!(model("RTX4000 Ada x4 Medium", 4).as_deref(), Some("RTX4000 Ada"));
        assert_eq!(model("Dedicated 32GB + RTX6000 GPU x1", 1).as_deref(), Some("RTX6000"));
        assert_eq!((model("GPU Large", 1), model(" x1", 1), model("RTX4000 Ada x2 Small", 4)), (None, None, None));
    }

    proptest! {
        #[test]
        fn any_plan_is_read_or_refused(id in ".{0,30}", label in ".{0,30}", price in any::<f64>(), gpus in any::<u64>()) {
            let plan = json!({"id": id, "label": label, "gpus": gpus, "price": {"hourly": price}, "region_prices": [{"id": id, "hourly": label}]});
            let room = json!({"data": [{"region": id, "plan": id, "available": true}]});
            let (_, answer, _) = read(json!({"data": [plan, 1]}), Some(room));
            prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
        }
    }
}
