//! From DigitalOcean's droplet sizes to machines and offers. Pure.

use serde::Deserialize;
use serde_json::Value;

use crate::digitalocean::CLOUD;
use crate::listing::{Listing, Rows};
use crate::price;
use gpuplan_hardware::{CloudId, Hardware, MachineSheet};
use gpuplan_market::{Availability, MachineList, Purchase};

/// Id of this source in an offer.
pub const SOURCE: &str = "digitalocean-sizes";

/// Sizes that DigitalOcean may take back say so in their name, such as `gpu-b300x1-288gb-spot`.
const SPOT: &str = "-spot";
const MIB_OF_A_GIB: f64 = 1024.0;
const BYTES_OF_A_GIB: f64 = 1_073_741_824.0;

/// One page of sizes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Answer {
    pub sizes: Rows<Size>,
    pub links: Links,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Links {
    pages: Pages,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pages {
    next: Value,
}

impl Links {
    pub fn is_last(&self) -> bool {
        self.pages.next.as_str().is_none_or(str::is_empty)
    }
}

/// A size of droplet. Unknown fields are ignored, every field may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Size {
    slug: String,
    /// MiB.
    memory: Value,
    vcpus: Value,
    price_hourly: Value,
    /// Where it can be had now.
    regions: Vec<String>,
    available: Value,
    /// Mbit/s.
    networking_throughput: Value,
    /// Missing without GPUs.
    gpu_info: Option<GpuInfo>,
    disk_info: Vec<Disk>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GpuInfo {
    count: Value,
    /// Of all GPUs together.
    vram: Amount,
    /// Such as `nvidia_rtx6000_ada`.
    model: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Disk {
    /// `local` and `boot` stay, `scratch` is emptied when the droplet stops.
    r#type: String,
    size: Amount,
}

/// In GiB, as all answers have had it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Amount {
    amount: Value,
}

impl Size {
    fn terms(&self) -> Purchase {
        if self.slug.ends_with(SPOT) { Purchase::Spot } else { Purchase::OnDemand }
    }

    fn sheet(&self, as_of: &str) -> Option<MachineSheet> {
        let info = self.gpu_info.as_ref()?;
        let count = info.count.as_u64().filter(|count| *count > 0)?;
        let (vendor, model) = info.model.split_once('_')?;
        let disk = self.disk_info.iter().filter_map(|disk| disk.size.amount.as_f64()).sum::<f64>();
        Some(MachineSheet {
            name: self.slug.clone(),
            gpu: model.replace('_', " ").to_uppercase(),
            vendor: vendor.to_uppercase(),
            gpus: count.to_string(),
            gpu_memory_mib: info.vram.amount.as_f64().map(|gib| gib / count as f64 * MIB_OF_A_GIB),
            vcpus: self.vcpus.as_u64().and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or_default(),
            memory_mib: self.memory.as_f64().unwrap_or_default(),
            local_nvme_gb: Some(disk * BYTES_OF_A_GIB / 1e9).filter(|gb| *gb > 0.0),
            network_gbit_per_s: self.networking_throughput.as_f64().map(|mbit| mbit / 1e3),
            cpu_architecture: "x86_64".to_owned(),
            sold_as: self.terms().to_string(),
            as_of: as_of.to_owned(),
        })
    }
}

/// Offers in the regions that have a size now; of one that none has, its price without a place.
pub fn list(sizes: &Rows<Size>, listing: &mut Listing) {
    listing.unreadable(CLOUD, sizes.unreadable);
    let (hardware, cloud) = (listing.hardware(), CloudId::new(CLOUD));
    // A size that the catalog has is one with GPUs, whether or not the answer says so.
    let has_gpus = |size: &&Size| size.gpu_info.is_some() || hardware.find_instance(&cloud, &size.slug).is_some();
    for size in sizes.read.iter().filter(has_gpus) {
        let Some(instance) = listing.named(&size.slug) else { continue };
        let (rate, is_had) = (price::rate(&size.price_hourly), size.available != false && !size.regions.is_empty());
        for region in size.regions.iter().filter(|_| is_had) {
            if let Some(offer) = listing.offer(instance, Some(region), size.terms(), rate.clone()) {
                offer.availability = Availability::Seen;
            }
        }
        if !is_had {
            listing.sold_out(instance, size.terms(), rate);
        }
    }
}

/// Sizes that the catalog lacks. Where they can be had now is no list of where DigitalOcean has them.
pub fn machines(sizes: &Rows<Size>, hardware: &Hardware, as_of: &str) -> MachineList {
    let cloud = CloudId::new(CLOUD);
    let unknown = sizes.read.iter().filter(|size| hardware.find_instance(&cloud, &size.slug).is_none());
    MachineList { sheets: unknown.filter_map(|size| size.sheet(as_of)).collect(), ..MachineList::default() }
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
    fn read(answer: Value) -> (Hardware, PriceAnswer) {
        let answer: Answer = serde_json::from_value(answer).unwrap();
        let mut hardware = HARDWARE.clone();
        machines(&answer.sizes, &hardware, "2026-11-24").teach(&CloudId::new(CLOUD), &mut hardware);
        let mut listing = Listing::new(&hardware, CLOUD, SOURCE, Timestamp::UNIX_EPOCH);
        list(&answer.sizes, &mut listing);
        let answer = listing.answer();
        (hardware, answer)
    }

    fn size(changes: &Value) -> (Hardware, PriceAnswer) {
        let mut size = json!({ "slug": "gpu-h100x8-640gb", "price_hourly": 23.92, "regions": ["nyc1"], "available": true,
            "gpu_info": { "count": 8, "vram": { "amount": 640, "unit": "gib" }, "model": "nvidia_h100" } });
        size.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        read(json!({ "sizes": [size] }))
    }

    #[test]
    fn the_recorded_sizes_are_two_machines() {
        let recorded = include_str!("../../../tests/fixtures/digitalocean/sizes.json");
        let (hardware, answer) = read(serde_json::from_str(recorded).unwrap());
        let found: Vec<_> = answer
            .offers
            .iter()
            .map(|offer| {
                let it = hardware.instance(offer.instance);
                let gpu = hardware.gpu(it.node.gpu).id.as_str();
                (it.name.as_str(), gpu, it.node.devices(), &*offer.place.region, offer.quote.rate.to_string())
            })
            .collect();
        let expected = [
            ("gpu-h100x8-640gb", "h100-sxm5-80", 8, "nyc1", "23.92".to_owned()),
            ("gpu-mi300x8-1536gb", "mi300x", 8, "nyc1", "15.92".to_owned()),
        ];
        assert_eq!(found, expected);
        let h100 = hardware.instance(answer.offers[0].instance);
        assert_eq!((h100.vcpus, h100.host_network_gbit_per_s), (160, Some(10.0)));
        assert!((h100.local_nvme.unwrap().gib() - 43_006.0).abs() < 1.0);
    }

    #[test]
    fn names_say_the_terms_and_models_the_gpu() {
        let terms = |slug: &str| size(&json!({ "slug": slug })).1.offers[0].purchase;
        assert_eq!((terms("gpu-h100x8-640gb-spot"), terms("gpu-h100x8-640gb")), (Purchase::Spot, Purchase::OnDemand));
        let info = json!({ "count": 2, "vram": { "amount": 96 }, "model": "nvidia_rtx6000_ada" });
        let (hardware, answer) = size(&json!({ "slug": "gpu-6000adax2-96gb", "gpu_info": info }));
        let node = hardware.instance(answer.offers[0].instance).node;
        assert_eq!((hardware.gpu(node.gpu).id.as_str(), node.devices()), ("rtx-6000-ada", 2));
    }

    #[test]
    fn what_no_region_has_is_sold_out_and_a_price_of_nothing_is_a_note() {
        for changes in [json!({ "regions": [] }), json!({ "available": false })] {
            assert_eq!(size(&changes).1.offers[0].availability, Availability::SoldOut);
        }
        let (_, answer) = size(&json!({ "price_hourly": 0 }));
        assert_eq!((answer.offers.len(), answer.notes.len()), (0, 1));
        let (_, answer) = size(&json!({ "gpu_info": null }));
        assert_eq!((answer.offers.len(), answer.notes.len()), (0, 0), "a droplet without a GPU");
        let (_, answer) = size(&json!({ "slug": "gpu-h100x1-80gb", "gpu_info": null }));
        assert_eq!(answer.offers.len(), 1, "the catalog knows its GPU");
    }

    proptest! {
        #[test]
        fn any_size_is_read_or_refused(slug in ".{0,30}", price in any::<f64>(), count in any::<u64>()) {
            let info = json!({ "count": count, "vram": { "amount": price }, "model": slug });
            let (_, answer) = size(&json!({ "slug": slug, "price_hourly": price, "gpu_info": info }));
            prop_assert!(answer.offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
        }
    }
}
