//! Reasons and advice for plans of a served model: what bounds it, what its figures leave out, which formats its GPU lacks.

use crate::candidate::Plan;
use crate::choose::World;
use crate::filters::milliseconds;
use gpuplan_estimate::load::HEADROOM;
use gpuplan_estimate::{Bound, StepEstimate};
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::{Serving, StoredFormat, Workload};

/// Why this plan; `aim` is what was aimed for.
pub fn because(
    world: World,
    serving: &Serving,
    aim: &str,
    plans: usize,
    best: &Plan,
    runner_up: Option<&Plan>,
) -> Vec<String> {
    let mut reasons = vec![format!("{aim}, among {plans} plans that keep every limit")];
    let Some(served) = best.step.served else { return reasons };
    let card = world.hardware.instance(best.instance).node.gpu_memory;
    let (weights, cache) = (Bytes(best.step.memory.weights), Bytes(best.step.memory.cache));
    reasons.push(if serving.is_job() {
        format!("nobody waits, so {} sequences run at once: {weights} of weights and {cache} of {card} a GPU", served.batch_limit)
    } else {
        format!(
            "a replica is given at most {:.0} % of what it can do, and keeps the targets for 90 % of requests with {:.0} running at once",
            HEADROOM * 100.0,
            served.batch.max(1.0)
        )
    });
    reasons.push(bound_sentence(&best.step, serving));
    if let Some(other) = runner_up {
        reasons.push(next(world, serving, best, other));
    }
    reasons
}

fn next(world: World, serving: &Serving, best: &Plan, other: &Plan) -> String {
    let offer = world.market.offer(other.offer);
    let gpu = world.hardware.gpu(world.hardware.instance(other.instance).node.gpu);
    let dearer = other.cost.expected.dollars() / best.cost.expected.dollars();
    let first = |plan: &Plan| milliseconds(Seconds(plan.step.served.map_or(0.0, |served| served.first_token.p90)));
    let instead = if serving.is_job() {
        format!("{} instead of {}", other.hours(), best.hours())
    } else {
        let what = if serving.answer_tokens > 0 { "first token" } else { "answer" };
        format!("{what} in {} instead of {} at 90 %", first(other), first(best))
    };
    format!(
        "next: {} x {} {} in {}, {:+.0} % cost, {instead}",
        other.gpus(),
        gpu.name,
        other.terms(offer.purchase),
        offer.place.region,
        (dearer - 1.0) * 100.0
    )
}

fn bound_sentence(step: &StepEstimate, serving: &Serving) -> String {
    let time = &step.time;
    let share = |part: f64| part / time.total * 100.0;
    match step.bound {
        Bound::MemoryBandwidth if serving.answer_tokens == 0 => {
            let part = share(time.total - time.launch - time.matmul - time.head);
            format!("bound by memory bandwidth: what one layer hands to the next ({part:.0} % of the time)")
        }
        Bound::MemoryBandwidth => "bound by memory bandwidth: weights and keys are read for every token".to_owned(),
        Bound::Launch => {
            format!("bound by the host and by kernels that begin and end ({:.0} % of the time)", share(time.launch))
        }
        Bound::GpuLink => format!("bound by the link between GPUs ({:.0} % of the time)", share(time.tensor_parallel)),
        Bound::Pipeline => format!("bound by handing on between stages ({:.0} % of the time)", share(time.bubble)),
        _ => format!("bound by arithmetic ({:.0} % of the time)", share(time.matmul + time.attention + time.head)),
    }
}

/// Everything worth saying about running this plan well.
pub fn advice(world: World, workload: &Workload, serving: &Serving, plan: &Plan) -> Vec<String> {
    let gpu = world.hardware.gpu(world.hardware.instance(plan.instance).node.gpu);
    let mut said = Vec::new();
    if gpu.architecture.is_amd() {
        said.push("no published run on AMD chips is in the fit: measure before renting many".to_owned());
    }
    if gpu.peak_tflops.bf16.is_none() && serving.weights == StoredFormat::Bf16 {
        said.push(format!("{} has no bf16 units: serve in fp16", gpu.name));
    }
    if gpu.peak_tflops.fp8.is_none() && serving.weights == StoredFormat::Fp8 {
        said.push(format!("{} has no fp8 units: weights are stored in 8 bits and multiplied in 16", gpu.name));
    }
    let layout = plan.step.setting.layout;
    if layout.tensor > 1 && !world.hardware.instance(plan.instance).node.link.is_fast() {
        said.push("these GPUs talk over PCIe: every layer of every token waits for it".to_owned());
    }
    if workload.model.experts.is_some() {
        said.push(
            "experts are split by matrices here; splitting them over GPUs (expert parallel) may be faster for large batches".to_owned(),
        );
    }
    said
}

/// What the figures of every such plan leave out.
pub fn note(workload: &Workload, serving: &Serving) -> String {
    if workload.model.kind.counts_samples() {
        return "latency and rate are those of the engine on its GPUs, with images that lie decoded in the memory of the host: reading and \
                decoding them, the network to users and a queue before it come on top"
            .to_owned();
    }
    let answers = if serving.answer_tokens > 0 {
        "prefixes that are cached and tokens that are guessed ahead (speculative decoding) would be faster; "
    } else {
        ""
    };
    format!(
        "latency and rate are those of the engine on its GPUs: {answers}the network to users, tokenizing and a queue before it come on top"
    )
}
