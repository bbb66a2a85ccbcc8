//! Rules on sampled counters.

use crate::findings::rule_check::{BUSY, FED, Facts, HARDLY_BUSY, RuleCheck, STRAGGLES, percent};
use crate::samples::HOST_FULL;
use gpuplan_units::Bytes;
use gpuplan_workload::profile::{Cause, Finding, GpuUsage, Mended, Rule, Usage, median};

/// Memory that is nearly full. Judged: allocators keep some in reserve.
const FULL: f64 = 0.80;
/// Less of the memory than this leaves room to double the batch with its fragments. Judged.
const ROOMY: f64 = 0.50;
/// Share of samples with a clock held down. Judged: short peaks of power are usual.
const THROTTLED: f64 = 0.20;
/// Clock over the highest one, under which a throttled GPU has lost enough to speak of. Judged.
const SLOWED: f64 = 0.95;

/// What the counters of a run tell.
pub fn findings(usage: &Usage, facts: &Facts) -> Vec<Finding> {
    let busy: Vec<f64> = usage.gpus.iter().filter_map(|gpu| gpu.busy).collect();
    // Where no GPU tells, this is no number, and no rule speaks of it.
    let mean = busy.iter().sum::<f64>() / busy.len() as f64;
    let full = highest(&usage.gpus, memory_share);
    let found = [
        loader(usage, mean),
        waits_for_host(usage, mean),
        full.and_then(|(gpu, share)| memory_full_but_idle(gpu, share, mean)),
        full.and_then(|(gpu, share)| room_for_batch(gpu, share)),
        highest(&usage.gpus, |gpu| gpu.throttled_by_power).and_then(|(gpu, share)| by_power(gpu, share)),
        highest(&usage.gpus, |gpu| gpu.throttled_by_heat).and_then(|(gpu, share)| by_heat(gpu, share)),
        straggler(&usage.gpus),
        pcie_link(usage, facts),
        idle(mean),
    ];
    found.into_iter().flatten().collect()
}

/// The GPU with the highest of a figure, of those that tell it.
fn highest(gpus: &[GpuUsage], figure: fn(&GpuUsage) -> Option<f64>) -> Option<(&GpuUsage, f64)> {
    let known = gpus.iter().filter_map(|gpu| Some((gpu, figure(gpu)?)));
    known.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn memory_share(gpu: &GpuUsage) -> Option<f64> {
    let total = gpu.memory_total_bytes.filter(|total| *total > 0.0)?;
    Some(gpu.memory_peak_bytes? / total)
}

/// Of a GPU that was at work.
fn working_clock(gpu: &GpuUsage) -> Option<f64> {
    gpu.clock_mean_mhz.filter(|clock| *clock > 0.0)
}

fn loader(usage: &Usage, mean: f64) -> Option<Finding> {
    let host = &usage.host;
    if host.cores_used < HOST_FULL * f64::from(host.cores) {
        return None;
    }
    let busiest =
        host.processes.first().map_or(String::new(), |process| format!(", most of them in `{}`", process.name));
    RuleCheck {
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
    RuleCheck {
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

fn memory_full_but_idle(full: &GpuUsage, share: f64, mean: f64) -> Option<Finding> {
    if share <= FULL {
        return None;
    }
    RuleCheck {
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

fn room_for_batch(full: &GpuUsage, share: f64) -> Option<Finding> {
    if share <= 0.0 {
        return None;
    }
    RuleCheck {
        rule: Rule::RoomForBatch,
        measured: share,
        threshold: ROOMY,
        evidence: format!(
            "the fullest GPU uses {} of {} at its peak",
            Bytes(full.memory_peak_bytes?),
            Bytes(full.memory_total_bytes?)
        ),
        advice: "raise the micro batch (with fewer accumulation steps), drop recomputation, or take a smaller card",
        cause: Cause::Program,
        mended: Mended::MicroBatch,
    }
    .below()
}

fn idle(mean: f64) -> Option<Finding> {
    RuleCheck {
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

fn by_power(gpu: &GpuUsage, share: f64) -> Option<Finding> {
    let limit = gpu.power_limit_watts.filter(|limit| *limit > 0.0).zip(gpu.power_mean_watts);
    let limit = limit.map_or_else(String::new, |(limit, mean)| format!(" at {mean:.0} of {limit:.0} W"));
    throttled(
        gpu,
        Rule::ThrottledByPower,
        share,
        &format!("to keep to its power limit{limit}"),
        "usual for dense arithmetic; if the limit was lowered, raise it (`nvidia-smi -pl`); other machines do not share it",
    )
}

fn by_heat(gpu: &GpuUsage, share: f64) -> Option<Finding> {
    let peak = gpu.temperature_peak_celsius.map_or_else(String::new, |peak| format!(", at {peak:.0} degrees"));
    throttled(
        gpu,
        Rule::ThrottledByHeat,
        share,
        &format!("because of heat or a fault{peak}"),
        "the machine is not cooled well or the card is faulty: take another one",
    )
}

fn throttled(gpu: &GpuUsage, rule: Rule, share: f64, why: &str, advice: &'static str) -> Option<Finding> {
    let (clock, highest) = (working_clock(gpu)?, gpu.clock_max_mhz.filter(|clock| *clock > 0.0)?);
    if clock / highest >= SLOWED {
        return None;
    }
    RuleCheck {
        rule,
        measured: share,
        threshold: THROTTLED,
        evidence: format!(
            "GPU {} is held down {} of the time {why}: {clock:.0} of {highest:.0} MHz",
            gpu.index,
            percent(share)
        ),
        advice,
        cause: Cause::Machine,
        mended: Mended::step(clock / highest),
    }
    .above()
}

fn straggler(gpus: &[GpuUsage]) -> Option<Finding> {
    let working: Vec<(&GpuUsage, f64)> = gpus.iter().filter_map(|gpu| Some((gpu, working_clock(gpu)?))).collect();
    if working.len() < 2 {
        return None;
    }
    let middle = median(&working.iter().map(|(_, clock)| *clock).collect::<Vec<_>>())?;
    let (slowest, clock) = working.into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    RuleCheck {
        rule: Rule::Straggler,
        measured: middle / clock,
        threshold: STRAGGLES,
        evidence: format!("GPU {} runs at {clock:.0} MHz, the others at {middle:.0}: all wait for it", slowest.index),
        advice: "look at its temperature and power limit; exchange the machine if it stays so",
        cause: Cause::Machine,
        mended: Mended::step(clock / middle),
    }
    .above()
}

fn pcie_link(usage: &Usage, facts: &Facts) -> Option<Finding> {
    let links = usage.links.filter(|_| facts.has_fast_link == Some(true))?;
    RuleCheck {
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
