//! Rules on sampled counters.

use crate::findings::draft::{BUSY, Draft, FED, Facts, HARDLY_BUSY, STRAGGLES, percent};
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
    let full = usage
        .gpus
        .iter()
        .filter(|gpu| gpu.memory_total_bytes > 0.0)
        .max_by(|a, b| memory_share(a).total_cmp(&memory_share(b)));
    let hottest = |share: fn(&GpuUsage) -> f64| usage.gpus.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    let found = [
        loader(usage, mean),
        waits_for_host(usage, mean),
        full.and_then(|gpu| memory_full_but_idle(gpu, mean)),
        full.and_then(room_for_batch),
        hottest(|gpu| gpu.throttled_by_power).and_then(by_power),
        hottest(|gpu| gpu.throttled_by_heat).and_then(by_heat),
        straggler(&usage.gpus),
        pcie_link(usage, facts),
        idle(mean),
    ];
    found.into_iter().flatten().collect()
}

fn memory_share(gpu: &GpuUsage) -> f64 {
    gpu.memory_peak_bytes / gpu.memory_total_bytes
}

fn loader(usage: &Usage, mean: f64) -> Option<Finding> {
    let host = &usage.host;
    if host.cores_used < HOST_FULL * f64::from(host.cores) {
        return None;
    }
    let busiest =
        host.processes.first().map_or(String::new(), |process| format!(", most of them in `{}`", process.name));
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
    if share <= FULL {
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
            "the fullest GPU uses {} of {} at its peak",
            Bytes(full.memory_peak_bytes),
            Bytes(full.memory_total_bytes)
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
    let middle = median(&clocks)?;
    let slowest = gpus
        .iter()
        .filter(|gpu| gpu.clock_mean_mhz > 0.0)
        .min_by(|a, b| a.clock_mean_mhz.total_cmp(&b.clock_mean_mhz))?;
    Draft {
        rule: Rule::Straggler,
        measured: middle / slowest.clock_mean_mhz,
        threshold: STRAGGLES,
        evidence: format!(
            "GPU {} runs at {:.0} MHz, the others at {middle:.0}: all wait for it",
            slowest.index, slowest.clock_mean_mhz
        ),
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
