//! `Performance`: what follows from the estimate of a step: rates, utilization, and the band of its memory.

use crate::memory::band::MemoryBand;
use crate::subject::{StepEstimate, Subject};
use gpuplan_units::Band;
use gpuplan_workload::Measure;

/// Figures of one setting that people compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Performance {
    /// Tokens of the whole job in a second; samples for models that count those.
    pub units_per_second: Band,
    /// Sequences or images of the whole job in a second.
    pub samples_per_second: Band,
    /// Operations of the model itself on one GPU in a second, without what is computed again.
    pub model_flops_per_gpu: Band,
    /// Share of the GPUs' dense peak that those operations reach (MFU).
    pub model_flop_utilization: f64,
    /// Of one GPU at the fullest moment.
    pub memory_bytes: Band,
}

impl Performance {
    /// Of `step`, an estimate of `subject`.
    pub fn new(subject: &Subject, step: &StepEstimate) -> Self {
        let setting = &step.setting;
        let seconds = step.step_seconds();
        let (units, flops) = (subject.units_per_step(setting), subject.model_flops_per_step(setting));
        let gpus = f64::from(setting.gpus());
        let (low, high) = MemoryBand::of(Measure::Allocated, step.doubts).factors();
        Self {
            units_per_second: seconds.map_decreasing(|seconds| units / seconds),
            samples_per_second: seconds.map_decreasing(|seconds| setting.global_batch / seconds),
            model_flops_per_gpu: seconds.map_decreasing(|seconds| flops / seconds / gpus),
            model_flop_utilization: flops / step.time.total / gpus / subject.rates.peak,
            memory_bytes: Band::around(step.memory.required, low, high),
        }
    }
}
