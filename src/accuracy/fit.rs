//! Fitting the constants: maximum a posteriori on log time, robust, every source weighing the same.
//!
//! Minimised is the sum over runs of a pseudo-Huber loss of ln(predicted / measured), plus the squared distance of every
//! constant from its prior in prior widths.

use std::collections::BTreeMap;

use nalgebra::DVector;
use rayon::prelude::*;
use serde_json::Value;

use crate::least_squares::{Minimum, minimise, robust};
use crate::prediction::Prediction;
use crate::published::Run;
use gpuplan_estimate::answer::prepared_estimate;
use gpuplan_estimate::case::Prepared;
use gpuplan_estimate::constants::{Constants, PARAMETERS};
use gpuplan_estimate::defaults::Request;
use gpuplan_estimate::parameters::{Parameter, Scale};
use gpuplan_hardware::{Gpu, Hardware};
use gpuplan_workload::training::Framework;
use gpuplan_workload::{Kernels, Models};

/// A source counts as this many runs, however many it has.
const RUNS_PER_SOURCE: f64 = 25.0;
/// Sources of fewer runs count in proportion.
const FULL_SOURCE: f64 = 8.0;
/// Scatter of a published time around a perfect model.
const NOISE: f64 = 0.10;
/// Errors beyond this are outliers and count linearly.
const ROBUST: f64 = 0.12;
const MOST_ITERATIONS: usize = 40;
/// Stop when an iteration improves the loss by less than this share.
const ENOUGH: f64 = 1e-5;

/// Constants of chips and schedules that the earlier sources hardly have, and only these: what the recent sources decide.
const LATER: [&str; 5] =
    ["sustained_blackwell", "jitter_newer", "generation_blackwell", "generation_cdna", "exposed_prefetched"];

/// A run with its case filled in once.
#[derive(Clone, Debug)]
pub struct FitRun<'a> {
    pub run: &'a Run,
    prepared: Prepared,
}

impl<'a> FitRun<'a> {
    /// Runs whose time is scored and whose case can be estimated.
    pub fn all(runs: &'a [Run], hardware: &Hardware, models: &Models) -> Vec<Self> {
        let scored = runs.iter().filter(|run| run.scores_time());
        scored.filter_map(|run| Some(Self { run, prepared: run.case.prepare(hardware, models).ok()? })).collect()
    }

    pub fn predict(&self, constants: &Constants) -> Option<Prediction> {
        prepared_estimate(constants, Value::Null, &self.prepared).ok().map(Prediction::from)
    }

    pub fn trains_transformer(&self) -> bool {
        let Prepared { model, training, .. } = &self.prepared;
        training.task.has_backward() && model.kind.is_transformer() && !training.framework.is_open()
    }

    /// The same run of a case that names no stack, nor what its kernels and traffic do.
    pub fn without_stack(&self) -> Self {
        let mut open = self.clone();
        let training = &mut open.prepared.training;
        training.framework = Framework::default();
        training.kernels = Kernels { low_precision: training.kernels.low_precision, ..Kernels::default() };
        training.synchronization.overlap = None;
        open
    }

    /// The same run of a case that does not say how it was split, nor what it recomputed.
    pub fn without_setting(&self) -> Self {
        let mut open = self.clone();
        let Prepared { request, training, .. } = &mut open.prepared;
        *request = Request { gpus: request.gpus, global_batch: request.global_batch, ..Request::default() };
        (training.micro_batch, training.grad_accumulation, training.recompute) = (None, None, None);
        open
    }

    pub fn gpu(&self) -> &Gpu {
        self.prepared.machine().gpu
    }

    /// ln(predicted / measured).
    pub fn log_error(&self, constants: &Constants) -> f64 {
        let ratio = self.predict(constants).and_then(|made| self.run.time_ratio(&made));
        // No answer counts as an error of a factor ten, so that no constant can buy silence.
        ratio.map_or(10.0_f64.ln(), |ratio| ratio.expected.max(1e-3).ln())
    }
}

/// What a fit came to.
#[derive(Clone, Debug)]
pub struct Fit {
    pub constants: Constants,
    pub runs: usize,
    pub iterations: usize,
    /// Mean absolute relative error in sample, percent.
    pub error_percent: f64,
}

/// Fits every constant on the earlier ones of these runs, and then those of `LATER` on all of them with the others as they are.
pub fn fit(runs: &[&FitRun]) -> Fit {
    let earlier: Vec<&FitRun> = runs.iter().filter(|run| !run.run.is_recent()).copied().collect();
    let weighted = weights(&earlier);
    let Minimum { at, iterations } =
        minimise(PARAMETERS.len(), |z| residuals(z, &earlier, &weighted), MOST_ITERATIONS, ENOUGH);
    let later: Vec<usize> = (0..PARAMETERS.len()).filter(|index| LATER.contains(&PARAMETERS[*index].name)).collect();
    let weighted = weights(runs);
    let placed = |moved: &[f64]| {
        let mut z = at.clone();
        for (index, value) in later.iter().zip(moved) {
            z[*index] = *value;
        }
        z
    };
    let Minimum { at: moved, iterations: more } =
        minimise(later.len(), |moved| residuals(&placed(moved), runs, &weighted), MOST_ITERATIONS, ENOUGH);
    let constants = constants(&placed(&moved));
    let errors: Vec<f64> = runs.par_iter().map(|run| run.log_error(&constants)).collect();
    let error_percent =
        100.0 * errors.iter().map(|error| error.exp_m1().abs()).sum::<f64>() / errors.len().max(1) as f64;
    Fit { constants, runs: runs.len(), iterations: iterations + more, error_percent }
}

fn residuals(z: &[f64], runs: &[&FitRun], weights: &[f64]) -> DVector<f64> {
    let constants = constants(z);
    let errors = runs.iter().zip(weights).map(|(run, weight)| weight * robust(run.log_error(&constants), ROBUST));
    DVector::from_iterator(runs.len() + z.len(), errors.chain(z.iter().copied()))
}

fn weights(runs: &[&FitRun]) -> Vec<f64> {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    for run in runs {
        *sizes.entry(run.run.source.as_str()).or_default() += 1.0;
    }
    let weight = |run: &&FitRun| {
        let size = sizes[run.run.source.as_str()];
        (RUNS_PER_SOURCE / size.max(FULL_SOURCE) * (size / FULL_SOURCE).min(1.0)).sqrt() / NOISE
    };
    runs.iter().map(weight).collect()
}

/// Constants at distances `z` from their priors, in prior widths, on the scale of each.
fn constants(z: &[f64]) -> Constants {
    let mut constants = Constants::prior();
    for (parameter, distance) in PARAMETERS.iter().zip(z) {
        (parameter.set)(&mut constants, at_distance(parameter, *distance));
    }
    constants
}

/// A share moves on the logit scale, where its relative width becomes width / (1 - prior); it never leaves 0 to 1.
fn at_distance(parameter: &Parameter<Constants>, distance: f64) -> f64 {
    let Parameter { prior, width, .. } = *parameter;
    match parameter.scale {
        Scale::Log => prior * (distance * width).exp(),
        Scale::Share => {
            let logit = (prior / (1.0 - prior)).ln() + distance * width / (1.0 - prior);
            1.0 / (1.0 + (-logit).exp())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_distance_is_the_prior_and_no_share_passes_one() {
        for parameter in PARAMETERS {
            assert!((at_distance(parameter, 0.0) / parameter.prior - 1.0).abs() < 1e-12, "{}", parameter.name);
            if parameter.scale == Scale::Share {
                assert!(at_distance(parameter, 50.0) <= 1.0, "{}", parameter.name);
            }
        }
    }
}
