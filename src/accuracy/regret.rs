//! `Regret`: the time lost by taking the layout that is predicted fastest, over published sweeps of layouts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::prediction::Prediction;
use crate::published::Run;

/// A sweep needs this many runs, and this many different layouts and times, to be a choice.
const FEWEST_RUNS: usize = 4;
const FEWEST_LAYOUTS: usize = 3;
/// Predictions this close are a tie.
const TIE: f64 = 1e-9;

/// Time of the choice over that of the best, minus one, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Regret {
    /// Sweeps: the same source, task, model, GPUs, batch, sequence length and precision.
    pub groups: usize,
    pub mean_percent: f64,
    pub worst_percent: f64,
}

/// One measured layout of a sweep.
struct Choice {
    predicted: f64,
    measured: f64,
    layout: String,
}

impl Regret {
    /// Of the runs whose time is scored and answered.
    pub(super) fn from_predictions<'a>(scored: impl Iterator<Item = (&'a Run, &'a Prediction)>) -> Option<Self> {
        let mut sweeps: BTreeMap<String, Vec<Choice>> = BTreeMap::new();
        for (run, made) in scored {
            let (Some(measured), Some(ratio)) = (run.comparable_time(), run.time_ratio(made)) else { continue };
            if run.case.training.global_batch.is_some() {
                let choice = Choice { predicted: measured * ratio.expected, measured, layout: layout(run) };
                sweeps.entry(sweep(run)).or_default().push(choice);
            }
        }
        let regrets: Vec<f64> =
            sweeps.values().filter(|choices| is_choice(choices)).map(|choices| 100.0 * regret(choices)).collect();
        let worst_percent = regrets.iter().copied().reduce(f64::max)?;
        Some(Self {
            groups: regrets.len(),
            mean_percent: regrets.iter().sum::<f64>() / regrets.len() as f64,
            worst_percent,
        })
    }
}

fn is_choice(choices: &[Choice]) -> bool {
    let mut layouts: Vec<&str> = choices.iter().map(|choice| choice.layout.as_str()).collect();
    layouts.sort_unstable();
    layouts.dedup();
    let mut times: Vec<f64> = choices.iter().map(|choice| choice.measured).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    choices.len() >= FEWEST_RUNS && layouts.len() >= FEWEST_LAYOUTS && times.len() >= FEWEST_LAYOUTS
}

/// Tied predictions choose each other's mean.
fn regret(choices: &[Choice]) -> f64 {
    let best = choices.iter().map(|choice| choice.measured).fold(f64::INFINITY, f64::min);
    let lead = choices.iter().map(|choice| choice.predicted).fold(f64::INFINITY, f64::min);
    let chosen: Vec<f64> =
        choices.iter().filter(|choice| choice.predicted <= lead * (1.0 + TIE)).map(|choice| choice.measured).collect();
    chosen.iter().sum::<f64>() / chosen.len() as f64 / best - 1.0
}

/// What the runs of one decision share.
pub(crate) fn sweep(run: &Run) -> String {
    let (model, hardware, training) = (&run.case.model, &run.case.hardware, &run.case.training);
    format!(
        "{} {:?} {:?} {} {:?} {:?} {:?} {}",
        run.source,
        training.task,
        model.name,
        run.gpu_model,
        hardware.gpus,
        training.global_batch,
        training.sequence_length,
        run.precision_label
    )
}

/// What they differ in, by the source's own labels where those are finer.
fn layout(run: &Run) -> String {
    let layout = &run.case.layout;
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {} {:?} {}",
        layout.data,
        layout.tensor,
        layout.pipeline,
        layout.virtual_pipeline,
        layout.context,
        layout.expert,
        run.shard_label,
        run.case.training.micro_batch,
        run.recompute_label
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(predicted: f64, measured: f64, layout: &str) -> Choice {
        Choice { predicted, measured, layout: layout.to_owned() }
    }

    #[test]
    fn a_tie_takes_the_mean() {
        let choices = [choice(1.0, 1.0, "a"), choice(1.0, 1.4, "b"), choice(2.0, 1.6, "c"), choice(2.0, 1.7, "c")];
        assert!(is_choice(&choices));
        assert!((regret(&choices) - 0.2).abs() < 1e-12);
    }

    #[test]
    fn repeats_of_two_layouts_are_no_choice() {
        assert!(!is_choice(&[
            choice(1.0, 1.0, "a"),
            choice(1.0, 1.4, "b"),
            choice(2.0, 1.6, "b"),
            choice(2.0, 1.7, "b")
        ]));
        assert!(!is_choice(&[choice(1.0, 1.0, "a"), choice(1.0, 1.4, "b"), choice(2.0, 1.6, "c")]));
    }
}
