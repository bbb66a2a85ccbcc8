//! One step of a plan: how the model is spread over the GPUs, how long a step takes, where the time goes, what it needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::document::context::Context;
use crate::document::record::input::InputRecord;
use crate::input::feeding::bound_word;
use crate::training::layouts::{UnevenStages, uneven_stages};
use crate::training::packing::part;
use gpuplan_estimate::{Machine, Performance, Subject, TimeBreakdown};
use gpuplan_units::{Band, Seconds};
use gpuplan_workload::{Layout, Recompute, Sampling};

/// A smaller share of a step is not shown.
const LEAST_SHARE: f64 = 0.0005;

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
    /// How layers are dealt out, where the stages of the pipeline cannot all have as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uneven_stages: Option<UnevenStages>,
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

impl LayoutRecord {
    pub(super) fn new(plan: &Plan, context: &Context) -> Self {
        let setting = &plan.step.setting;
        let layout = &setting.layout;
        Self {
            degrees: *layout,
            uneven_stages: uneven_stages(context.workload.model.layers, layout.pipeline, layout.virtual_pipeline),
            micro_batch: setting.micro_batch,
            global_batch: setting.global_batch,
            grad_accumulation: setting.micro_steps(),
            recompute: setting.recompute,
            label: setting.layout.to_string(),
        }
    }
}

impl StepRecord {
    pub(super) fn new(plan: &Plan, context: &Context) -> Self {
        let hardware = context.world.hardware;
        let (instance, workload) = (hardware.instance(plan.instance), context.workload);
        let node = part(&instance.node, workload.sweep.as_ref())
            .expect("a plan is made only where a run has its part of a machine");
        let machine = Machine::new(hardware.gpu(instance.node.gpu), &node);
        let subject = Subject::new(&workload.model, &workload.training, machine);
        let performance = Performance::new(&subject, &plan.step);
        // A round of images runs their network many times.
        let passes = workload.serving.and_then(|serving| serving.images).map_or(1.0, Sampling::passes);
        let counts_samples = workload.model.kind.counts_samples();
        let parts = time_parts(&plan.step.time).into_iter();
        Self {
            step_seconds: plan.step.step_seconds(),
            step_parts: parts
                .map(|(part, seconds)| StepPart { part: part.to_owned(), seconds: Seconds(seconds) })
                .collect(),
            tokens_per_second: (!counts_samples).then_some(performance.units_per_second),
            samples_per_second: performance.samples_per_second,
            model_flop_utilization: performance.model_flop_utilization * passes,
            gpu_memory_bytes: performance.memory_bytes,
            bound_by: bound_word(&plan.step),
            gpu_utilization: utilization(plan),
            input: InputRecord::new(plan, instance, context.words),
        }
    }
}

/// Useful share of a step; a slower step than expected is one with more waiting.
fn utilization(plan: &Plan) -> Band {
    let expected = plan.utilization();
    let step = plan.step.step_seconds();
    Band { low: expected * step.expected / step.high, expected, high: (expected * step.expected / step.low).min(1.0) }
}

/// Where the seconds of a step go, largest first; what is too small to see is left out.
pub fn time_parts(time: &TimeBreakdown) -> Vec<(&'static str, f64)> {
    let parts = [
        ("matrix products", time.matmul),
        ("attention", time.attention),
        ("element-wise kernels", time.elementwise),
        ("output head and loss", time.head),
        ("kernel launches", time.launch),
        ("tensor parallel traffic", time.tensor_parallel),
        ("expert exchange", time.expert_parallel),
        ("context exchange", time.context_parallel),
        ("dequantisation", time.dequantise),
        ("pipeline bubble", time.bubble),
        ("data parallel traffic", time.data_parallel),
        ("slowest machine", time.jitter),
        ("optimizer", time.optimizer),
        ("waiting for input", time.input),
    ];
    let mut shown: Vec<_> = parts.into_iter().filter(|(_, seconds)| *seconds > LEAST_SHARE * time.total).collect();
    shown.sort_by(|a, b| b.1.total_cmp(&a.1));
    shown
}
