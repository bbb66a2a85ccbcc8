//! Machines of Google Cloud with attached cards, which gpuplan calls by a name of its own (`n1-standard-8-t4x2`, clouds/gcp/prices/attached.rs)
//! and engines by the machine type and the accelerator type.

use gpuplan_plan::document::MachinesRecord;

/// What a name of gpuplan's means.
#[derive(Debug, PartialEq, Eq)]
pub struct Attached<'a> {
    pub machine_type: &'a str,
    /// Accelerator type of Compute Engine, and GKE's label of it.
    pub accelerator: String,
    pub count: u32,
}

/// `None`: the machine type is the cloud's own.
pub fn attached(machines: &MachinesRecord) -> Option<Attached<'_>> {
    if machines.cloud == "gcp" { named(&machines.instance_type) } else { None }
}

fn named(name: &str) -> Option<Attached<'_>> {
    let (machine_type, cards) = name.rsplit_once('-').filter(|(rest, _)| rest.starts_with("n1-"))?;
    let (kind, count) = cards.rsplit_once('x')?;
    Some(Attached { machine_type, accelerator: format!("nvidia-tesla-{kind}"), count: count.parse().ok()? })
}

/// What the cloud and its engines call the machine type.
pub fn machine_type(machines: &MachinesRecord) -> &str {
    attached(machines).map_or(&machines.instance_type, |attached| attached.machine_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_attached_cards_is_taken_apart() {
        let of = |name: &str| named(name).map(|one| (one.machine_type.to_owned(), one.accelerator, one.count));
        assert_eq!(of("n1-standard-8-t4x2"), Some(("n1-standard-8".to_owned(), "nvidia-tesla-t4".to_owned(), 2)));
        assert_eq!([of("n1-standard-8"), of("a2-highgpu-1g"), of("n1-standard-8-t4")], [None, None, None]);
    }
}
