//! Which zones list a machine type, and offers of a region given to those zones. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::prices::compose::listed;
use gpuplan_hardware::Hardware;
use gpuplan_market::{Availability, Offer, SourceNote, Suspicion};

/// A machine type in a zone, as the list of all zones says it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub zone: String,
    pub machine_type: String,
    pub is_deprecated: bool,
    /// The kind of GPU and how many, where a machine comes with some.
    pub accelerator: Option<(String, u32)>,
    pub vcpus: u32,
    pub memory_mib: f64,
    /// Partitions of local SSD that come with it; `None`: not said.
    pub ssd_partitions: Option<u32>,
    /// `x86_64` or `arm64`.
    pub architecture: String,
}

/// Zones of every region by machine type.
#[derive(Debug, Default)]
pub struct Zones {
    listed: BTreeMap<(String, String), BTreeSet<Arc<str>>>,
    /// Regions with a zone that did not answer: nothing is known of what they lack.
    silent: BTreeSet<String>,
}

impl Zones {
    pub fn new(listings: impl IntoIterator<Item = Listing>, unreachable: impl IntoIterator<Item = String>) -> Self {
        let mut listed = BTreeMap::<_, BTreeSet<Arc<str>>>::new();
        for Listing { zone, machine_type, .. } in listings.into_iter().filter(|listing| !listing.is_deprecated) {
            if let Some(region) = region(&zone) {
                listed.entry((machine_type, region.to_owned())).or_default().insert(zone.as_str().into());
            }
        }
        Self {
            listed,
            silent: unreachable.into_iter().filter_map(|zone| region(last_segment(&zone)).map(str::to_owned)).collect(),
        }
    }

    /// Zones of a region that list the machine type, in the order of their names.
    pub fn zones_with(&self, machine_type: &str, region: &str) -> Vec<String> {
        let zones = self.listed.get(&(machine_type.to_owned(), region.to_owned()));
        zones.into_iter().flatten().map(ToString::to_string).collect()
    }

    /// Zones of a region that list any machine, in the order of their names.
    pub fn zones_of(&self, region: &str) -> Vec<String> {
        let there = self.listed.iter().filter(|((_, of), _)| of == region).flat_map(|(_, zones)| zones);
        let zones: BTreeSet<&Arc<str>> = there.collect();
        zones.into_iter().map(ToString::to_string).collect()
    }

    /// Every offer once for each zone that lists its machine. A region without such a zone sells nothing: its price is a note.
    pub fn place(&self, offers: Vec<Offer>, hardware: &Hardware) -> (Vec<Offer>, Vec<SourceNote>) {
        let (mut placed, mut without) = (Vec::new(), BTreeMap::<&str, BTreeSet<Arc<str>>>::new());
        for offer in offers {
            let machine_type = hardware.instance(offer.instance).name.as_str();
            let region = offer.place.region.to_string();
            let is_silent = self.silent.contains(&region);
            match self.listed.get(&(machine_type.to_owned(), region)) {
                Some(zones) => placed.extend(zones.iter().map(|zone| in_zone(&offer, zone))),
                None if is_silent => placed.push(offer),
                None => {
                    without.entry(machine_type).or_default().insert(offer.place.region);
                }
            }
        }
        let note = |(machine_type, regions): (&str, BTreeSet<Arc<str>>)| {
            let regions: Vec<&str> = regions.iter().map(|region| &**region).collect();
            SourceNote {
                place: machine_type.to_owned(),
                detail: format!("priced in {}, where no zone lists it", listed(&regions)),
            }
        };
        (placed, without.into_iter().map(note).collect())
    }
}

fn in_zone(offer: &Offer, zone: &Arc<str>) -> Offer {
    let mut offer = offer.clone();
    offer.place.zone_id = Some(zone.clone());
    offer.availability = Availability::Listed;
    offer.suspicions.retain(|suspicion| *suspicion != Suspicion::ZoneUnverified);
    offer
}

/// `us-central1` of `us-central1-a`. Names of zones are the same for every account, so they serve as ids.
pub fn region(zone: &str) -> Option<&str> {
    zone.rsplit_once('-').map(|(region, _)| region).filter(|region| region.contains('-'))
}

/// `us-central1-a` of an address such as `https://…/projects/p/zones/us-central1-a`.
pub fn last_segment(address: &str) -> &str {
    address.rsplit('/').next().unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::CloudId;
    use gpuplan_market::{Location, Purchase};
    use gpuplan_units::UsdPerHour;

    fn listing(zone: &str, machine_type: &str, is_deprecated: bool) -> Listing {
        Listing { zone: zone.to_owned(), machine_type: machine_type.to_owned(), is_deprecated, ..Listing::default() }
    }

    #[test]
    fn an_offer_of_a_region_becomes_one_of_each_zone_that_lists_it() {
        let hardware = Hardware::embedded().unwrap();
        let instance = hardware.find_instance(&CloudId::new("gcp"), "a2-highgpu-1g").unwrap();
        let offer = |region: &str| {
            let place = Location { region: region.into(), zone_id: None };
            Offer::live(
                instance,
                place,
                Purchase::Spot,
                UsdPerHour::from_nanos(1),
                "gcp-skus",
                "2026-07-30T00:00:00Z".parse().unwrap(),
            )
        };
        let zones = Zones::new(
            [
                listing("us-central1-a", "a2-highgpu-1g", false),
                listing("us-central1-ai1a", "a2-highgpu-1g", false),
                listing("us-central1-b", "a2-highgpu-1g", true),
                listing("us-central1-c", "g2-standard-4", false),
                listing("nonsense", "a2-highgpu-1g", false),
            ],
            ["https://www.googleapis.com/compute/v1/projects/p/zones/asia-east1-b".to_owned()],
        );
        let regions = ["us-central1", "europe-west9", "europe-west4", "africa-south1", "asia-east1"];
        let (placed, notes) = zones.place(regions.map(offer).to_vec(), &hardware);
        let found: Vec<_> = placed.iter().map(|offer| (offer.place.zone_id.as_deref(), offer.availability)).collect();
        let listed = Availability::Listed;
        assert_eq!(
            found,
            [(Some("us-central1-a"), listed), (Some("us-central1-ai1a"), listed), (None, Availability::Unknown)]
        );
        assert_eq!(
            notes[0].to_string(),
            "a2-highgpu-1g: priced in africa-south1, europe-west4 and 1 more, where no zone lists it"
        );
    }
}
