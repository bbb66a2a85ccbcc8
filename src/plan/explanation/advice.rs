//! `Advice`: what to do to run a plan well, with its figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explanation::input_wait::InputWait;
use gpuplan_units::{Bytes, Hours, Seconds};

/// A part of a GPU, as MIG cuts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MigSlice {
    /// As `nvidia-smi` calls it.
    pub profile: String,
    /// Multiprocessors, in parts of the whole, such as `1/7`.
    pub processors: String,
}

/// What published trainings paid, over what their steps are estimated to take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectHours {
    pub projects: u32,
    /// A quarter of them paid less.
    pub lower_quartile: f64,
    pub median: f64,
    /// A quarter of them paid more.
    pub upper_quartile: f64,
}

/// What to do, or to know, to run a plan well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Advice {
    GradientAccumulation {
        micro_steps: f64,
        micro_batch: u32,
    },
    /// Activations do not fit otherwise.
    ActivationCheckpointing,
    /// For fp16.
    LossScaling,
    /// The GPU computes nothing in bf16.
    NoBf16 {
        gpu: String,
        is_served: bool,
    },
    /// The GPU computes nothing in fp8.
    NoFp8 {
        gpu: String,
    },
    /// Hardly any published run on this vendor's chips is in the fit.
    UnfittedVendor,
    /// A width that tensor cores cannot tile without waste.
    PadWidth {
        dimension: Dimension,
        width: u32,
        tensor_parallel: u32,
    },
    /// A global batch beyond what published runs trained with plain settings.
    LargeBatch {
        counts_samples: bool,
    },
    /// Sequences longer than the model was made for.
    BeyondPositions {
        tokens: u32,
        positions: u32,
    },
    /// A long run on several machines: what its hours hold beside steps, and what those of published projects held.
    WholeRun {
        /// Saving, redone work and restarts over the time of the run. Counted.
        lost_share: f64,
        /// What failures alone would take if a person restarted the run. Not counted.
        by_hand_share: f64,
        projects: ProjectHours,
    },
    /// Kernel launches dominate.
    CompileModel,
    StageOnLocalDisk {
        data_bytes: Bytes,
        disk_bytes: Bytes,
    },
    DataExceedsLocalDisk,
    /// The job uses little of its card for a short time.
    SmallerCard {
        memory_share: f64,
        run_hours: Hours,
        /// What of this GPU holds it, where it can be cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slice: Option<MigSlice>,
    },
    /// Sharded training over PCIe.
    ShardingOverPcie,
    /// Tensor-parallel serving over PCIe.
    ServingOverPcie,
    /// Experts are split by matrices.
    ExpertParallel,
    /// Spot machines of batch inference lose what was running.
    KeepAnsweredRequests,
    /// The notice before an interruption is long enough to save everything.
    SaveOnNotice {
        notice_seconds: Seconds,
        checkpoint_bytes: Bytes,
    },
    ShortNotice {
        notice_seconds: Seconds,
        saved_bytes: Bytes,
        checkpoint_bytes: Bytes,
    },
    NoNotice,
    /// Nobody has probed how often so many spot machines are there at once.
    UnprobedCount {
        nodes: u32,
    },
    /// Nothing is published about interruptions of this machine.
    NoInterruptionData,
    InputWait(InputWait),
}

/// A width of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dimension {
    HiddenSize,
    FeedForwardWidth,
    Vocabulary,
}
