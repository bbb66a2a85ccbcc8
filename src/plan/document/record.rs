//! `PlanRecord`: one plan of a plan document, with its machines, price, layout, step, time and cost.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::bill::CostRecord;
use crate::document::input::InputRecord;
use crate::document::plans::Identified;
use crate::document::remark::Remark;
use crate::document::serving::ServingRecord;
use crate::document::spot::SpotRecord;
use gpuplan_market::{Origin, Suspicion};
use gpuplan_units::{Band, Bytes, GpuCount, Hours, Quantiles, Seconds, UsdPerHour};
use gpuplan_workload::{Layout, Recompute};

/// A way to carry out the workload: machines, how the model is spread over them, how long it takes and what it costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRecord {
    /// Identity of the plan, stable between runs: place, machine, count, terms.
    pub id: String,
    /// What is rented.
    #[serde(flatten)]
    pub machines: MachinesRecord,
    /// Where the rate comes from and how old it is.
    pub price: PriceRecord,
    /// How the model is spread over the GPUs.
    pub layout: LayoutRecord,
    /// One step of the training, or one pass of a served model.
    #[serde(flatten)]
    pub step: StepRecord,
    /// The whole run.
    #[serde(flatten)]
    pub time: TimeRecord,
    /// What it costs.
    #[serde(flatten)]
    pub cost: CostRecord,
    /// `null`: no deadline was given.
    #[serde(default)]
    pub chance_by_deadline: Option<f64>,
    /// For spot machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<SpotRecord>,
    /// For a model that answers requests.
    #[serde(flatten)]
    pub serving: Option<ServingRecord>,
    /// `null` for a service, which saves nothing.
    #[serde(default)]
    pub checkpoint: Option<CheckpointRecord>,
    /// Bringing the data to each new machine, where a launch does that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staging: Option<StagingRecord>,
    /// For a sweep: how a machine carries its runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepRecord>,
    /// Why it was chosen, and how to run it well.
    #[serde(flatten)]
    pub explanation: Explanation,
}

/// So many machines of one type in one place on some terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachinesRecord {
    /// Name of the cloud, such as `aws`.
    pub cloud: String,
    /// The cloud's name of the region.
    pub region: String,
    /// Id of the zone, where prices differ by zone.
    #[serde(default)]
    pub zone_id: Option<String>,
    /// The cloud's name of the machine.
    pub instance_type: String,
    /// Id of the GPU in the catalog.
    pub gpu: String,
    /// GPUs of one machine; a slice of a card is one.
    pub gpus_per_node: u32,
    /// Machines.
    pub nodes: u32,
    /// The terms.
    pub purchase: PurchaseTerms,
    /// Of one machine.
    pub rate_usd_per_hour: UsdPerHour,
}

/// Terms on which machines are had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PurchaseTerms {
    /// By the hour, for as long as one likes.
    OnDemand,
    /// Spare capacity that the cloud may take back.
    Spot,
    /// The same, with on-demand machines where it is taken back and the deadline is near.
    SpotWithFallback,
    /// A promise of one or three years.
    Commitment,
    /// Whole days that are booked in advance.
    CapacityBlock,
    /// Capacity that is booked for a date.
    Calendar,
    /// A start when capacity is free, for a few days.
    FlexStart,
    /// Reserved for the user, or the user's own.
    Reserved,
}

impl PurchaseTerms {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::SpotWithFallback => "spot-with-fallback",
            Self::Commitment => "commitment",
            Self::CapacityBlock => "capacity-block",
            Self::Calendar => "calendar",
            Self::FlexStart => "flex-start",
            Self::Reserved => "reserved",
        }
    }

    /// Machines that may be taken back.
    pub fn is_spot(self) -> bool {
        matches!(self, Self::Spot | Self::SpotWithFallback)
    }
}

/// Where a rate comes from and how old it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PriceRecord {
    /// How the program came to it.
    pub origin: Origin,
    /// When it was seen.
    pub observed_at: Timestamp,
    /// Id of its source.
    pub source: String,
    /// It was too old when the plan was made.
    #[serde(default)]
    pub stale: bool,
    /// Why it may not be what it says.
    #[serde(default)]
    pub suspect: Vec<Suspicion>,
}

/// How the model is spread over the GPUs, and what each works on at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutRecord {
    /// Degrees of parallelism.
    #[serde(flatten)]
    pub degrees: Layout,
    /// Sequences that a GPU works on at once.
    pub micro_batch: u32,
    /// Sequences of an optimizer step over all GPUs.
    pub global_batch: f64,
    /// Micro-steps of an optimizer step.
    pub grad_accumulation: f64,
    /// Which activations are computed again.
    pub recompute: Recompute,
    /// The degrees in short.
    #[serde(default)]
    pub label: String,
}

/// One step: how long it takes, where the time goes, what it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// One optimizer step; of a served model one pass.
    pub step_seconds: Band,
    /// Where the expected time goes, largest first; what is too small to see is left out.
    #[serde(default)]
    pub step_parts: Vec<StepPart>,
    /// `null` for models that count samples, such as images.
    #[serde(default)]
    pub tokens_per_second: Option<Band>,
    /// Sequences, or images.
    pub samples_per_second: Band,
    /// Arithmetic of the model over what the GPUs could do at their dense peak.
    pub model_flop_utilization: f64,
    /// At the fullest moment, of one GPU.
    pub gpu_memory_bytes: Band,
    /// What a step waits for most: `compute`, `memory-bandwidth`, `launch`, `gpu-link`, `network`, `pipeline` or `input`; of input
    /// also which part, such as `input: cpu decode`.
    pub bound_by: String,
    /// Share of a step in which the GPUs do the model's work.
    pub gpu_utilization: Band,
    /// How the machines bring samples to the GPUs; absent where nobody could tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputRecord>,
}

/// A part of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepPart {
    /// Such as `matrix products` or `data parallel traffic`.
    pub part: String,
    /// Of the expected time.
    pub seconds: Seconds,
}

/// How long the whole run takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeRecord {
    /// Hours until the first machine runs.
    #[serde(default)]
    pub wait_hours: WaitRecord,
    /// Hours from the request to the last save.
    pub run_hours: Quantiles<f64>,
    /// Of undisturbed training.
    #[serde(default)]
    pub gpu_hours: Option<f64>,
}

/// How long until the first machine runs. Nobody publishes it for capacity that is not spot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WaitRecord {
    /// The word `unknown`.
    Unknown(Unknown),
    /// From the forecast of a plan on spot machines. Hours.
    Known {
        /// Median.
        p50: f64,
        /// 90th percentile.
        p90: f64,
        /// Where it comes from.
        basis: String,
    },
}

impl Default for WaitRecord {
    fn default() -> Self {
        Self::Unknown(Unknown::Unknown)
    }
}

/// The word for what nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// Nobody knows.
    Unknown,
}

/// Saving: how much, how often, and how long it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointRecord {
    /// Of one checkpoint.
    pub bytes: Bytes,
    /// Between two checkpoints.
    pub interval_seconds: Seconds,
    /// Until the copy is in the bucket.
    pub upload_seconds: Seconds,
    /// That training stands still.
    pub stall_seconds: Seconds,
    /// For spot machines whose cloud warns before it takes them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<NoticeRecord>,
}

/// What a warning before an interruption is good for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoticeRecord {
    /// Between the warning and the end of the machine.
    pub seconds: Seconds,
    /// Of a checkpoint that can be safe by then.
    pub saves_bytes: Bytes,
    /// That is all of it.
    pub saves_all: bool,
}

/// Bringing the data to each new machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagingRecord {
    /// Of the data.
    pub bytes: Bytes,
    /// Until it is there.
    pub seconds: Seconds,
    /// Of one machine.
    pub bytes_per_second: f64,
    /// What holds it up, in words.
    pub limit: String,
}

/// How a machine carries the runs of a sweep. Figures of a step are those of one run; time and money are of all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepRecord {
    /// Runs in all.
    pub runs: u32,
    /// GPUs of one run; below 1 it shares a card.
    pub gpus_per_run: GpuCount,
    /// Runs at the same time.
    pub side_by_side: u32,
    /// Times that the machine is filled.
    pub rounds: u32,
    /// Undisturbed training of one run.
    pub run_hours: Hours,
}

/// Sentences about one plan, and the same with figures in the same order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Explanation {
    /// Why it was chosen; of the recommended plan.
    pub because: Vec<String>,
    /// `because` with figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Remark>,
    /// How to run it well.
    pub advice: Vec<String>,
    /// `advice` with figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Remark>,
}

impl PlanRecord {
    /// GPUs of all machines.
    pub fn gpus(&self) -> u64 {
        u64::from(self.machines.nodes) * u64::from(self.machines.gpus_per_node)
    }
}

impl Identified for PlanRecord {
    fn id(&self) -> &str {
        &self.id
    }
}

impl MachinesRecord {
    /// Zone, or region where prices do not differ by zone.
    pub fn place(&self) -> &str {
        self.zone_id.as_deref().unwrap_or(&self.region)
    }
}
