//! `Attached`: N1 machines with GPUs attached to them. Pure.
//!
//! N1 comes without GPUs and takes those of older kinds. Google has no name for a machine together with its cards, so one is made here:
//! `n1-standard-8-t4x1` is `n1-standard-8` with one `nvidia-tesla-t4`. Only what stands below ever reaches Google.

/// A kind of card that N1 takes.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// As it ends the name of a machine.
    pub short: &'static str,
    /// The accelerator type of Compute Engine.
    pub accelerator: &'static str,
    /// How many cards a machine may have, and the vCPUs of the machines of standard memory that are offered with them: within the limits of
    /// cloud.google.com/compute/docs/gpus ("N1 machine series", 2026), from half of what each card may feed up to all of it. Judgement.
    pub sizes: &'static [(u32, &'static [u32])],
}

/// P4 is left out: no catalog has it.
pub const KINDS: &[Kind] = &[
    Kind {
        short: "t4",
        accelerator: "nvidia-tesla-t4",
        sizes: &[(1, &[4, 8, 16, 32]), (2, &[8, 16, 32]), (4, &[16, 32, 64, 96])],
    },
    Kind {
        short: "v100",
        accelerator: "nvidia-tesla-v100",
        sizes: &[(1, &[4, 8]), (2, &[8, 16]), (4, &[16, 32]), (8, &[32, 64, 96])],
    },
    Kind {
        short: "p100",
        accelerator: "nvidia-tesla-p100",
        sizes: &[(1, &[4, 8, 16]), (2, &[8, 16, 32]), (4, &[16, 32])],
    },
];

/// The series that takes cards, with standard memory.
const SERIES: &str = "n1-standard-";

/// A machine type and the cards that are attached to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached<'a> {
    pub machine_type: &'a str,
    pub kind: &'static Kind,
    pub count: u32,
}

impl<'a> Attached<'a> {
    /// `None`: a machine type of Google's own.
    pub fn named(name: &'a str) -> Option<Self> {
        let (machine_type, cards) = name.rsplit_once('-')?;
        let (short, count) = cards.rsplit_once('x')?;
        let kind = KINDS.iter().find(|kind| kind.short == short)?;
        let (count, _) = kind.sizes.iter().find(|(known, _)| known.to_string() == count)?;
        is_of_series(machine_type).then_some(Self { machine_type, kind, count: *count })
    }

    /// What Google describes by a machine type and an accelerator type. `None`: no such machine is offered here.
    pub fn of(machine_type: &'a str, accelerator: &str, count: u32) -> Option<Self> {
        let kind = KINDS.iter().find(|kind| kind.accelerator == accelerator)?;
        is_of_series(machine_type).then_some(Self { machine_type, kind, count })
    }

    pub fn name(&self) -> String {
        format!("{}-{}x{}", self.machine_type, self.kind.short, self.count)
    }
}

/// `n1-standard-8`.
pub fn is_of_series(machine_type: &str) -> bool {
    machine_type.strip_prefix(SERIES).is_some_and(|vcpus| vcpus.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_says_machine_and_cards() {
        let attached = Attached::named("n1-standard-8-t4x1").unwrap();
        assert_eq!(
            (attached.machine_type, attached.kind.accelerator, attached.count),
            ("n1-standard-8", "nvidia-tesla-t4", 1)
        );
        assert_eq!(Attached::of("n1-standard-8", "nvidia-tesla-t4", 1), Some(attached));
        for other in [
            "n1-standard-8",
            "n1-standard-8-t4x3",
            "n1-standard-8-k80x1",
            "n1-highmem-8-t4x1",
            "a2-highgpu-1g",
            "g2-standard-4-t4x1",
            "n1-standard-8-t4x",
            "",
            "-",
        ] {
            assert_eq!(Attached::named(other), None, "{other}");
        }
        assert_eq!(Attached::of("n1-standard-8", "nvidia-l4", 1), None);
    }

    #[test]
    fn machines_of_the_catalog_are_of_these_sizes() {
        let hardware = gpuplan_hardware::Hardware::embedded().unwrap();
        let mut found = 0;
        for machine in hardware.instances().iter().filter(|machine| machine.name.starts_with("n1-")) {
            let attached = Attached::named(&machine.name).unwrap_or_else(|| panic!("{}", machine.name));
            let (_, vcpus) = attached.kind.sizes.iter().find(|(count, _)| *count == attached.count).unwrap();
            assert!(vcpus.contains(&machine.vcpus), "{}", machine.name);
            assert_eq!(machine.node.gpus.to_string(), attached.count.to_string());
            assert_eq!(hardware.find_gpu(attached.kind.accelerator), Some(machine.node.gpu), "{}", machine.name);
            found += 1;
        }
        assert_eq!(found, 24);
    }

    proptest! {
        #[test]
        fn any_name_is_one_of_these_or_none(name in "(n1-standard-)?[a-z0-9-]{0,12}(t4|v100|p100)?x?[0-9]{0,3}") {
            if let Some(attached) = Attached::named(&name) {
                prop_assert_eq!(attached.name().len(), name.len());
                prop_assert_eq!(Attached::of(attached.machine_type, attached.kind.accelerator, attached.count), Some(attached));
            }
        }
    }
}
