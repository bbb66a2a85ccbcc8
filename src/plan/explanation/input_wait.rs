//! `InputWait`: why GPUs wait for samples, with the figures that decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::Usd;

/// GPUs that wait for samples. Rates are of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputWait {
    pub slowest: SlowestPart,
    /// Which part holds the samples up, such as `cpu decode`.
    pub limit: String,
    /// What the GPUs would take if samples were always at hand.
    pub wanted_samples_per_second: f64,
    /// The machine carries several runs of a sweep.
    pub is_sweep: bool,
    /// Of a step.
    pub waiting_share: f64,
    /// Of the cost of the plan.
    pub waiting_cost_usd: Usd,
}

/// The part of the input pipeline that is slowest, and what it gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum SlowestPart {
    Storage {
        from: String,
        samples_per_second: f64,
        /// More reads than it answers, rather than more bytes than it moves.
        by_reads: bool,
        /// Memory keeps what was read once.
        only_first_pass: bool,
    },
    Cpu {
        threads: f64,
        vcpus: u32,
        samples_per_second: f64,
        /// So many times as many cores would keep up.
        times_needed: Option<f64>,
    },
    CopiesAndDecoders {
        samples_per_second: f64,
    },
}
