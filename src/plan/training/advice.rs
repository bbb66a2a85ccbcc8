//! Reasons and advice for plans of a training run: batch, recompute, precision, alignment, launches.

use crate::candidate::Plan;
use crate::context::Context;
use crate::explanation::advice::Dimension;
use crate::explanation::{Advice, Reason, Warning};
use crate::training::{packing, whole_run};
use gpuplan_estimate::{Bound, Machine, Setting, StepEstimate, Subject};
use gpuplan_hardware::Architecture;
use gpuplan_units::Bytes;
use gpuplan_workload::stack::Column;
use gpuplan_workload::{Optimizer, Recompute, Stacks};

/// Tokens in a step beyond which published runs needed warm-up and tuned learning rates: GPT-3 175B used 3.2M
/// (arXiv 2005.14165, table 2.1).
const LARGE_BATCH_TOKENS: f64 = 8e6;
/// Images in a step beyond which plain SGD loses accuracy: Goyal et al. 2017 (arXiv 1706.02677) held to 8k.
const LARGE_BATCH_IMAGES: f64 = 8192.0;
/// Tensor cores work on tiles: a width of a rank that this does not divide leaves a part of them idle.
const TILE: u32 = 64;

/// How the model is spread, and what a step waits for most.
pub fn reasons(context: Context, best: &Plan) -> Vec<Reason> {
    let setting = &best.step.setting;
    let layout = Reason::Layout {
        layout: setting.layout.to_string(),
        micro_batch: setting.micro_batch,
        required_bytes: Bytes(best.step.memory.required),
        gpu_memory_bytes: context.world.hardware.instance(best.instance).node.gpu_memory,
        recompute: setting.recompute,
    };
    vec![layout, bound(&best.step)]
}

fn bound(step: &StepEstimate) -> Reason {
    let time = &step.time;
    let seconds = match step.bound {
        Bound::Compute => time.matmul + time.attention + time.head,
        Bound::MemoryBandwidth => time.elementwise + time.optimizer + time.dequantise,
        Bound::Launch => time.launch,
        Bound::GpuLink => time.tensor_parallel,
        Bound::Network => time.data_parallel + time.jitter,
        Bound::Pipeline => time.bubble,
        Bound::Input => time.input,
    };
    let input = step.input_limit().filter(|_| step.bound == Bound::Input).map(|limit| limit.word().to_owned());
    Reason::Bound { bound: step.bound, share: seconds / time.total, input }
}

/// What to do to train well with this plan.
pub fn advice(context: Context, plan: &Plan) -> Vec<Advice> {
    let Context { world, workload, .. } = context;
    let setting = &plan.step.setting;
    let training = &workload.training;
    let mut advice = Vec::new();
    if setting.micro_steps() > 1.0 {
        advice.push(Advice::GradientAccumulation {
            micro_steps: setting.micro_steps(),
            micro_batch: setting.micro_batch,
        });
    }
    if matches!(setting.recompute, Recompute::Full | Recompute::Offload) {
        advice.push(Advice::ActivationCheckpointing);
    }
    if training.precision.needs_loss_scaling() {
        advice.push(Advice::LossScaling);
    }
    let gpu = world.gpu_of(plan.instance);
    if gpu.peak_tflops.bf16.is_none()
        && training.precision.activation_bytes() < 4.0
        && !training.precision.needs_loss_scaling()
    {
        advice.push(Advice::NoBf16 { gpu: gpu.name.clone(), is_served: false });
    }
    if matches!(gpu.architecture, Architecture::Cdna2 | Architecture::Cdna3 | Architecture::Cdna4) {
        advice.push(Advice::UnfittedVendor);
    }
    advice.extend(widths_to_pad(context, plan));
    let (tokens, positions) = (training.sequence_length, workload.model.max_context);
    if !workload.model.kind.counts_samples() && positions > 0 && tokens > positions {
        advice.push(Advice::BeyondPositions { tokens, positions });
    }
    let counts_samples = workload.model.kind.counts_samples();
    let (units, large) = if counts_samples {
        (setting.global_batch, LARGE_BATCH_IMAGES)
    } else {
        (setting.global_batch * f64::from(training.sequence_length), LARGE_BATCH_TOKENS)
    };
    if units > large && !matches!(training.optimizer, Some(Optimizer::Lamb | Optimizer::Lars)) {
        advice.push(Advice::LargeBatch { counts_samples });
    }
    if plan.step.bound == Bound::Launch && !training.is_compiled() {
        advice.push(Advice::CompileModel);
    }
    advice.extend(whole_run::advice(context, plan));
    advice
}

/// That the stack of this run recomputes activations unless it is told not to, where the plan keeps them.
pub fn recomputes_unasked(context: Context, plan: &Plan) -> Option<Warning> {
    let Context { world, workload, .. } = context;
    let (training, setting) = (&workload.training, &plan.step.setting);
    let is_open = training.recompute.is_none() && training.task.has_backward() && workload.model.kind.is_transformer();
    // Where the plan recomputes layers, the memory needs it, and another piece of advice says so.
    let is_kept = matches!(setting.recompute, Recompute::None | Recompute::Selective);
    let stack = Stacks::embedded().for_framework(&training.framework).filter(|_| is_open && is_kept)?;
    let fact = stack.recompute.fact(Column::Parser)?;
    if matches!(fact.value, Recompute::None) || fact.value == setting.recompute {
        return None;
    }
    let node = packing::part(&world.hardware.instance(plan.instance).node, workload.sweep.as_ref()).ok()?;
    let machine = Machine::new(world.hardware.gpu(node.gpu), &node);
    let subject = Subject::new(&workload.model, training, machine).corrected(world.correction);
    let seconds = |recompute| Some(subject.estimate(&Setting { recompute, ..*setting }).ok()?.time.total);
    let step_ratio = seconds(fact.value)? / seconds(setting.recompute)?;
    Some(Warning::RecomputesUnasked {
        stack: stack.name.clone(),
        recompute: fact.value,
        setting: fact.quote.clone(),
        step_ratio,
    })
}

/// Widths of a transformer whose share of a rank leaves a part of the tiles idle.
fn widths_to_pad(context: Context, plan: &Plan) -> Vec<Advice> {
    let model = &context.workload.model;
    if !model.kind.is_transformer() {
        return Vec::new();
    }
    let tensor_parallel = plan.step.setting.layout.tensor;
    let widths = [
        (Dimension::HiddenSize, model.hidden),
        (Dimension::FeedForwardWidth, model.ffn_hidden),
        (Dimension::Vocabulary, model.vocab),
    ];
    let is_odd = |width: u32| width > 0 && !(width / tensor_parallel).is_multiple_of(TILE);
    let odd = widths.into_iter().filter(|(_, width)| is_odd(*width));
    odd.map(|(dimension, width)| Advice::PadWidth { dimension, width, tensor_parallel }).collect()
}
