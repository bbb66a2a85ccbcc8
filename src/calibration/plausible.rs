//! `leave_out`: rates that no card reaches, which come of a wrong clock or of another card than the catalog's.

use gpuplan_hardware::Gpu;

use crate::benchmark::Work;
use crate::suite::{NotRun, Outcome, Sampled};

/// Times the data sheet. Cards of other makers are clocked up to a tenth higher than the sheet says; more than this is no clock of a card. Judged.
const IMPOSSIBLE: f64 = 1.25;

/// Moves products and memory streams that are faster than the card can be from what was measured to what was not.
pub fn leave_out(outcome: &mut Outcome, gpu: &Gpu) {
    let sampled = std::mem::take(&mut outcome.sampled);
    for one in sampled {
        match times_the_sheet(&one, gpu).filter(|times| *times > IMPOSSIBLE) {
            None => outcome.sampled.push(one),
            Some(times) => outcome.waived.push(NotRun {
                benchmark: one.benchmark,
                reason: format!(
                    "it came out {times:.1} times as fast as the data sheet of {} allows: the driver's clock is wrong, or this is another card",
                    gpu.name
                ),
            }),
        }
    }
}

/// `None`: the sheet bounds no such work. Small kernels may read the cache, and hosts have links of their own.
fn times_the_sheet(one: &Sampled, gpu: &Gpu) -> Option<f64> {
    let seconds = one.statistics.median_seconds;
    let work = &one.benchmark.work;
    match work {
        Work::Matmul { format, .. } | Work::Attention { format, .. } => {
            Some(work.flops() / seconds / (gpu.peak_tflops.get(*format)? * 1e12))
        }
        Work::Stream { .. } => Some(work.bytes() / seconds / gpu.memory_bandwidth().0),
        Work::Kernel { .. }
        | Work::Launch { .. }
        | Work::HostCopy { .. }
        | Work::PeerCopy { .. }
        | Work::AllReduce { .. } => None,
    }
}
