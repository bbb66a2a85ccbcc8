//! Rules from what was measured to what costs time: each with evidence, threshold, advice and what mending it would change.
//!
//! Every rule is a function of its own that says nothing below its threshold and nothing where its figures were not measured.

use crate::telemetry::samples::HOST_FULL;
use crate::workload::Precision;
use crate::workload::profile::{Cause, Finding, GpuUsage, Mended, OperatorClass, Operators, Profile, Rule, Usage};

/// A GPU that works less than this is not used well; the line that the plan draws, too. Judged.
pub const BUSY: f64 = 0.70;
/// What a GPU reaches that is fed: the rest is the start of steps, saving, logging. Judged.
const FED: f64 = 0.95;
/// Memory that is nearly full. Judged: allocators keep some in reserve.
const FULL: f64 = 0.80;
/// A GPU that works less than this in spite of full memory. Judged.
const HARDLY_BUSY: f64 = 0.50;
/// Less of the memory than this leaves room to double the batch with its fragments. Judged.
const ROOMY: f64 = 0.50;
/// Share of a trace's span from which waiting for input counts. Judged: prefetching hides all of it in a sound run.
const INPUT_WAIT: f64 = 0.05;
/// Share of a span in which the GPU waits for launches. Judged; at ten percent graphs or compilation pay their trouble.
const HOST_BOUND: f64 = 0.10;
/// Share of products in sizes that tensor cores cut badly. Judged.
const BAD_SHAPES: f64 = 0.10;
/// Share of the time of products on tensor cores, where they could all be. Judged.
const TENSOR_CORES: f64 = 0.10;
/// Share of the time of products in plain fp32 from which another format is worth it. Judged.
const IN_FP32: f64 = 0.20;
/// Share of a span for pageable copies. Judged.
const PAGEABLE: f64 = 0.01;
/// A pinned copy takes half of a pageable one, which is copied twice (CUDA C++ Best Practices Guide, "Pinned Memory").
const PINNED_SAVES: f64 = 0.5;
/// Waits of the host for the device in a step; one, to read the loss, is usual, and logging adds some. Judged.
const SYNCHRONISATIONS: f64 = 2.0;
/// Share of a span in which only communication runs: the line between the regimes of the estimate (docs/estimate.md, bands).
const EXPOSED: f64 = 0.10;
/// Share of samples with a clock held down. Judged: short peaks of power are usual.
const THROTTLED: f64 = 0.20;
/// Clock over the highest one, under which a throttled GPU has lost enough to speak of. Judged.
const SLOWED: f64 = 0.95;
/// Slowest over middle device. Judged: cards of one model differ by a few percent.
const STRAGGLES: f64 = 1.05;

/// What the catalog knows of the GPU, and the workload of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub has_tensor_cores: Option<bool>,
    pub has_bf16: Option<bool>,
    /// GPUs of this model are sold with a link faster than PCIe.
    pub has_fast_link: Option<bool>,
    pub precision: Option<Precision>,
}

/// Everything worth saying, those that cost most first.
pub fn find(profile: &Profile, facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    if let Some(operators) = profile.operators.as_ref().filter(|operators| operators.span_seconds > 0.0) {
        let steps = profile.step.as_ref().map(|step| step.count);
        found.extend(of_operators(operators, steps, facts));
    }
    if let Some(usage) = &profile.usage {
        found.extend(of_usage(usage, facts));
    }
    // The general word is needless where a cause was found.
    if found.iter().any(|finding| matches!(finding.rule, Rule::Loader | Rule::HostBound)) {
        found.retain(|finding| finding.rule != Rule::Idle);
    }
    let left = |finding: &Finding| match finding.mended {
        Mended::Step { left } => left,
        _ => 1.0,
    };
    found.sort_by(|a, b| left(a).total_cmp(&left(b)).then(a.rule.cmp(&b.rule)));
    found
}

fn of_operators(operators: &Operators, steps: Option<u64>, facts: &Facts) -> Vec<Finding> {
    let mut found = vec![loader_in_trace(operators), small_shapes(operators), unaligned_shapes(operators), no_loss_scaler(operators)];
    // Without a device there are no kernels, launches or copies to judge.
    if operators.devices > 0 {
        found.extend([
            idle_in_trace(operators),
            host_bound(operators),
            no_tensor_cores(operators, facts),
            fp32(operators, facts),
            pageable_copies(operators),
            synchronisation(operators, steps),
            exposed_communication(operators),
            straggler_in_trace(operators),
        ]);
    }
    found.into_iter().flatten().collect()
}

fn of_usage(usage: &Usage, facts: &Facts) -> Vec<Finding> {
    let Some(idlest) = usage.gpus.iter().min_by(|a, b| a.busy.total_cmp(&b.busy)) else { return Vec::new() };
    let mean = usage.gpus.iter().map(|gpu| gpu.busy).sum::<f64>() / usage.gpus.len() as f64;
    let full = usage.gpus.iter().max_by(|a, b| memory_share(a).total_cmp(&memory_share(b))).unwrap_or(idlest);
    let hottest = |share: fn(&GpuUsage) -> f64| usage.gpus.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    let found = [
        loader(usage, mean),
        waits_for_host(usage, mean),
        memory_full_but_idle(full, mean),
        room_for_batch(full),
        hottest(|gpu| gpu.throttled_by_power).and_then(by_power),
        hottest(|gpu| gpu.throttled_by_heat).and_then(by_heat),
        straggler(&usage.gpus),
        pcie_link(usage, facts),
        idle(mean),
    ];
    found.into_iter().flatten().collect()
}

/// A finding if `measured` is beyond `threshold`.
struct Draft {
    rule: Rule,
    measured: f64,
    threshold: f64,
    evidence: String,
    advice: &'static str,
    cause: Cause,
    mended: Mended,
}

impl Draft {
    fn above(self) -> Option<Finding> {
        (self.measured.is_finite() && self.measured > self.threshold).then(|| self.speak())
    }

    fn below(self) -> Option<Finding> {
        (self.measured.is_finite() && self.measured < self.threshold).then(|| self.speak())
    }

    fn speak(self) -> Finding {
        Finding {
            rule: self.rule,
            evidence: self.evidence,
            measured: self.measured,
            threshold: self.threshold,
            advice: self.advice.to_owned(),
            cause: self.cause,
            mended: self.mended,
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn memory_share(gpu: &GpuUsage) -> f64 {
    if gpu.memory_total_bytes > 0.0 { gpu.memory_peak_bytes / gpu.memory_total_bytes } else { f64::NAN }
}

fn loader(usage: &Usage, mean: f64) -> Option<Finding> {
    let host = &usage.host;
    if host.cores_used < HOST_FULL * f64::from(host.cores) {
        return None;
    }
    let busiest = host.processes.first().map_or(String::new(), |process| format!(", most of them in `{}`", process.name));
    Draft {
        rule: Rule::Loader,
        measured: mean,
        threshold: BUSY,
        evidence: format!("GPUs busy {} of the time while {:.1} of {} cores work{busiest}", percent(mean), host.cores_used, host.cores),
        advice: "feed the GPU: decode ahead of time, more loader workers and prefetching, or a machine with more cores a GPU",
        cause: Cause::Program,
        mended: Mended::step(mean / FED),
    }
    .below()
}

fn waits_for_host(usage: &Usage, mean: f64) -> Option<Finding> {
    let host = &usage.host;
    if host.cores_used >= HOST_FULL * f64::from(host.cores) {
        return None;
    }
    Draft {
        rule: Rule::HostBound,
        measured: mean,
        threshold: BUSY,
        evidence: format!("GPUs busy {} of the time and only {:.1} of {} cores work: one thread launches kernels, or waits", percent(mean), host.cores_used, host.cores),
        advice: "take a trace (`gpuplan profile trace`); then compile the model, use CUDA graphs or a larger micro batch, and take waiting out of the loop",
        cause: Cause::Program,
        mended: Mended::step(mean / FED),
    }
    .below()
}

fn memory_full_but_idle(full: &GpuUsage, mean: f64) -> Option<Finding> {
    let share = memory_share(full);
    if share.is_nan() || share <= FULL {
        return None;
    }
    Draft {
        rule: Rule::MemoryFullButIdle,
        measured: mean,
        threshold: HARDLY_BUSY,
        evidence: format!("memory of GPU {} is {} full, and the GPUs are busy {} of the time", full.index, percent(share), percent(mean)),
        advice: "memory is not the limit: a larger card will not help; find what the GPU waits for, and see whether the memory is held needlessly",
        cause: Cause::Program,
        mended: Mended::Unknown,
    }
    .below()
}

fn room_for_batch(full: &GpuUsage) -> Option<Finding> {
    let share = memory_share(full);
    if share <= 0.0 {
        return None;
    }
    Draft {
        rule: Rule::RoomForBatch,
        measured: share,
        threshold: ROOMY,
        evidence: format!(
            "the fullest GPU uses {:.1} of {:.1} GB at its peak",
            full.memory_peak_bytes / 1e9,
            full.memory_total_bytes / 1e9
        ),
        advice: "raise the micro batch (with fewer accumulation steps), drop recomputation, or take a smaller card",
        cause: Cause::Program,
        mended: Mended::MicroBatch,
    }
    .below()
}

fn idle(mean: f64) -> Option<Finding> {
    Draft {
        rule: Rule::Idle,
        measured: mean,
        threshold: BUSY,
        evidence: format!("GPUs busy {} of the time", percent(mean)),
        advice: "take a trace (`gpuplan profile trace`) to see what the GPU waits for",
        cause: Cause::Program,
        mended: Mended::step(mean / FED),
    }
    .below()
}

fn idle_in_trace(operators: &Operators) -> Option<Finding> {
    let busy = operators.busy_seconds / operators.span_seconds;
    Draft {
        rule: Rule::Idle,
        measured: busy,
        threshold: BUSY,
        evidence: format!("kernels and copies fill {} of the trace", percent(busy)),
        advice: "look at the gaps in the trace: input, launches, waiting",
        cause: Cause::Program,
        mended: Mended::step(busy / FED),
    }
    .below()
}

fn by_power(gpu: &GpuUsage) -> Option<Finding> {
    let limit = if gpu.power_limit_watts > 0.0 {
        format!(" at {:.0} of {:.0} W", gpu.power_mean_watts, gpu.power_limit_watts)
    } else {
        String::new()
    };
    throttled(
        gpu,
        Rule::ThrottledByPower,
        gpu.throttled_by_power,
        &format!("to keep to its power limit{limit}"),
        "usual for dense arithmetic; if the limit was lowered, raise it (`nvidia-smi -pl`); other machines do not share it",
    )
}

fn by_heat(gpu: &GpuUsage) -> Option<Finding> {
    throttled(
        gpu,
        Rule::ThrottledByHeat,
        gpu.throttled_by_heat,
        &format!("because of heat or a fault, at {:.0} degrees", gpu.temperature_peak_celsius),
        "the machine is not cooled well or the card is faulty: take another one",
    )
}

fn throttled(gpu: &GpuUsage, rule: Rule, share: f64, why: &str, advice: &'static str) -> Option<Finding> {
    let clock = if gpu.clock_max_mhz > 0.0 { gpu.clock_mean_mhz / gpu.clock_max_mhz } else { f64::NAN };
    if !(clock > 0.0 && clock < SLOWED) {
        return None;
    }
    Draft {
        rule,
        measured: share,
        threshold: THROTTLED,
        evidence: format!(
            "GPU {} is held down {} of the time {why}: {:.0} of {:.0} MHz",
            gpu.index,
            percent(share),
            gpu.clock_mean_mhz,
            gpu.clock_max_mhz
        ),
        advice,
        cause: Cause::Machine,
        mended: Mended::step(clock),
    }
    .above()
}

fn straggler(gpus: &[GpuUsage]) -> Option<Finding> {
    let clocks: Vec<f64> = gpus.iter().map(|gpu| gpu.clock_mean_mhz).filter(|clock| *clock > 0.0).collect();
    if clocks.len() < 2 {
        return None;
    }
    let middle = crate::workload::profile::median(&clocks)?;
    let slowest = gpus.iter().filter(|gpu| gpu.clock_mean_mhz > 0.0).min_by(|a, b| a.clock_mean_mhz.total_cmp(&b.clock_mean_mhz))?;
    Draft {
        rule: Rule::Straggler,
        measured: middle / slowest.clock_mean_mhz,
        threshold: STRAGGLES,
        evidence: format!("GPU {} runs at {:.0} MHz, the others at {middle:.0}: all wait for it", slowest.index, slowest.clock_mean_mhz),
        advice: "look at its temperature and power limit; exchange the machine if it stays so",
        cause: Cause::Machine,
        mended: Mended::step(slowest.clock_mean_mhz / middle),
    }
    .above()
}

fn pcie_link(usage: &Usage, facts: &Facts) -> Option<Finding> {
    let links = usage.links.filter(|_| facts.has_fast_link == Some(true))?;
    Draft {
        rule: Rule::PcieLink,
        measured: f64::from(links.pcie_pairs),
        threshold: 0.0,
        evidence: format!("{} pairs of GPUs talk over PCIe, {} over NVLink", links.pcie_pairs, links.nvlink_pairs),
        advice: "this GPU is also sold with NVLink between all: the plan prefers such machines where traffic counts",
        cause: Cause::Machine,
        mended: Mended::Unknown,
    }
    .above()
}

fn loader_in_trace(operators: &Operators) -> Option<Finding> {
    // What the loader takes while the GPU is busy costs nothing.
    let waited = if operators.devices > 0 { operators.input_wait_seconds.min(operators.gap_seconds) } else { operators.input_wait_seconds };
    let share = waited / operators.span_seconds;
    Draft {
        rule: Rule::Loader,
        measured: share,
        threshold: INPUT_WAIT,
        evidence: format!("the loader is waited for in {} of the trace", percent(share)),
        advice: "more loader workers, prefetching and pinned memory; decode ahead of time",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share),
    }
    .above()
}

fn host_bound(operators: &Operators) -> Option<Finding> {
    let share = operators.host_bound_seconds / operators.span_seconds;
    Draft {
        rule: Rule::HostBound,
        measured: share,
        threshold: HOST_BOUND,
        evidence: format!("in {} of the trace the GPU idles because nothing is launched", percent(share)),
        advice: "compile the model, use CUDA graphs, fuse small kernels or raise the micro batch",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share),
    }
    .above()
}

fn small_shapes(operators: &Operators) -> Option<Finding> {
    let products = &operators.products;
    let share = products.small as f64 / products.shaped as f64;
    Draft {
        rule: Rule::SmallShapes,
        measured: share,
        threshold: HARDLY_BUSY,
        evidence: format!("{} of {} matrix products are smaller than 256 cubed", products.small, products.shaped),
        advice: "raise the micro batch or fuse products: these are over before a large GPU has started",
        cause: Cause::Program,
        mended: Mended::MicroBatch,
    }
    .above()
}

fn unaligned_shapes(operators: &Operators) -> Option<Finding> {
    let products = &operators.products;
    let share = products.unaligned as f64 / products.shaped as f64;
    let example = products.unaligned_example.as_ref().map_or(String::new(), |example| format!(", such as {example}"));
    Draft {
        rule: Rule::UnalignedShapes,
        measured: share,
        threshold: BAD_SHAPES,
        evidence: format!("{} of {} matrix products have a size that is no multiple of 8{example}", products.unaligned, products.shaped),
        advice: "pad the vocabulary, hidden sizes and batch to multiples of 8, better 64, so that tensor cores work on whole tiles",
        cause: Cause::Program,
        mended: Mended::Unknown,
    }
    .above()
}

/// Share of the time of products whose kernels name their unit; `None` where too few do.
fn named_share(operators: &Operators, seconds: f64) -> Option<f64> {
    let named = operators.products.tensor_core_seconds + operators.products.fp32_seconds;
    let all = operators.seconds(OperatorClass::Compute);
    (all > 0.0 && named > all / 2.0).then(|| seconds / named)
}

fn no_tensor_cores(operators: &Operators, facts: &Facts) -> Option<Finding> {
    let share = named_share(operators, operators.products.tensor_core_seconds).filter(|_| facts.has_tensor_cores != Some(false))?;
    Draft {
        rule: Rule::NoTensorCores,
        measured: share,
        threshold: TENSOR_CORES,
        evidence: format!("{} of the time of matrix products is spent on tensor cores", percent(share)),
        advice: "use bf16, or allow tf32 (`torch.set_float32_matmul_precision(\"high\")`)",
        cause: Cause::Program,
        mended: Mended::Precision { precision: half(facts) },
    }
    .below()
}

fn fp32(operators: &Operators, facts: &Facts) -> Option<Finding> {
    let share = named_share(operators, operators.products.fp32_seconds).filter(|_| facts.has_tensor_cores != Some(false))?;
    // Said already where hardly anything runs on tensor cores.
    if 1.0 - share < TENSOR_CORES {
        return None;
    }
    Draft {
        rule: Rule::Fp32,
        measured: share,
        threshold: IN_FP32,
        evidence: format!("{} of the time of matrix products is plain fp32", percent(share)),
        advice: "run these products in bf16 (autocast) or tf32 too",
        cause: Cause::Program,
        mended: Mended::Precision { precision: half(facts) },
    }
    .above()
}

/// The half format that this GPU has.
fn half(facts: &Facts) -> Precision {
    if facts.has_bf16 == Some(false) { Precision::AmpFp16 } else { Precision::Bf16 }
}

fn no_loss_scaler(operators: &Operators) -> Option<Finding> {
    let products = &operators.products;
    if products.has_loss_scaler {
        return None;
    }
    Draft {
        rule: Rule::NoLossScaler,
        measured: products.in_fp16 as f64,
        threshold: 0.0,
        evidence: format!("{} matrix products in fp16, and no loss scaler at work", products.in_fp16),
        advice: "small gradients vanish in fp16: scale the loss (`torch.amp.GradScaler`), or use bf16, which needs none",
        cause: Cause::Program,
        mended: Mended::Unknown,
    }
    .above()
}

fn pageable_copies(operators: &Operators) -> Option<Finding> {
    let pageable = || operators.copies.iter().filter(|copy| copy.is_pageable());
    let seconds: f64 = pageable().map(|copy| copy.seconds).sum();
    let share = seconds / operators.span_seconds;
    Draft {
        rule: Rule::PageableCopies,
        measured: share,
        threshold: PAGEABLE,
        evidence: format!(
            "{} copies from or to pageable memory take {:.1} % of the trace",
            pageable().map(|copy| copy.calls).sum::<u64>(),
            share * 100.0
        ),
        advice: "pin the memory (`pin_memory=True`) and copy without waiting (`non_blocking=True`)",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share * PINNED_SAVES),
    }
    .above()
}

fn synchronisation(operators: &Operators, steps: Option<u64>) -> Option<Finding> {
    let each = operators.synchronisations as f64 / steps? as f64;
    Draft {
        rule: Rule::Synchronisation,
        measured: each,
        threshold: SYNCHRONISATIONS,
        evidence: format!("the host waits for the GPU {each:.0} times a step"),
        advice: "take `.item()`, `.cpu()`, prints of tensors and `synchronize()` out of the loop, or do them every hundredth step",
        cause: Cause::Program,
        mended: Mended::step(1.0 - operators.host_bound_seconds / operators.span_seconds),
    }
    .above()
}

fn exposed_communication(operators: &Operators) -> Option<Finding> {
    let share = operators.exposed_communication_seconds / operators.span_seconds;
    Draft {
        rule: Rule::ExposedCommunication,
        measured: share,
        threshold: EXPOSED,
        evidence: format!("in {} of the trace GPUs only communicate", percent(share)),
        advice: "overlap it (bucket sizes, prefetch of the next layer, `--overlap-grad-reduce`), accumulate more steps, or shard over fewer GPUs",
        cause: Cause::Program,
        mended: Mended::step(1.0 - share),
    }
    .above()
}

fn straggler_in_trace(operators: &Operators) -> Option<Finding> {
    let slowest = operators.slowest_device?;
    Draft {
        rule: Rule::Straggler,
        measured: slowest,
        threshold: STRAGGLES,
        evidence: format!("the slowest device works {:.0} % longer than the middle one: all wait for it", (slowest - 1.0) * 100.0),
        advice: "balance the stages or batches; if the work is equal, the card is slow: exchange the machine",
        cause: Cause::Machine,
        mended: Mended::step(1.0 / slowest),
    }
    .above()
}

#[cfg(test)]
mod tests;
