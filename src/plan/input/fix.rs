//! `InputFix`: one change that would feed GPUs that wait for samples, and what it saves.

use gpuplan_units::{Bytes, Hours, Usd};

/// One fix by itself; savings of several do not add up.
#[derive(Clone, Debug, PartialEq)]
pub struct InputFix {
    pub change: InputChange,
    /// Of a step, with the fix.
    pub waiting_share: f64,
    /// Of the whole run with the fix, as a first guess.
    pub run_hours: f64,
    /// Against the plan as it is, both as first guesses; below zero it costs more.
    pub saves_usd: Usd,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum InputChange {
    /// Pictures decoded and resized once, and kept as pixels.
    DecodeOnce {
        size: Bytes,
    },
    DecodeOnGpu,
    /// The data copied to local disks at every start, instead of read from afar in every pass.
    Stage {
        size: Bytes,
        time: Hours,
        passes: f64,
    },
    /// Machines with the same GPU and more vCPUs for each.
    MoreVcpus {
        plan: String,
        vcpus_per_gpu: f64,
    },
    FewerGpus {
        plan: String,
        vcpus_per_gpu: f64,
    },
}

impl InputChange {
    /// As JSON names it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::DecodeOnce { .. } => "format",
            Self::DecodeOnGpu => "gpu-decode",
            Self::Stage { .. } => "stage",
            Self::MoreVcpus { .. } => "more-vcpus",
            Self::FewerGpus { .. } => "fewer-gpus",
        }
    }
}
