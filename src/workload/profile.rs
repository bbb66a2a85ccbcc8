//! `Profile`: what was measured of a run and what was found in it; the file that `profile` writes and `plan` reads.

mod deviation;
mod steps;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::profile::deviation::{Deviation, Term, TermDeviation};
pub use crate::profile::steps::{StepTimes, median};

use crate::file::WorkloadFile;
use crate::training::precision::Precision;
use gpuplan_units::names::word;

/// Version of the file. A later one is refused, since a figure read in another meaning would be worse than none.
pub const VERSION: u32 = 1;
/// GPUs of the largest clusters; more of them is damage.
pub const MOST_GPUS: u32 = 65_536;

/// Why text is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("it is not a profile: {0}")]
    Malformed(String),
    #[error("it has version {found}; this program reads version {VERSION}")]
    Version { found: u64 },
    #[error("`{key}` is {value}, which no measurement gives")]
    Impossible { key: &'static str, value: String },
}

/// What was measured of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    pub version: u32,
    /// The command that ran, or the name of the trace.
    pub of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<ProfiledGpu>,
    /// The workload that the run was, where the user named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepTimes>,
    /// Arithmetic of the model over what the GPUs could do at their dense peak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flops_utilization: Option<f64>,
    /// What was sampled while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What a profiler's trace says of its operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operators: Option<Operators>,
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// How the run compares with its estimate, where the workload and its GPU are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<Deviation>,
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The GPUs that were measured, in the driver's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledGpu {
    pub name: String,
    /// GPUs that worked together, not those of the trace alone.
    pub count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
}

/// Counters over a run. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    pub samples: u64,
    pub interval_seconds: f64,
    pub seconds: f64,
    pub host: HostUsage,
    /// None where no GPU could be read.
    #[serde(default)]
    pub gpus: Vec<GpuUsage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Links>,
    /// Share of the time in which every GPU idled while the host was at its limit: the loader could not keep up.
    pub loader_stall_share: f64,
}

/// The machine around the GPUs, means over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUsage {
    /// Cores that the run may use.
    pub cores: u32,
    /// Cores that the run's processes kept busy.
    pub cores_used: f64,
    /// Cores by name of process, the busiest first.
    #[serde(default)]
    pub processes: Vec<ProcessUsage>,
    pub major_faults_per_second: f64,
    pub minor_faults_per_second: f64,
    /// Most resident memory of all processes of the run together.
    pub memory_peak_bytes: f64,
    /// `None`: the kernel does not tell of every process of the run.
    #[serde(default)]
    pub disk_read_bytes_per_second: Option<f64>,
    #[serde(default)]
    pub disk_write_bytes_per_second: Option<f64>,
    /// Of the whole machine, loopback left out.
    #[serde(default)]
    pub network_receive_bytes_per_second: Option<f64>,
    #[serde(default)]
    pub network_send_bytes_per_second: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessUsage {
    pub name: String,
    pub cores_used: f64,
}

/// One GPU over the run. `None`: the GPU or its driver does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUsage {
    pub index: u32,
    pub name: String,
    /// Share of the time in which any kernel ran. It says nothing of how well. `None`: not told, as by slices of a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Share of the time in which memory was read or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bus_busy: Option<f64>,
    #[serde(default)]
    pub memory_peak_bytes: Option<f64>,
    #[serde(default)]
    pub memory_total_bytes: Option<f64>,
    #[serde(default)]
    pub power_mean_watts: Option<f64>,
    #[serde(default)]
    pub power_limit_watts: Option<f64>,
    /// Mean of the samples in which the GPU worked.
    #[serde(default)]
    pub clock_mean_mhz: Option<f64>,
    #[serde(default)]
    pub clock_max_mhz: Option<f64>,
    #[serde(default)]
    pub temperature_peak_celsius: Option<f64>,
    /// Share of the samples in which the clock was held down to stay within the power limit.
    #[serde(default)]
    pub throttled_by_power: Option<f64>,
    /// The same because of heat or of a fault of the board.
    #[serde(default)]
    pub throttled_by_heat: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_receive_bytes_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie_send_bytes_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink_bytes_per_second: Option<f64>,
}

/// How the GPUs of the machine reach each other, as pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Links {
    pub nvlink_pairs: u32,
    pub pcie_pairs: u32,
}

/// What kind of work an operator is, which decides what bounds it on other GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorClass {
    /// Matrix products, convolutions and attention.
    Compute,
    /// Element-wise work, reductions, normalisation, optimizers: as fast as memory.
    Memory,
    /// Collectives between GPUs.
    Communication,
    /// Copies between host and device, or within a device.
    Copy,
    /// CUDA graphs of which the trace has only the launches: what ran inside is not known.
    Graph,
}

impl OperatorClass {
    pub const ALL: [Self; 5] = [Self::Compute, Self::Memory, Self::Communication, Self::Copy, Self::Graph];

    pub fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Communication => "communication",
            Self::Copy => "copy",
            Self::Graph => "graph",
        }
    }
}

/// A profiler's trace in figures. Seconds are sums over the trace, of the mean device where there are several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Operators {
    /// Which profiler wrote it.
    pub format: String,
    /// Devices with work on them; 0: the trace has the host alone, and the seconds are those of host operators.
    pub devices: u32,
    /// Steps that it has work of; 0: none is marked. Times from one mark to the next are one fewer.
    #[serde(default)]
    pub steps: u64,
    /// From the first to the last work of a device.
    pub span_seconds: f64,
    /// Time in which at least one kernel or copy ran.
    pub busy_seconds: f64,
    /// Time in which none ran, between the first and the last.
    pub gap_seconds: f64,
    /// Part of the gaps in which nothing had been launched yet: the device waited for the host.
    pub host_bound_seconds: f64,
    pub classes: Vec<ClassTime>,
    /// Communication that ran while nothing else did.
    pub exposed_communication_seconds: f64,
    pub copies: Vec<CopyKind>,
    /// Host time in which a data loader was waited for.
    pub input_wait_seconds: f64,
    /// Host calls that wait until the device is done.
    pub synchronisations: u64,
    pub synchronisation_seconds: f64,
    pub products: Products,
    /// Mean kernel time of the slowest device over that of the middle one, communication left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_device: Option<f64>,
    /// Operators by time, the longest first.
    pub top: Vec<OperatorTime>,
    /// Each marked step of the first device, in their order, so that one which warms up can be left out. Empty: none is marked there, or there is
    /// too much work to be told apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each_step: Vec<StepFigures>,
}

/// What a device did in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepFigures {
    /// As the profiler counts them.
    pub number: u64,
    /// Until the next one begins; of the last one until its own work ends.
    pub seconds: f64,
    /// Work that begins in it; overlaps count twice.
    pub classes: Vec<ClassTime>,
}

impl Operators {
    /// Seconds of a class, overlaps counted twice.
    pub fn seconds(&self, class: OperatorClass) -> f64 {
        self.classes.iter().filter(|each| each.class == class).map(|each| each.seconds).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTime {
    pub class: OperatorClass,
    pub calls: u64,
    pub seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorTime {
    pub name: String,
    pub class: OperatorClass,
    pub calls: u64,
    pub seconds: f64,
}

/// Copies of one direction from one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyKind {
    /// Such as `HtoD pageable`.
    pub kind: String,
    pub calls: u64,
    pub bytes: f64,
    pub seconds: f64,
}

impl CopyKind {
    /// Host memory that is not pinned has to pass through a buffer of the driver.
    pub fn is_pageable(&self) -> bool {
        self.kind.ends_with("pageable")
    }
}

/// How matrix products were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Products {
    /// Seconds of kernels whose name says tensor cores, in 16 bits or less (or tf32).
    pub tensor_core_seconds: f64,
    /// Seconds of kernels whose name says plain fp32.
    pub fp32_seconds: f64,
    /// Products whose sizes the trace names.
    pub shaped: u64,
    /// Of them, those with a size that is no multiple of eight.
    pub unaligned: u64,
    /// Seconds of the kernels that these launched.
    #[serde(default)]
    pub unaligned_seconds: f64,
    /// Of them, those with fewer than 2^24 multiplications.
    pub small: u64,
    /// Seconds of the kernels that these launched.
    #[serde(default)]
    pub small_seconds: f64,
    /// Products of fp16, and whether a loss scaler was seen at work.
    pub in_fp16: u64,
    pub has_loss_scaler: bool,
    /// A backward pass was seen: inference needs no scaler.
    pub has_backward: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unaligned_example: Option<String>,
}

/// Something that costs time and can be changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub rule: Rule,
    /// What was measured, in words and figures.
    pub evidence: String,
    pub measured: f64,
    /// The rule speaks beyond this.
    pub threshold: f64,
    pub advice: String,
    pub cause: Cause,
    pub mended: Mended,
}

/// What would be otherwise once it is mended. At best: nothing else becomes the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Mended {
    /// This share of today's step time is left.
    Step { left: f64 },
    /// The run in another number format.
    Precision { precision: Precision },
    /// The run with as large a micro batch as fits.
    MicroBatch,
    /// Nobody can say from this measurement, or it costs something else than time.
    Unknown,
}

impl Mended {
    /// A share that is no share says nothing.
    pub fn step(left: f64) -> Self {
        if left > 0.0 && left < 1.0 { Self::Step { left } } else { Self::Unknown }
    }
}

/// Whose fault it is: another machine does away with the second kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    Program,
    Machine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    Loader,
    HostBound,
    MemoryFullButIdle,
    RoomForBatch,
    SmallShapes,
    UnalignedShapes,
    NoTensorCores,
    Fp32,
    NoLossScaler,
    PageableCopies,
    Synchronisation,
    ExposedCommunication,
    ThrottledByPower,
    ThrottledByHeat,
    Straggler,
    PcieLink,
    Idle,
}

impl Rule {
    /// The term of a step that what was found slows; `None`: several, or none.
    pub fn slows(self) -> Option<Term> {
        match self {
            Self::SmallShapes
            | Self::UnalignedShapes
            | Self::NoTensorCores
            | Self::Fp32
            | Self::ThrottledByPower
            | Self::ThrottledByHeat => Some(Term::Products),
            Self::HostBound | Self::Synchronisation => Some(Term::Launches),
            Self::Loader => Some(Term::Input),
            Self::ExposedCommunication | Self::PcieLink | Self::Straggler => Some(Term::Communication),
            Self::MemoryFullButIdle | Self::RoomForBatch | Self::NoLossScaler | Self::PageableCopies | Self::Idle => {
                None
            }
        }
    }

    pub fn word(self) -> String {
        word(self)
    }
}

impl Profile {
    pub fn new(of: &str) -> Self {
        Self {
            version: VERSION,
            of: of.to_owned(),
            gpu: None,
            workload: None,
            step: None,
            model_flops_utilization: None,
            usage: None,
            operators: None,
            findings: Vec::new(),
            deviation: None,
            notes: Vec::new(),
        }
    }

    /// Reads the file back. Figures that would turn a plan into nonsense are refused.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let malformed = |error: serde_json::Error| ProfileError::Malformed(error.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(malformed)?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found == u64::from(VERSION) => {}
            Some(found) => return Err(ProfileError::Version { found }),
            None => return Err(ProfileError::Malformed("`version` is missing".to_owned())),
        }
        let profile: Self = serde_json::from_value(value).map_err(malformed)?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let refuse = |key, value: f64| Err(ProfileError::Impossible { key, value: value.to_string() });
        if let Some(step) = &self.step {
            if !(step.median_seconds.is_finite() && step.median_seconds > 0.0) {
                return refuse("step.median_seconds", step.median_seconds);
            }
            if !(step.spread_seconds.is_finite() && step.spread_seconds >= 0.0) {
                return refuse("step.spread_seconds", step.spread_seconds);
            }
        }
        let classes = self.operators.iter().flat_map(|operators| &operators.classes);
        if let Some(wrong) =
            classes.map(|class| class.seconds).find(|seconds| !(seconds.is_finite() && *seconds >= 0.0))
        {
            return refuse("operators.classes.seconds", wrong);
        }
        if let Some(gpu) = self.gpu.as_ref().filter(|gpu| !(1..=MOST_GPUS).contains(&gpu.count)) {
            return refuse("gpu.count", f64::from(gpu.count));
        }
        for finding in &self.findings {
            match finding.mended {
                Mended::Step { left } if !(left > 0.0 && left <= 1.0) => return refuse("findings.mended.left", left),
                _ => {}
            }
        }
        Ok(())
    }

    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests;
