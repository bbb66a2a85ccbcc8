//! `Prediction`: what scoring needs of an estimate, so that any other estimator can be scored by the same rules.

use rayon::prelude::*;
use serde_json::Value;

use crate::published::Published;
use gpuplan_estimate::Regime;
use gpuplan_estimate::answer::{CaseEstimate, estimate};
use gpuplan_hardware::Hardware;
use gpuplan_units::Band;
use gpuplan_workload::Models;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub step_seconds: Band,
    /// None for families that have no tokens.
    pub tokens_per_second_per_gpu: Option<Band>,
    pub samples_per_second: Band,
    /// Bytes, of the kind that the case's `measure` names.
    pub peak_memory: Band,
    pub fits: bool,
    pub regime: Regime,
}

impl From<CaseEstimate> for Prediction {
    fn from(made: CaseEstimate) -> Self {
        Self {
            step_seconds: made.step_seconds,
            tokens_per_second_per_gpu: made.tokens_per_second_per_gpu,
            samples_per_second: made.samples_per_second,
            peak_memory: made.peak_memory_bytes,
            fits: made.fits,
            regime: made.regime,
        }
    }
}

/// One for each run, in their order; none where the estimate does not know the case.
pub fn predict(published: &Published, hardware: &Hardware, models: &Models) -> Vec<Option<Prediction>> {
    let one = |case| estimate(Value::Null, case, hardware, models).ok().map(Prediction::from);
    published.runs.par_iter().map(|run| one(&run.case)).collect()
}
