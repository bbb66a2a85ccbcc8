//! Runs of a sweep on one machine: the part of it that each run has, and how often the machine is filled.

use crate::explanation::Rejection;
use gpuplan_hardware::{GpuLink, NodeShape};
use gpuplan_units::Bytes;
use gpuplan_workload::Sweep;

/// How a machine carries a sweep. Without one it carries one run, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    pub runs: u32,
    pub side_by_side: u32,
}

impl Packing {
    pub const ALONE: Self = Self { runs: 1, side_by_side: 1 };

    pub fn new(sweep: Option<&Sweep>, devices: u32) -> Self {
        sweep.map_or(Self::ALONE, |sweep| Self { runs: sweep.runs, side_by_side: sweep.side_by_side(devices).max(1) })
    }

    /// Times that the machine is filled: a run starts when another has ended, and all take as long.
    pub fn rounds(self) -> u32 {
        self.runs.div_ceil(self.side_by_side)
    }
}

/// The machine as one run sees it: the whole without a sweep.
pub fn part(shape: &NodeShape, sweep: Option<&Sweep>) -> Result<NodeShape, Rejection> {
    let Some(sweep) = sweep else { return Ok(*shape) };
    let (each, devices) = (sweep.gpus_per_run, shape.devices());
    if sweep.side_by_side(devices) == 0 {
        return Err(Rejection::SweepRunTooLarge { gpus_per_run: each, gpus: devices });
    }
    match (each.is_slice(), shape.gpus.is_slice()) {
        (true, true) => Err(Rejection::SliceOfSlice),
        // Nothing keeps the shares of a card apart, so each counts on its own part of memory and rates.
        (true, false) => {
            let gpu_memory = Bytes(shape.gpu_memory.0 * each.as_f64());
            Ok(NodeShape { gpus: each, gpu_memory, link: GpuLink::Single, ..*shape })
        }
        (false, true) => Ok(*shape),
        (false, false) => {
            let link = if each.devices() == 1 { GpuLink::Single } else { shape.link };
            Ok(NodeShape { gpus: each, link, ..*shape })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;
    use gpuplan_units::GpuCount;

    fn sweep(gpus: &str) -> Sweep {
        Sweep { runs: 20, parallel: 8, gpus_per_run: GpuCount::parse(gpus).unwrap() }
    }

    #[test]
    fn a_run_sees_its_cards_and_no_others() {
        let hardware = Hardware::embedded().unwrap();
        let node = |name: &str| {
            hardware.instance_ids().map(|id| hardware.instance(id)).find(|found| found.name == name).unwrap().node
        };
        let eight = node("p5.48xlarge");
        let one = part(&eight, Some(&sweep("1"))).unwrap();
        assert_eq!((one.devices(), one.link, one.gpu_memory), (1, GpuLink::Single, eight.gpu_memory));
        let two = part(&eight, Some(&sweep("2"))).unwrap();
        assert_eq!((two.devices(), two.link), (2, eight.link));
        let half = part(&eight, Some(&sweep("1/2"))).unwrap();
        assert!((half.card_share() - 0.5).abs() < 1e-9 && (half.gpu_memory.0 * 2.0 - eight.gpu_memory.0).abs() < 1.0);
        assert!(part(&node("p5.4xlarge"), Some(&sweep("2"))).is_err());
        assert_eq!(part(&eight, None), Ok(eight));
    }

    #[test]
    fn a_machine_is_filled_until_every_run_had_its_turn() {
        let packing = |gpus, devices| Packing::new(Some(&sweep(gpus)), devices);
        assert_eq!((packing("1", 8).side_by_side, packing("1", 8).rounds()), (8, 3));
        assert_eq!((packing("1", 1).side_by_side, packing("1", 1).rounds()), (1, 20));
        assert_eq!(Packing::new(None, 8), Packing::ALONE);
    }
}
