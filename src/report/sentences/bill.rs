//! What a line of a bill rests on.

use crate::sentences::reason::AS_GPU_MACHINES;
use gpuplan_plan::money::bill::Basis;

/// The basis of a line.
pub fn basis(basis: &Basis) -> String {
    match basis {
        Basis::Price { source, observed_at, is_unverified, is_upper_bound } => format!(
            "{source} of {}{}{}",
            observed_at.strftime("%Y-%m-%d"),
            if *is_unverified { ", unverified" } else { "" },
            if *is_upper_bound { ", as to the internet" } else { "" }
        ),
        Basis::LossRate(evidence) => (*evidence).to_owned(),
        Basis::LossRateOfGpuMachines => AS_GPU_MACHINES.to_owned(),
    }
}
