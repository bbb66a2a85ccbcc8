//! `Prediction`: what scoring needs of an estimate, so that any other estimator can be scored by the same rules.

use rayon::prelude::*;
use serde_json::Value;

use crate::published::Published;
use gpuplan_estimate::answer::{CaseEstimate, estimate};
use gpuplan_estimate::{Doubts, Regime};
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
    pub doubts: Doubts,
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
            doubts: made.doubts,
        }
    }
}

/// One for each run, in their order; none where the estimate does not know the case.
pub fn predict(published: &Published, hardware: &Hardware, models: &Models) -> Vec<Option<Prediction>> {
    answers(published, hardware, models).into_iter().map(Result::ok).collect()
}

/// The same with the reason where there is no answer.
pub fn answers(published: &Published, hardware: &Hardware, models: &Models) -> Vec<Result<Prediction, String>> {
    let one = |case| estimate(Value::Null, case, hardware, models).map(Prediction::from);
    published.runs.par_iter().map(|run| one(&run.case)).collect()
}
