//! What a plan document says of the existing job that it was asked about, under `from`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{PlanRecord, Remark};
use gpuplan_units::Usd;

/// An existing job beside the recommended plan, as `plan --from JOB` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobComparison {
    pub job: JobRecord,
    /// The plan on the job's own machines; null: none of them can run the workload.
    pub baseline: Option<Box<PlanRecord>>,
    /// The recommended plan less the baseline.
    pub difference: Option<PlanDifference>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDifference {
    pub cost_usd: Usd,
    pub hours: f64,
}

/// What a job asks for, and what of its file was understood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobRecord {
    /// The engine that the job was written for, such as `slurm`, `skypilot` or `kubernetes`; `script` has none, `recipe` is the configuration of a
    /// training program.
    pub kind: String,
    pub name: Option<String>,
    /// One sentence for each kind of machine that it accepts.
    pub asks_for: Vec<String>,
    /// Machines; null: as many as hold the GPUs.
    pub nodes: Option<NodeRange>,
    /// The longest that it may take.
    pub hours: Option<f64>,
    pub understood: Vec<KeyRecord>,
    /// Keys that change neither machines nor price.
    pub no_effect: Vec<KeyRecord>,
    pub not_understood: Vec<KeyRecord>,
    /// What the job leaves open and what was taken, as sentences.
    pub assumed: Vec<String>,
    /// The same with their figures, in the same order.
    pub assumptions: Vec<Remark>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRange {
    pub low: u32,
    pub high: u32,
}

/// A key of the job's file and its value, as they stand there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRecord {
    pub key: String,
    pub value: String,
}
