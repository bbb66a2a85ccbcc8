//! What to run: the model, how it is trained, on how much data, and the file that says so.

pub mod amount;
pub mod assumption;
pub mod data;
pub mod file;
mod framework;
pub mod model;
pub mod processing;
pub mod profile;
pub mod serving;
pub mod stack;
pub mod trace;
pub mod training;

pub use amount::{Amount, Checkpoint, DataSet};
pub use assumption::Assumption;
pub use data::{DataKind, Decoder, DiskKind, FileLayout, LoaderSettings, Storage};
pub use model::catalog::Models;
pub use model::operators::Gemm;
pub use model::{LayerStack, MlpKind, Model, ModelKind, NormKind, catalog, huggingface, operators, safetensors};
pub use processing::Processing;
pub use serving::{
    Disaggregation, Load, Sampling, Serving, ServingEngine, ServingLayout, Speculation, StoredFormat, Transcription,
    Workers,
};
pub use stack::{Stack, Stacks};
pub use training::layout::{Layout, Shard};
pub use training::objective::Objective;
pub use training::precision::{BaseWeights, LowPrecision, Precision, Scaling};
pub use training::sweep::{self, Sweep};
pub use training::{
    AttentionKernel, Framework, FsdpStyle, Kernels, Latents, Lora, LossKernel, Measure, MemorySavings, Offload,
    Optimizer, Overlap, Recompute, Synchronization, Task, Training,
};

/// A run as the user describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub name: String,
    pub model: Model,
    pub training: Training,
    pub amount: Amount,
    pub data: Option<DataSet>,
    pub checkpoint: Checkpoint,
    /// Time that the job spends beside training steps over that of its steps; `None`: not stated, and none is counted.
    pub overhead: Option<f64>,
    /// `None`: it is run once.
    pub sweep: Option<Sweep>,
    /// `None`: the model is trained.
    pub serving: Option<Serving>,
}

impl Workload {
    /// Requests come by themselves, for so many hours.
    pub fn is_service(&self) -> bool {
        self.serving.is_some_and(|serving| !serving.is_job())
    }

    /// Time of the job over that of its training steps.
    pub fn time_over_steps(&self) -> f64 {
        1.0 + self.overhead.unwrap_or(0.0)
    }
}
