//! The machines that zones have with cards attached, of their machine types and accelerator types. Pure.

use std::collections::BTreeMap;

use crate::prices::attached::{Attached, KINDS, is_of_series};
use crate::prices::zones::Listing;

/// An accelerator type in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    pub zone: String,
    pub name: String,
    /// Cards that a machine may have there.
    pub most: u32,
}

/// The machines that zones have with cards attached: every size of N1 that a zone lists, with the cards that the same zone lists.
pub fn compose(machines: &[Listing], accelerators: &[Accelerator]) -> Vec<Listing> {
    let mut by_zone: BTreeMap<&str, Vec<&Accelerator>> = BTreeMap::new();
    for accelerator in accelerators {
        by_zone.entry(&accelerator.zone).or_default().push(accelerator);
    }
    let mut all = Vec::new();
    for machine in machines.iter().filter(|machine| is_of_series(&machine.machine_type)) {
        for accelerator in by_zone.get(machine.zone.as_str()).into_iter().flatten() {
            let Some(kind) = KINDS.iter().find(|kind| kind.accelerator == accelerator.name) else { continue };
            let fits = |(count, vcpus): &&(u32, &[u32])| *count <= accelerator.most && vcpus.contains(&machine.vcpus);
            all.extend(kind.sizes.iter().filter(fits).map(|(count, _)| {
                let attached = Attached { machine_type: &machine.machine_type, kind, count: *count };
                Listing {
                    machine_type: attached.name(),
                    accelerator: Some((kind.accelerator.to_owned(), *count)),
                    ..machine.clone()
                }
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n1(zone: &str, vcpus: u32) -> Listing {
        Listing {
            zone: zone.to_owned(),
            machine_type: format!("n1-standard-{vcpus}"),
            vcpus,
            memory_mib: f64::from(vcpus) * 3840.0,
            architecture: "x86_64".to_owned(),
            ..Listing::default()
        }
    }

    fn accelerator(zone: &str, name: &str, most: u32) -> Accelerator {
        Accelerator { zone: zone.to_owned(), name: name.to_owned(), most }
    }

    #[test]
    fn cards_stand_where_their_zone_has_them_and_the_machine_is_large_enough() {
        let machines = [n1("us-central1-a", 8), n1("us-central1-a", 2), n1("us-central1-b", 8), n1("us-east1-c", 96)];
        let accelerators = [
            accelerator("us-central1-a", "nvidia-tesla-t4", 4),
            accelerator("us-central1-a", "nvidia-tesla-t4-vws", 4),
            accelerator("us-central1-a", "nvidia-l4", 8),
            accelerator("us-east1-c", "nvidia-tesla-v100", 4),
            accelerator("europe-west4-b", "nvidia-tesla-p100", 4),
        ];
        let found: Vec<(String, String)> =
            compose(&machines, &accelerators).into_iter().map(|one| (one.zone, one.machine_type)).collect();
        let expected =
            ["n1-standard-8-t4x1", "n1-standard-8-t4x2"].map(|name| ("us-central1-a".to_owned(), name.to_owned()));
        assert_eq!(found, expected, "eight V100 are more than that zone gives a machine of 96 vCPUs");
    }
}
