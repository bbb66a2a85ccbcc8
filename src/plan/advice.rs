//! Reasons for a choice, and advice where it applies: batch, recompute, precision, alignment, loader, slices, network.

use crate::bill::PlaceCharges;
use crate::candidate::Plan;
use crate::choose::{PATIENCE, PlanSet, World};
use crate::limits::{Limits, Objective};
use crate::loading;
use crate::serving_advice;
use crate::spot::Outlook;
use gpuplan_estimate::{Bound, StepEstimate};
use gpuplan_hardware::{Architecture, InstanceType};
use gpuplan_market::Purchase;
use gpuplan_units::{Bytes, Hours, Usd};
use gpuplan_workload::{Optimizer, Recompute, Shard, Workload};

/// Tokens in a step beyond which published runs needed warm-up and tuned learning rates: GPT-3 175B used 3.2M
/// (arXiv 2005.14165, table 2.1).
const LARGE_BATCH_TOKENS: f64 = 8e6;
/// Images in a step beyond which plain SGD loses accuracy: Goyal et al. 2017 (arXiv 1706.02677) held to 8k.
const LARGE_BATCH_IMAGES: f64 = 8192.0;
/// A job that uses less of a card than this could share it.
const SMALL_SHARE: f64 = 0.25;

/// Dollars under which nobody waits an hour: a fraction of what an hour of an engineer costs. Judgement.
const CHEAP_HOUR: f64 = 5.0;

/// Reasons, advice and notes for the plans that will be shown.
pub fn annotate(world: World, workload: &Workload, limits: &Limits, plans: usize, set: &mut PlanSet) {
    let runner_up = runner_up(set).cloned();
    if let Some(best) = &mut set.recommendation {
        best.because = match &workload.serving {
            Some(serving) => serving_advice::because(world, serving, aim(limits), plans, best, runner_up.as_ref()),
            None => because(world, workload, limits, plans, best, runner_up.as_ref()),
        };
        best.because.extend(own_runs(world, workload, best));
        best.advice = advice(world, workload, best);
    }
    for plan in set.frontier.iter_mut().chain(&mut set.alternatives) {
        plan.advice = advice(world, workload, plan);
        plan.advice.extend(loading::why_waiting(world, workload, plan));
    }
    set.notes.extend(measured(world, set));
    set.notes.extend(workload.serving.as_ref().map(|serving| serving_advice::note(workload, serving)));
    if limits.deadline.is_none() && set.recommendation.is_some() && !workload.is_service() {
        set.notes.push(format!("no deadline given: plans that end within {PATIENCE} are preferred"));
    }
    set.notes.extend(sooner_for_little(world, limits, set));
    if let Some(best) = &set.recommendation {
        set.notes.extend(loading::said(world, workload, best.instance));
        let offer = world.market.offer(best.offer);
        let instance = world.hardware.instance(best.instance);
        let unpriced =
            PlaceCharges::new(&world.market.charges, offer, instance, workload.data.as_ref(), 1.0).unpriced();
        if !unpriced.is_empty() {
            set.notes.push(format!(
                "not in the bill, because {} publishes no rate here: {}",
                instance.cloud.label(),
                unpriced.join(", ")
            ));
        }
        if best.spot.is_some() {
            set.notes.push(
                "spot: hours, cost and chance are replayed on availability fitted to V100 and K80 probes on AWS in 2022 (docs/risk.md)"
                    .to_owned(),
            );
            let firm = set
                .frontier
                .iter()
                .chain(&set.alternatives)
                .filter(|plan| world.market.offer(plan.offer).purchase == Purchase::OnDemand);
            if let Some(firm) = firm.min_by_key(|plan| plan.cost.expected) {
                let name = crate::explain::plan_id(world, firm);
                set.notes.push(format!(
                    "capacity that is not taken back costs ${:.2}: {name} (--on-demand)",
                    firm.cost.expected.dollars()
                ));
            }
        }
    }
}

/// Where hours are saved for little, the plan that saves them cheapest.
fn sooner_for_little(world: World, limits: &Limits, set: &PlanSet) -> Option<String> {
    let best = set.recommendation.as_ref().filter(|_| limits.objective == Objective::Cost)?;
    let an_hour = |plan: &&Plan| {
        (plan.cost.expected.dollars() - best.cost.expected.dollars())
            / (best.run.hours.expected - plan.run.hours.expected)
    };
    let sooner = set.frontier.iter().filter(|plan| plan.run.hours.expected + 1.0 < best.run.hours.expected);
    let plan = sooner.filter(|plan| an_hour(plan) < CHEAP_HOUR).min_by(|a, b| an_hour(a).total_cmp(&an_hour(b)))?;
    Some(format!(
        "{} sooner for ${:.2} more: {} (--value-of-time {:.2} would choose it)",
        Hours(best.run.hours.expected - plan.run.hours.expected),
        plan.cost.expected.dollars() - best.cost.expected.dollars(),
        crate::explain::plan_id(world, plan),
        // Rounded up, so that it does.
        (an_hour(&plan) * 100.0).ceil() / 100.0,
    ))
}

/// What was measured, and what that changed for the recommended GPU and for the next best.
fn measured(world: World, set: &PlanSet) -> Vec<String> {
    let mut notes: Vec<String> =
        world.correction.measured().iter().flat_map(|measured| measured.reasons.iter().cloned()).collect();
    for plan in set.recommendation.iter().chain(runner_up(set)) {
        let gpu = world.hardware.gpu(world.hardware.instance(plan.instance).node.gpu);
        notes.extend(world.correction.said_of(gpu).filter(|said| !notes.contains(said)));
    }
    notes
}

/// The best plan on other hardware or other terms.
pub fn runner_up(set: &PlanSet) -> Option<&Plan> {
    let best = set.recommendation.as_ref()?;
    let other = |plan: &&Plan| {
        plan.instance != best.instance && plan.run.hours.expected <= PATIENCE.0.max(best.run.hours.expected)
    };
    set.frontier.iter().chain(&set.alternatives).filter(other).min_by_key(|plan| plan.cost.expected)
}

fn because(
    world: World,
    workload: &Workload,
    limits: &Limits,
    plans: usize,
    best: &Plan,
    runner_up: Option<&Plan>,
) -> Vec<String> {
    let mut reasons = vec![format!("{}, among {plans} plans that keep every limit", aim(limits))];
    let instance = world.hardware.instance(best.instance);
    let memory = Bytes(best.step.memory.required);
    reasons.push(format!(
        "{} with micro batch {} needs {memory} of {} a GPU{}",
        best.step.setting.layout,
        best.step.setting.micro_batch,
        instance.node.gpu_memory,
        match best.step.setting.recompute {
            Recompute::None => "",
            Recompute::Selective => ", recomputing attention",
            Recompute::Full | Recompute::Offload => ", recomputing activations",
        }
    ));
    reasons.push(bound_sentence(best));
    reasons.extend(loading::why_waiting(world, workload, best));
    if let Some(other) = runner_up {
        let offer = world.market.offer(other.offer);
        let gpu = world.hardware.gpu(world.hardware.instance(other.instance).node.gpu);
        let dearer = other.cost.expected.dollars() / best.cost.expected.dollars();
        reasons.push(format!(
            "next: {} x {} {} in {}, {:+.0} % cost, {} instead of {}",
            other.gpus(),
            gpu.name,
            other.terms(offer.purchase),
            offer.place.region,
            (dearer - 1.0) * 100.0,
            other.hours(),
            best.hours()
        ));
    }
    reasons
}

/// What the user's own finished runs changed in the time and in its doubt.
fn own_runs(world: World, workload: &Workload, plan: &Plan) -> Option<String> {
    let (own, known) = world.correction.own_runs().zip(plan.step.experience)?;
    let gpu = world.hardware.gpu(world.hardware.instance(plan.instance).node.gpu);
    let more = |step: &StepEstimate| (step.step_seconds().high / step.step_seconds().expected - 1.0) * 100.0;
    let without = StepEstimate { experience: None, ..(*plan.step).clone() };
    Some(format!(
        "your finished runs: {}; so time x {:.2}, and nine of ten steps take at most {:.0} % more than that ({:.0} % without them)",
        own.said_of(gpu, &workload.model, &workload.training),
        known.time,
        more(&plan.step),
        more(&without)
    ))
}

fn aim(limits: &Limits) -> &'static str {
    match limits.objective {
        Objective::Cost if limits.value_of_time > Usd::ZERO => {
            "the least cost of machines and waiting, and of plans within 5 % of it the fastest"
        }
        Objective::Cost => "the least cost, and of plans within 5 % of it the fastest",
        Objective::Time => "the shortest run",
        Objective::Balanced => "the least product of cost and time",
    }
}

fn bound_sentence(plan: &Plan) -> String {
    let time = &plan.step.time;
    let share = |part: f64| part / time.total * 100.0;
    match plan.step.bound {
        Bound::Compute => {
            format!("bound by arithmetic ({:.0} % of a step)", share(time.matmul + time.attention + time.head))
        }
        Bound::MemoryBandwidth => {
            format!(
                "bound by memory bandwidth ({:.0} % of a step)",
                share(time.elementwise + time.optimizer + time.dequantise)
            )
        }
        Bound::Launch => {
            format!("bound by kernel launches ({:.0} % of a step): the GPU waits for the host", share(time.launch))
        }
        Bound::GpuLink => format!("bound by the link between GPUs ({:.0} % of a step)", share(time.tensor_parallel)),
        Bound::Network => format!("bound by the network ({:.0} % of a step)", share(time.data_parallel + time.jitter)),
        Bound::Pipeline => format!("bound by pipeline bubbles ({:.0} % of a step)", share(time.bubble)),
        Bound::Input => {
            let part = plan.step.input_limit().map_or(String::new(), |limit| format!(", {}", limit.word()));
            format!(
                "bound by the input pipeline{part} ({:.0} % of a step): the loader cannot feed the GPU",
                share(time.input)
            )
        }
    }
}

/// Everything worth saying about running this plan well.
pub fn advice(world: World, workload: &Workload, plan: &Plan) -> Vec<String> {
    let instance = world.hardware.instance(plan.instance);
    let mut said = match &workload.serving {
        Some(serving) => serving_advice::advice(world, workload, serving, plan),
        None => Vec::new(),
    };
    if workload.serving.is_none() {
        training_advice(workload, plan, world, instance, &mut said);
    }
    machine_advice(workload, plan, instance, &mut said);
    said
}

fn training_advice(workload: &Workload, plan: &Plan, world: World, instance: &InstanceType, said: &mut Vec<String>) {
    let setting = &plan.step.setting;
    let (model, training) = (&workload.model, &workload.training);
    if setting.micro_steps() > 1.0 {
        said.push(format!(
            "gradient accumulation: {:.0} micro-steps of {} sequences a GPU",
            setting.micro_steps(),
            setting.micro_batch
        ));
    }
    if matches!(setting.recompute, Recompute::Full | Recompute::Offload) {
        said.push("activation checkpointing is needed to fit and costs about a third more arithmetic".to_owned());
    }
    if training.precision.needs_loss_scaling() {
        said.push("fp16 needs loss scaling (dynamic, starting at 2^16)".to_owned());
    }
    let gpu = world.hardware.gpu(instance.node.gpu);
    if gpu.peak_tflops.bf16.is_none()
        && training.precision.activation_bytes() < 4.0
        && !training.precision.needs_loss_scaling()
    {
        said.push(format!("{} has no bf16 units: use fp16 with loss scaling", gpu.name));
    }
    if matches!(gpu.architecture, Architecture::Cdna2 | Architecture::Cdna3 | Architecture::Cdna4) {
        said.push("no published run on AMD chips is in the fit: measure before renting many".to_owned());
    }
    if model.kind.is_transformer() {
        let tensor = setting.layout.tensor;
        let widths =
            [("hidden size", model.hidden), ("feed-forward width", model.ffn_hidden), ("vocabulary", model.vocab)];
        for (name, width) in widths.into_iter().filter(|(_, width)| *width > 0) {
            if !(width / tensor).is_multiple_of(64) {
                said.push(format!(
                    "pad the {name} ({width} over {tensor}) to a multiple of 64 a rank: tensor cores lose whole tiles"
                ));
            }
        }
    }
    let units = if model.kind.counts_samples() {
        setting.global_batch
    } else {
        setting.global_batch * f64::from(training.sequence_length)
    };
    let (large, remedy) = if model.kind.counts_samples() {
        (LARGE_BATCH_IMAGES, "LARS or LAMB")
    } else {
        (LARGE_BATCH_TOKENS, "learning-rate scaling with a longer warm-up, or LAMB")
    };
    if units > large && !matches!(training.optimizer, Some(Optimizer::Lamb | Optimizer::Lars)) {
        said.push(format!("a global batch this large needs {remedy}"));
    }
    if plan.step.bound == Bound::Launch && !training.is_compiled() {
        said.push("kernel launches dominate: compile the model, or raise the micro batch".to_owned());
    }
}

fn machine_advice(workload: &Workload, plan: &Plan, instance: &InstanceType, said: &mut Vec<String>) {
    let gpus = f64::from(instance.node.devices());
    if let Some(data) = workload.data.as_ref().filter(|data| data.location.is_none()) {
        match instance.local_nvme {
            Some(nvme) if nvme >= data.size => {
                said.push(format!(
                    "stage the data on local NVMe ({:.1} of {:.1} TB)",
                    data.size.0 / 1e12,
                    nvme.0 / 1e12
                ));
            }
            Some(nvme) if nvme.0 > 0.0 => {
                said.push("the data does not fit on local NVMe: stream it, or shard it over machines".to_owned());
            }
            _ => {}
        }
    }
    let share = plan.step.memory.needed / instance.node.gpu_memory.0;
    if plan.gpus() == 1 && !instance.node.gpus.is_slice() && share < SMALL_SHARE && plan.hours() < Hours(2.0) {
        said.push(format!(
            "uses {:.0} % of the card's memory for {}: a slice (MIG, fractional instance) or a smaller card would do",
            share * 100.0,
            plan.hours()
        ));
    }
    if gpus > 1.0 && !instance.node.link.is_fast() && plan.step.setting.layout.shard != Shard::None {
        said.push("these GPUs talk over PCIe: sharding can cost more than it saves".to_owned());
    }
    if let Some(spot) = &plan.spot {
        spot_advice(plan, spot, said);
    }
}

/// What a warning before an interruption is good for, and on what little the forecast rests.
fn spot_advice(plan: &Plan, spot: &Outlook, said: &mut Vec<String>) {
    let saving = &plan.run.saving;
    match saving.notice {
        _ if plan.step.served.is_some() => {
            said.push(
                "keep a list of answered requests in the bucket: an interruption then costs those that were running"
                    .to_owned(),
            );
        }
        Some(notice) if notice.saves_all => {
            said.push(format!(
                "on the notice of {:.0} s save at once: all of {} is safe before the machine is gone",
                notice.seconds, saving.bytes
            ));
        }
        Some(notice) => said.push(format!(
            "a notice of {:.0} s saves only {} of {}: an interruption costs the work since the last save",
            notice.seconds, notice.saves, saving.bytes
        )),
        None => said.push(
            "no notice before an interruption is known of this cloud: it costs the work since the last save".to_owned(),
        ),
    }
    if plan.nodes > 1 {
        said.push(format!(
            "nobody has probed {} machines at once: the forecast takes them as one, and they may be had less often",
            plan.nodes
        ));
    }
    if spot.basis.starts_with("nothing known") {
        said.push(
            "no interruption data for this machine: the forecast starts from the average pool of other machines"
                .to_owned(),
        );
    }
}
