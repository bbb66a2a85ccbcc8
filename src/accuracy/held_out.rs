//! What a user with a new workload gets: every group predicted with constants that never saw it, and bands from that.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::fit::{FitRun, fit};
use gpuplan_estimate::Regime;
use gpuplan_estimate::constants::RegimeBand;
use gpuplan_workload::{ModelKind, Task};

/// Groups of fewer runs are predicted and not averaged, as in scoring.
const FEWEST_RUNS: usize = 8;
/// A regime's own quantile counts as its number of sources, the pooled one as this many.
const POOLED_SOURCES: f64 = 2.0;

/// One run predicted without its own group.
#[derive(Clone, Copy, Debug)]
pub struct HeldOut<'a> {
    pub run: &'a FitRun<'a>,
    /// ln(predicted / measured).
    pub log_error: f64,
    pub regime: Regime,
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
        let regime = run.predict(&constants)?.regime;
        Some(HeldOut { run, log_error: run.log_error(&constants), regime })
    };
    runs.iter().filter(is_out).filter_map(predict).collect()
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

/// 10th and 90th percentile of measured over predicted by regime, sources weighing the same, shrunk to the pooled ones.
pub fn bands(held: &[HeldOut]) -> Vec<RegimeBand> {
    let pooled = quantiles(held);
    let band = |regime: Regime| {
        let own: Vec<HeldOut> = held.iter().filter(|one| one.regime == regime).copied().collect();
        let sources = own.iter().map(|one| one.run.run.source.as_str()).collect::<BTreeSet<_>>().len() as f64;
        let quantiles = quantiles(&own);
        let shrink =
            |own: f64, pooled: f64| ((sources * own + POOLED_SOURCES * pooled) / (sources + POOLED_SOURCES)).exp();
        RegimeBand {
            regime: regime.word().to_owned(),
            low: shrink(quantiles.0, pooled.0),
            high: shrink(quantiles.1, pooled.1),
        }
    };
    Regime::ALL.into_iter().map(band).collect()
}

/// Weighted 10 % and 90 % quantiles of ln(measured / predicted); every source weighs the same.
fn quantiles(held: &[HeldOut]) -> (f64, f64) {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    for one in held {
        *sizes.entry(one.run.run.source.as_str()).or_default() += 1.0;
    }
    let mut points: Vec<(f64, f64)> =
        held.iter().map(|one| (-one.log_error, 1.0 / sizes[one.run.run.source.as_str()])).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = points.iter().map(|(_, weight)| weight).sum();
    let at = |share: f64| {
        let mut passed = 0.0;
        for (value, weight) in &points {
            passed += weight;
            if passed >= share * total {
                return *value;
            }
        }
        0.0
    };
    (at(0.1), at(0.9))
}
