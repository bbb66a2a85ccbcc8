//! How the machines of a plan bring samples to their GPUs, in a plan document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::document::words::Words;
use crate::input::fix::{InputChange, InputFix};
use crate::input::waiting::Waiting;
use gpuplan_hardware::InstanceType;
use gpuplan_units::{Hours, Seconds, Usd};

/// Seconds are those of a machine for the samples of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputRecord {
    /// The slowest part, whether or not the step waits for it: `cpu decode`, `cpu tokenise`, `storage`, `host to device` or
    /// `gpu decode`.
    pub limit: String,
    /// Samples of a step on one machine.
    pub samples_per_step: f64,
    /// Of the loader on the CPUs; `null` where nobody said what a sample costs.
    pub compute_seconds: Option<Seconds>,
    /// Of storage; `null` where reading was not counted.
    pub read_seconds: Option<Seconds>,
    /// What is read, where that was counted.
    pub storage: Option<String>,
    /// Part of the run in which storage is read: memory keeps what was read once.
    pub read_share: f64,
    /// From the host to the GPUs.
    pub copy_seconds: Seconds,
    /// In the decoder block of the GPUs.
    pub gpu_decode_seconds: Seconds,
    /// Threads of the loader on one machine.
    pub loader_threads: f64,
    /// That the machine has.
    pub vcpus_per_gpu: f64,
    /// That would load as fast as the GPUs train, with the same loader.
    pub vcpus_needed_per_gpu: Option<f64>,
    /// What a step waits for samples.
    pub wait_seconds: Seconds,
    /// The same as a share of a step.
    pub wait_share: f64,
    /// GPU-hours of the run that are spent waiting.
    pub waiting_gpu_hours: f64,
    /// What those cost.
    pub waiting_cost_usd: Usd,
    /// What would shorten the waiting; of the recommended plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cures: Vec<FixRecord>,
}

/// One change that would shorten the waiting, by itself; savings of several do not add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FixRecord {
    /// What kind of change.
    #[serde(rename = "cure")]
    pub kind: FixKind,
    /// The change in words.
    pub what: String,
    /// Share of a step that still waits for samples.
    pub waiting_share: f64,
    /// Hours of the whole run with the change, as a first guess.
    pub run_hours: Hours,
    /// Against the plan as it is, both as first guesses; below zero it costs more.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    #[schemars(with = "Usd")]
    pub saves_usd: Usd,
}

/// Kinds of changes that shorten the waiting for samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FixKind {
    /// The samples in a format that is cheaper to read.
    Format,
    /// Decoding on the GPUs.
    GpuDecode,
    /// The samples on disks that come with the machines.
    Stage,
    /// Machines with the same GPU and more vCPUs for each.
    MoreVcpus,
    /// Machines with fewer GPUs in all.
    FewerGpus,
}

impl InputRecord {
    /// `None` where nobody could tell.
    pub(super) fn new(plan: &Plan, instance: &InstanceType, words: &dyn Words) -> Option<Self> {
        let feeding = plan.step.feeding.as_ref()?;
        let waiting = Waiting::new(plan);
        let each = f64::from(instance.vcpus) / f64::from(instance.node.devices());
        let needed = feeding.cores_needed().filter(|_| feeding.cores > 0.0);
        Some(Self {
            limit: feeding.limit().word().to_owned(),
            samples_per_step: feeding.samples,
            compute_seconds: feeding.computing.map(Seconds),
            read_seconds: feeding.reading.map(|read| Seconds(read.seconds)),
            storage: feeding.reading.map(|read| read.from.to_owned()),
            read_share: feeding.read_share,
            copy_seconds: Seconds(feeding.copying),
            gpu_decode_seconds: Seconds(feeding.jpeg_block),
            loader_threads: feeding.threads,
            vcpus_per_gpu: each,
            vcpus_needed_per_gpu: needed.map(|needed| each * needed / feeding.cores),
            wait_seconds: Seconds(feeding.waits),
            wait_share: feeding.waiting_share(),
            waiting_gpu_hours: waiting.map_or(0.0, |waiting| waiting.gpu_hours),
            waiting_cost_usd: waiting.map_or(Usd::ZERO, |waiting| waiting.cost),
            cures: plan.input_fixes.iter().map(|fix| FixRecord::new(fix, words)).collect(),
        })
    }
}

impl FixRecord {
    fn new(fix: &InputFix, words: &dyn Words) -> Self {
        Self {
            kind: match fix.change {
                InputChange::DecodeOnce { .. } => FixKind::Format,
                InputChange::DecodeOnGpu => FixKind::GpuDecode,
                InputChange::Stage { .. } => FixKind::Stage,
                InputChange::MoreVcpus { .. } => FixKind::MoreVcpus,
                InputChange::FewerGpus { .. } => FixKind::FewerGpus,
            },
            what: words.input_change(&fix.change),
            waiting_share: fix.waiting_share,
            run_hours: Hours(fix.run_hours),
            saves_usd: fix.saves_usd,
        }
    }
}
