//! `GpuCounters`: NVML where this build has it, else one long-lived `nvidia-smi`; of AMD's GPUs what the kernel tells.

use std::path::Path;
use std::time::Duration;

use crate::counters::amd::{AmdCounters, CARDS};
#[cfg(feature = "cuda")]
use crate::counters::nvml::NvmlCounters;
use crate::counters::smi::Smi;
use crate::samples::GpuSample;

/// The program that is asked where there is no NVML in the build.
pub const NVIDIA_SMI: &str = "nvidia-smi";

pub enum GpuCounters {
    #[cfg(feature = "cuda")]
    Nvml(NvmlCounters),
    Smi(Smi),
    Amd(AmdCounters),
}

impl GpuCounters {
    /// `program` other than `nvidia-smi` is asked in any case, for what goes over links if `asks_for_links`. The error says why no GPU can be read.
    pub fn start(program: &str, interval: Duration, asks_for_links: bool) -> Result<Self, String> {
        #[cfg(feature = "cuda")]
        let refused = match (program == NVIDIA_SMI).then(|| NvmlCounters::start(interval)) {
            Some(Ok(counters)) => return Ok(Self::Nvml(counters)),
            // The tool of the same driver may still answer; if not, what the driver said tells more.
            Some(Err(why)) => format!("{why}; "),
            None => String::new(),
        };
        #[cfg(not(feature = "cuda"))]
        let refused = "";
        let refused = match Smi::start(program, interval, asks_for_links) {
            Ok(smi) => return Ok(Self::Smi(smi)),
            Err(why) => format!("{refused}{why}"),
        };
        if program != NVIDIA_SMI {
            return Err(refused);
        }
        AmdCounters::start(Path::new(CARDS)).map(Self::Amd).map_err(|why| format!("{refused}; {why}"))
    }

    /// What each GPU last said.
    pub fn latest(&self) -> Vec<GpuSample> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Nvml(counters) => counters.latest(),
            Self::Smi(smi) => smi.latest(),
            Self::Amd(counters) => counters.latest(),
        }
    }

    /// Whether anything more can come.
    pub fn is_running(&mut self) -> bool {
        match self {
            #[cfg(feature = "cuda")]
            Self::Nvml(_) => true,
            Self::Smi(smi) => smi.is_running(),
            Self::Amd(_) => true,
        }
    }
}
