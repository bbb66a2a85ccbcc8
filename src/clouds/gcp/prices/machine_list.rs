//! `ListedMachines`: asks Compute Engine in which zones it has which machine types with GPUs, and what those are that no catalog has.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::account::project::Project;
use crate::prices::attached::Attached;
use crate::prices::zones::{Listing, last_segment, region};
use crate::{CLOUD, sdk};
use gpuplan_hardware::{CloudId, MachineSheet};
use gpuplan_market::{About, BoxFuture, MachineList, MachineSource, OfferQuery, SourceError};

const SOURCE: &str = "gcp-machine-types";
const ADDRESS: &str = "https://compute.googleapis.com";
/// Series with GPUs since A3 Ultra can be had as spot, booked or queued capacity and not on demand; what else a new one is sold as
/// only a price list says that knows it (cloud.google.com/compute/docs/accelerator-optimized-machines).
const NEW_SERIES_SOLD_AS: &str = "spot";
/// Cards that are attached to N1 are had on demand and as spot (cloud.google.com/compute/gpus-pricing).
const ATTACHED_SOLD_AS: &str = "on-demand spot";
/// Size of a local SSD partition in decimal GB: 375 GiB (cloud.google.com/compute/docs/disks/local-ssd).
const PARTITION_GB: f64 = 402.653_184;

/// The machine types of all zones.
pub struct ListedMachines {
    pub project: Project,
}

impl ListedMachines {
    async fn ask(&self, known: &OfferQuery<'_>) -> Result<MachineList, SourceError> {
        let listed = sdk::listings(&self.project, known.patience).await?;
        let as_of = Timestamp::now().strftime("%Y-%m-%d").to_string();
        let mut list = list(&listed.machines, &listed.unreachable, known, &as_of);
        list.notes.extend(listed.note);
        Ok(list)
    }
}

/// Regions with a zone that was silent are left out: nobody knows what they lack.
fn list(listings: &[Listing], unreachable: &[String], known: &OfferQuery, as_of: &str) -> MachineList {
    let silent: BTreeSet<&str> = unreachable.iter().filter_map(|zone| region(last_segment(zone))).collect();
    let mut list = MachineList::default();
    let known_regions = known.wanted.keys().filter(|region| !silent.contains(&***region));
    list.regions.extend(known_regions.map(|region| (region.clone(), BTreeSet::new())));
    let mut described = BTreeSet::new();
    for listing in listings.iter().filter(|listing| !listing.is_deprecated) {
        let Some(region) = region(&listing.zone).filter(|region| !silent.contains(region)) else { continue };
        list.regions.entry(region.into()).or_default().insert(listing.machine_type.clone());
        let is_known = known.hardware.find_instance(&CloudId::new(CLOUD), &listing.machine_type).is_some();
        if !is_known && described.insert(&listing.machine_type) {
            list.sheets.extend(sheet(listing, as_of));
        }
    }
    list
}

/// `None` for a machine without a GPU of its own.
fn sheet(listing: &Listing, as_of: &str) -> Option<MachineSheet> {
    let (gpu, count) = listing.accelerator.as_ref()?;
    Some(MachineSheet {
        name: listing.machine_type.clone(),
        gpu: gpu.clone(),
        vendor: gpu.split('-').next().unwrap_or_default().to_owned(),
        gpus: count.to_string(),
        gpu_memory_mib: stated_memory(gpu),
        vcpus: listing.vcpus,
        memory_mib: listing.memory_mib,
        local_nvme_gb: listing.ssd_partitions.map(|partitions| f64::from(partitions) * PARTITION_GB),
        network_gbit_per_s: None,
        cpu_architecture: listing.architecture.clone(),
        sold_as: match Attached::named(&listing.machine_type) {
            Some(_) => ATTACHED_SOLD_AS.to_owned(),
            None => NEW_SERIES_SOLD_AS.to_owned(),
        },
        as_of: as_of.to_owned(),
    })
}

/// The memory at the end of a name such as `nvidia-h200-141gb`. MiB, of decimal GB: what software sees is rather less.
fn stated_memory(gpu: &str) -> Option<f64> {
    let gb: f64 = gpu.rsplit('-').next()?.strip_suffix("gb")?.parse().ok()?;
    Some(gb * 1e9 / f64::from(1 << 20))
}

impl MachineSource for ListedMachines {
    fn about(&self) -> About {
        About::account(CLOUD, SOURCE)
    }

    fn address(&self) -> String {
        format!("{}/compute/v1/projects/PROJECT/aggregated/machineTypes", self.project.address(ADDRESS))
    }

    fn machines<'a>(&'a self, known: &'a OfferQuery<'a>) -> BoxFuture<'a, Result<MachineList, SourceError>> {
        Box::pin(self.ask(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;

    fn listing(zone: &str, machine_type: &str, gpu: &str, count: u32) -> Listing {
        Listing {
            zone: zone.to_owned(),
            machine_type: machine_type.to_owned(),
            accelerator: (count > 0).then(|| (gpu.to_owned(), count)),
            vcpus: 224,
            memory_mib: 4_063_232.0,
            ssd_partitions: Some(32),
            architecture: "x86_64".to_owned(),
            ..Listing::default()
        }
    }

    #[test]
    fn zones_become_regions_and_new_machines_sheets() {
        let hardware = Hardware::embedded().unwrap();
        let regions = ["us-central1", "europe-west9", "asia-east1"];
        let known = OfferQuery::for_instances(&hardware, regions.map(|region| (region.into(), Vec::new())).into());
        let listings = [
            listing("us-central1-b", "a4-highgpu-8g", "nvidia-b200", 8),
            listing("us-central1-c", "a5-highgpu-8g", "nvidia-vera-r300-288gb", 8),
            listing("us-east1-c", "a5-highgpu-8g", "nvidia-vera-r300-288gb", 8),
            listing("asia-east1-a", "a4-highgpu-8g", "nvidia-b200", 8),
            Listing { is_deprecated: true, ..listing("us-east1-c", "a2-highgpu-1g", "nvidia-tesla-a100", 1) },
        ];
        let list = list(&listings, &["zones/asia-east1-b".to_owned()], &known, "2026-11-24");
        let pools: Vec<(&str, usize)> = list.regions.iter().map(|(region, names)| (&**region, names.len())).collect();
        assert_eq!(pools, [("europe-west9", 0), ("us-central1", 2), ("us-east1", 1)], "a silent region is absent");
        assert_eq!(list.sheets.len(), 1);
        let mut taught = hardware.clone();
        let id = taught.learn(&CloudId::new(CLOUD), &list.sheets[0]).unwrap();
        let gpu = taught.gpu(taught.instance(id).node.gpu);
        assert_eq!((gpu.id.as_str(), gpu.is_assumed(), gpu.memory_label_gb), ("vera-r300-288gb-268", true, 268.0));
        assert!((taught.instance(id).local_nvme.unwrap().gib() - 12_000.0).abs() < 1.0);
    }
}
