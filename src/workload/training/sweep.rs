//! `Sweep`: the same job many times with other settings, each run with an index, several beside each other on one machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::GpuCount;

/// Runs that one sweep may have: each has objects of its own in the store, which are asked after one by one. Judgement.
pub const MOST_RUNS: u32 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    pub runs: u32,
    /// At most so many at a time.
    pub parallel: u32,
    /// Whole cards, or the share of one that a run shares with others.
    pub gpus_per_run: GpuCount,
}

impl Sweep {
    /// Runs beside each other on a machine with so many devices; 0: not even one.
    pub fn side_by_side(&self, devices: u32) -> u32 {
        // A share such as 1/3 of a card is not exact in binary.
        let room = (f64::from(devices) / self.gpus_per_run.as_f64() + 1e-9).floor() as u32;
        room.min(self.parallel).min(self.runs)
    }

    /// Which devices the run in a slot sees, counted from 0. Runs that share a card see the same one.
    pub fn devices_of(&self, slot: u32) -> std::ops::Range<u32> {
        if self.gpus_per_run.is_slice() {
            let on_one = (1.0 / self.gpus_per_run.as_f64() + 1e-9).floor().max(1.0) as u32;
            return slot / on_one..slot / on_one + 1;
        }
        let each = self.gpus_per_run.devices();
        slot * each..(slot + 1) * each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(gpus: &str) -> Sweep {
        Sweep { runs: 64, parallel: 8, gpus_per_run: GpuCount::parse(gpus).unwrap() }
    }

    #[test]
    fn a_machine_takes_as_many_runs_as_it_has_cards_for() {
        for (gpus, devices, expected) in
            [("1", 8, 8), ("1", 4, 4), ("2", 8, 4), ("3", 8, 2), ("4", 2, 0), ("1/3", 1, 3), ("1/4", 8, 8)]
        {
            assert_eq!(sweep(gpus).side_by_side(devices), expected, "{gpus} of {devices}");
        }
        assert_eq!(Sweep { runs: 3, ..sweep("1") }.side_by_side(8), 3);
    }

    #[test]
    fn every_slot_has_cards_of_its_own_or_its_share_of_one() {
        assert_eq!([0, 1, 7].map(|slot| sweep("1").devices_of(slot)), [0..1, 1..2, 7..8]);
        assert_eq!([0, 3].map(|slot| sweep("2").devices_of(slot)), [0..2, 6..8]);
        assert_eq!([0, 2, 3, 5].map(|slot| sweep("1/3").devices_of(slot)), [0..1, 0..1, 1..2, 1..2]);
    }
}
