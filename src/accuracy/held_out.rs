//! What a user with a new workload gets: every group predicted with constants that never saw it.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::fit::{FitRun, fit};
use crate::prediction::Prediction;
use crate::regret::sweep;
use gpuplan_estimate::constants::Constants;
use gpuplan_estimate::{Doubts, Regime};
use gpuplan_units::names::word;
use gpuplan_workload::{ModelKind, Task};

/// Groups of fewer runs are predicted and not averaged, as in scoring.
const FEWEST_RUNS: usize = 8;

/// One run predicted without its own group.
#[derive(Clone, Copy, Debug)]
pub struct HeldOut<'a> {
    pub run: &'a FitRun<'a>,
    /// ln(predicted / measured).
    pub log_error: f64,
    pub regime: Regime,
    pub doubts: Doubts,
}

/// Error of one group.
#[derive(Clone, Debug)]
pub struct GroupError {
    pub group: String,
    pub runs: usize,
    pub mape_percent: f64,
}

/// Every run, predicted with constants fitted on all others that differ in `key`.
pub fn leave_one_out<'a>(runs: &'a [FitRun<'a>], key: impl Fn(&FitRun) -> Option<String> + Sync) -> Vec<HeldOut<'a>> {
    let keys: BTreeSet<String> = runs.iter().filter_map(&key).collect();
    let keys: Vec<String> = keys.into_iter().collect();
    keys.par_iter().flat_map_iter(|out| without(runs, &key, out)).collect()
}

/// The runs of one group, predicted without it.
pub fn without<'a>(runs: &'a [FitRun<'a>], key: impl Fn(&FitRun) -> Option<String>, out: &str) -> Vec<HeldOut<'a>> {
    let is_out = |run: &&FitRun| key(run).as_deref() == Some(out);
    let kept: Vec<&FitRun> = runs.iter().filter(|run| !is_out(run)).collect();
    let constants = fit(&kept).constants;
    let predict = |run: &'a FitRun<'a>| {
        let Prediction { regime, doubts, .. } = run.predict(&constants)?;
        Some(HeldOut { run, log_error: run.log_error(&constants), regime, doubts })
    };
    runs.iter().filter(is_out).filter_map(predict).collect()
}

/// Runs that the constants never saw, as those predict them.
pub fn unfitted<'a>(runs: &'a [FitRun<'a>], constants: &Constants) -> Vec<HeldOut<'a>> {
    let one = |run: &'a FitRun<'a>| {
        let Prediction { regime, doubts, .. } = run.predict(constants)?;
        Some(HeldOut { run, log_error: run.log_error(constants), regime, doubts })
    };
    runs.iter().filter_map(one).collect()
}

/// What is not known of a run that names no stack, and of one that does not say how it was split: runs that state both, predicted as
/// though they did not. Of a sweep of settings the fastest is taken, since that is what people run.
pub fn left_open<'a>(runs: &'a [FitRun<'a>], constants: &Constants) -> Vec<HeldOut<'a>> {
    let trains = |run: &&FitRun| run.trains_transformer();
    let mut fastest: BTreeMap<String, (f64, &FitRun)> = BTreeMap::new();
    for run in runs.iter().filter(trains) {
        let Some(time) = run.run.comparable_time() else { continue };
        let best = fastest.entry(sweep(run.run)).or_insert((time, run));
        if time < best.0 {
            *best = (time, run);
        }
    }
    let stacks = runs.iter().filter(trains).map(|run| (run, run.without_stack()));
    let settings = fastest.into_values().map(|(_, run)| (run, run.without_setting()));
    let open = stacks.chain(settings).filter_map(|(run, made)| {
        let made = made.predict(constants)?;
        let ratio = run.run.time_ratio(&made)?;
        let log_error = ratio.expected.max(1e-3).ln();
        Some(HeldOut { run, log_error, regime: made.regime, doubts: made.doubts })
    });
    open.collect()
}

/// Group of sources that share one code base.
pub fn by_group(run: &FitRun) -> Option<String> {
    Some(run.run.group().to_owned())
}

/// GPU model, for the families that are no decoders.
pub fn by_gpu_of_other_families(run: &FitRun) -> Option<String> {
    let other = run.run.case.model.kind != Some(ModelKind::Decoder);
    run.run.case.hardware.gpu.clone().filter(|_| other)
}

/// Generation of the GPU, whatever ran there: what a card of one that nobody has published runs of gets.
pub fn by_generation(run: &FitRun) -> Option<String> {
    Some(word(run.gpu().architecture))
}

/// GPU model, and all models of its family, whatever ran there.
pub fn by_gpu(run: &FitRun) -> Option<String> {
    Some(run.gpu().id.clone())
}

pub fn by_gpu_family(run: &FitRun) -> Option<String> {
    Some(run.gpu().family.clone())
}

/// Kind of inference; `None` for a run that trains.
pub fn by_inference(run: &FitRun) -> Option<String> {
    match run.run.case.training.task? {
        Task::Inference => Some("decode".to_owned()),
        Task::InferencePrefill => Some("prefill".to_owned()),
        _ => None,
    }
}

/// Every run of inference, predicted with constants fitted on all runs, of training too, that differ in `key`.
pub fn inference<'a>(runs: &'a [FitRun<'a>], key: impl Fn(&FitRun) -> Option<String> + Sync) -> Vec<HeldOut<'a>> {
    let keys: BTreeSet<String> = runs.iter().filter(|run| by_inference(run).is_some()).filter_map(&key).collect();
    let keys: Vec<String> = keys.into_iter().collect();
    let held = keys.par_iter().flat_map_iter(|out| without(runs, &key, out));
    held.filter(|one| by_inference(one.run).is_some()).collect()
}

/// Mean absolute error of every group, and the mean over groups of at least eight runs. Percent.
pub fn errors(held: &[HeldOut], key: impl Fn(&FitRun) -> Option<String>) -> (Vec<GroupError>, f64) {
    let mut by_key: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for one in held {
        if let Some(group) = key(one.run) {
            by_key.entry(group).or_default().push(one.log_error.exp_m1().abs() * 100.0);
        }
    }
    let groups: Vec<GroupError> = by_key
        .into_iter()
        .map(|(group, errors)| GroupError {
            group,
            runs: errors.len(),
            mape_percent: errors.iter().sum::<f64>() / errors.len() as f64,
        })
        .collect();
    let large: Vec<f64> =
        groups.iter().filter(|group| group.runs >= FEWEST_RUNS).map(|group| group.mape_percent).collect();
    (groups, large.iter().sum::<f64>() / large.len().max(1) as f64)
}

/// Mean absolute error over runs. Percent.
pub fn mape_percent(held: &[HeldOut]) -> f64 {
    100.0 * held.iter().map(|one| one.log_error.exp_m1().abs()).sum::<f64>() / held.len().max(1) as f64
}
