//! Reasons, advice and warnings for plans of a served model.

use crate::candidate::Plan;
use crate::context::Context;
use crate::explanation::reason::LatencyComparison;
use crate::explanation::{Advice, Reason, Warning};
use gpuplan_estimate::load::HEADROOM;
use gpuplan_estimate::{Bound, StepEstimate};
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::{Serving, StoredFormat, Workload};

/// A service whose machines are asked for less than this part of what they could answer is one that a shared API may carry for less. Judged.
const LITTLE_LOAD: f64 = 0.1;

/// How many requests run at once and why, and what bounds that.
pub fn reasons(context: Context, serving: &Serving, best: &Plan) -> Vec<Reason> {
    let Some(served) = best.step.served else { return Vec::new() };
    let load = if serving.is_job() {
        Reason::BatchInference {
            sequences: served.batch_limit,
            weights_bytes: Bytes(best.step.memory.weights),
            cache_bytes: Bytes(best.step.memory.cache),
            gpu_memory_bytes: context.world.hardware.instance(best.instance).node.gpu_memory,
        }
    } else {
        Reason::ReplicaLoad { headroom_share: HEADROOM, running_requests: served.batch.max(1.0) }
    };
    vec![load, bound(&best.step, serving)]
}

/// How long people wait with another plan. `None` for batch inference, where nobody waits.
pub fn latency(serving: &Serving, best: &Plan, other: &Plan) -> Option<LatencyComparison> {
    let p90 = |plan: &Plan| Seconds(plan.step.served.map_or(0.0, |served| served.first_token.p90));
    (!serving.is_job()).then(|| LatencyComparison {
        generates: serving.answer_tokens > 0,
        p90_seconds: p90(other),
        recommended_p90_seconds: p90(best),
    })
}

fn bound(step: &StepEstimate, serving: &Serving) -> Reason {
    let time = &step.time;
    let generates = serving.answer_tokens > 0;
    let seconds = match step.bound {
        // What one layer hands to the next.
        Bound::MemoryBandwidth if !generates => time.total - time.launch - time.matmul - time.head,
        Bound::MemoryBandwidth => time.elementwise + time.optimizer + time.dequantise,
        Bound::Launch => time.launch,
        Bound::GpuLink => time.tensor_parallel,
        Bound::Pipeline => time.bubble,
        Bound::Compute | Bound::Network | Bound::Input => time.matmul + time.attention + time.head,
    };
    Reason::ServingBound { bound: step.bound, share: seconds / time.total, generates }
}

/// Which formats its GPU lacks, and what its links and its layout cost.
pub fn advice(context: Context, serving: &Serving, plan: &Plan) -> Vec<Advice> {
    let Context { world, workload, .. } = context;
    let gpu = world.gpu_of(plan.instance);
    let mut advice = Vec::new();
    if gpu.architecture.is_amd() {
        advice.push(Advice::UnfittedVendor);
    }
    if gpu.peak_tflops.bf16.is_none() && serving.weights == StoredFormat::Bf16 {
        advice.push(Advice::NoBf16 { gpu: gpu.name.clone(), is_served: true });
    }
    if gpu.peak_tflops.fp8.is_none() && serving.weights == StoredFormat::Fp8 {
        advice.push(Advice::NoFp8 { gpu: gpu.name.clone() });
    }
    let layout = plan.step.setting.layout;
    if layout.tensor > 1 && !world.hardware.instance(plan.instance).node.link.is_fast() {
        advice.push(Advice::ServingOverPcie);
    }
    if workload.model.experts.is_some() {
        advice.push(Advice::ExpertParallel);
    }
    advice
}

/// Machines are paid for by the hour, whether anybody asks or not.
pub fn mostly_idle(serving: &Serving, best: &Plan) -> Option<Warning> {
    let served = best.step.served.filter(|_| !serving.is_job())?;
    let load_share = served.requests_per_second / served.most_requests_per_second;
    (load_share < LITTLE_LOAD).then_some(Warning::MostlyIdle { load_share })
}

/// What the figures of every such plan leave out.
pub fn warning(workload: &Workload, serving: &Serving) -> Warning {
    Warning::ServingFigures {
        counts_samples: workload.model.kind.counts_samples(),
        generates: serving.answer_tokens > 0,
    }
}
