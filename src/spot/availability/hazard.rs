//! How often a machine is lost: spot interruptions by recent availability, hardware failures by GPU-hour.

use schemars::JsonSchema;
use serde::Serialize;

use crate::availability::AvailabilityModel;
use gpuplan_units::Hours;

/// Failures of one GPU per hour: 419 unexpected interruptions of 16,384 H100 in 54 days (Llama 3 report,
/// arXiv 2407.21783, section 3.3.4). Published range 1e-5 to 4e-5.
const HARDWARE_FAILURES_PER_GPU_HOUR: f64 = 2e-5;

/// Rate of losing a gang of machines, with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InterruptionRate {
    pub per_hour: f64,
    pub basis: &'static str,
}

impl InterruptionRate {
    pub fn mean_time(self) -> Hours {
        Hours(1.0 / self.per_hour)
    }
}

/// Mean rate for spot capacity that has just been started in a pool of this recent availability, known from `basis`. One gang
/// in one zone is one failure unit, so the spot part does not grow with the machines.
pub fn spot_rate(model: &AvailabilityModel, availability: f64, basis: &'static str, gpus: u32) -> InterruptionRate {
    InterruptionRate {
        per_hour: 1.0 / model.mean_spell(availability, true).0 + hardware_failure_rate(gpus).per_hour,
        basis,
    }
}

/// Rate for capacity that is not taken back.
pub fn hardware_failure_rate(gpus: u32) -> InterruptionRate {
    InterruptionRate {
        per_hour: HARDWARE_FAILURES_PER_GPU_HOUR * f64::from(gpus),
        basis: "2e-5 failures per GPU-hour (Llama 3 report, arXiv 2407.21783)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_availability_lasts_longer() {
        let mean = |availability: f64| 1.0 / spot_rate(&AvailabilityModel::prior(), availability, "", 1).per_hour;
        assert!(0.5 < mean(0.3) && mean(0.3) < mean(0.7) && mean(0.7) < mean(0.9) && mean(0.9) < 6.0);
    }

    #[test]
    fn sixteen_thousand_gpus_fail_every_three_hours() {
        assert!((hardware_failure_rate(16_384).mean_time().0 - 3.05).abs() < 0.1);
    }
}
