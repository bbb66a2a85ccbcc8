//! `Scores`: the error of predictions over published runs, by any grouping, with fits and regret.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::measured::Measured;
use crate::prediction::Prediction;
use crate::published::{Published, Run};
use crate::regret::Regret;
use gpuplan_units::Band;
use gpuplan_units::names::word;

/// A group with fewer answers says too little to weigh as much as the others.
const FEWEST_OF_A_GROUP: usize = 8;
/// A measured peak may stand this far above the number on the box, which counts in other units.
const PEAK_OVER_LABEL: f64 = 1.08;

/// How the runs are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorGroup {
    /// The earlier sources, which most constants are fitted on, and the recent ones.
    Table,
    Source,
    /// Sources that share one code base.
    Group,
    /// Kind of model.
    Family,
    /// Id in the hardware catalog.
    Gpu,
    /// What bounds the predicted step; of answered runs alone.
    Regime,
}

/// Errors of the runs under one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupErrors {
    pub name: String,
    pub cases: usize,
    pub answered: usize,
    /// None where nothing was answered.
    #[serde(flatten)]
    pub errors: Option<Errors>,
}

/// Error = predicted / measured - 1, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Mean absolute error.
    pub mape_percent: f64,
    /// Median absolute error.
    pub median_percent: f64,
    /// Median signed error.
    pub bias_percent: f64,
    /// Share of runs with an error of at most 20 %.
    pub within_20_percent: f64,
    /// Share of runs that the band holds; 80 is right.
    pub in_band_percent: f64,
}

/// Memory decisions against what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FitFacts {
    pub asked: usize,
    pub answered: usize,
    /// Said to fit, ran out of memory.
    pub false_fit: usize,
    pub out_of_memory_facts: usize,
    /// Said not to fit, ran.
    pub false_out_of_memory: usize,
    pub fits_facts: usize,
}

/// Error of one run.
#[derive(Clone, Copy, Debug)]
pub struct RunError<'a> {
    pub run: &'a Run,
    /// Of its peak memory, and not of its time.
    pub is_memory: bool,
    /// Predicted over measured.
    pub ratio: Band,
}

/// One scored run; the ratio is predicted over measured.
struct Scored<'a> {
    run: &'a Run,
    made: Option<&'a Prediction>,
    ratio: Option<Band>,
}

/// Every figure of the accuracy report.
pub struct Scores<'a> {
    time: Vec<Scored<'a>>,
    memory: Vec<Scored<'a>>,
    pub fits: FitFacts,
    pub regret: Option<Regret>,
}

impl<'a> Scores<'a> {
    /// `predictions` stand in the order of the runs; a missing one is an unanswered case.
    pub fn new(published: &'a Published, predictions: &'a [Option<Prediction>]) -> Self {
        let mut scores = Self { time: Vec::new(), memory: Vec::new(), fits: FitFacts::default(), regret: None };
        for (index, run) in published.runs.iter().enumerate() {
            let made = predictions.get(index).and_then(Option::as_ref);
            if run.scores_time() {
                scores.time.push(Scored { run, made, ratio: made.and_then(|made| run.time_ratio(made)) });
            }
            if let Some(bytes) = run.scored_memory() {
                let ratio = made.map(|made| made.peak_memory.map(|need| need / bytes.0));
                scores.memory.push(Scored { run, made, ratio });
                let on_the_card = run.gpu_memory_gb.is_some_and(|gb| bytes.0 <= gb * 1e9 * PEAK_OVER_LABEL);
                if let (Some(made), true) = (made, on_the_card) {
                    scores.fits.asked += 1;
                    scores.fits.add(made.fits, true);
                }
            }
            if let Measured::Fits(fitted) = run.measured {
                scores.fits.asked += 1;
                if let Some(made) = made {
                    scores.fits.add(made.fits, fitted);
                }
            }
        }
        let answered = scores.time.iter().filter(|scored| scored.ratio.is_some());
        scores.regret = Regret::from_predictions(answered.filter_map(|scored| Some((scored.run, scored.made?))));
        scores
    }

    /// Step time or throughput, in the order of the names.
    pub fn time(&self, by: ErrorGroup) -> Vec<GroupErrors> {
        table(&self.time, by)
    }

    /// Peak memory, in the order of the names.
    pub fn memory(&self, by: ErrorGroup) -> Vec<GroupErrors> {
        table(&self.memory, by)
    }

    /// Every answered run, times first.
    pub fn runs(&self) -> impl Iterator<Item = RunError<'a>> {
        let errors = |scored: &[Scored<'a>], is_memory| {
            let one = |one: &Scored<'a>| Some(RunError { run: one.run, is_memory, ratio: one.ratio? });
            scored.iter().filter_map(one).collect::<Vec<_>>()
        };
        errors(&self.time, false).into_iter().chain(errors(&self.memory, true))
    }

    pub fn time_of_all(&self) -> GroupErrors {
        line("all", self.time.iter())
    }

    pub fn memory_of_all(&self) -> GroupErrors {
        line("all", self.memory.iter())
    }

    /// Time errors of the runs that `wanted` takes.
    pub fn time_where(&self, name: &str, wanted: impl Fn(&Run) -> bool) -> GroupErrors {
        line(name, self.time.iter().filter(|scored| wanted(scored.run)))
    }

    /// Mean over the groups, each weighing the same, and how many they are.
    pub fn macro_mape_percent(&self) -> Option<(f64, usize)> {
        let large = |line: &GroupErrors| line.errors.filter(|_| line.answered >= FEWEST_OF_A_GROUP);
        let groups: Vec<f64> =
            self.time(ErrorGroup::Group).iter().filter_map(large).map(|errors| errors.mape_percent).collect();
        (!groups.is_empty()).then(|| (mean(&groups), groups.len()))
    }

    /// Width of the time bands.
    pub fn median_high_over_low(&self) -> Option<f64> {
        let ratios = self.time.iter().filter_map(|scored| scored.ratio).filter(|ratio| ratio.low > 0.0);
        let widths: Vec<f64> = ratios.map(|ratio| ratio.high / ratio.low).collect();
        (!widths.is_empty()).then(|| median(widths))
    }
}

impl FitFacts {
    fn add(&mut self, said: bool, was: bool) {
        self.answered += 1;
        if was {
            self.fits_facts += 1;
            self.false_out_of_memory += usize::from(!said);
        } else {
            self.out_of_memory_facts += 1;
            self.false_fit += usize::from(said);
        }
    }
}

fn table(scored: &[Scored], by: ErrorGroup) -> Vec<GroupErrors> {
    let mut names: BTreeMap<String, Vec<&Scored>> = BTreeMap::new();
    for one in scored {
        if let Some(name) = name(one, by) {
            names.entry(name).or_default().push(one);
        }
    }
    names.into_iter().map(|(name, runs)| line(&name, runs.into_iter())).collect()
}

fn name(scored: &Scored, by: ErrorGroup) -> Option<String> {
    let run = scored.run;
    match by {
        ErrorGroup::Table => Some(if run.is_recent() { "recent" } else { "earlier" }.to_owned()),
        ErrorGroup::Source => Some(run.source.clone()),
        ErrorGroup::Group => Some(run.group().to_owned()),
        ErrorGroup::Family => run.case.model.kind.map(word),
        ErrorGroup::Gpu => run.case.hardware.gpu.clone(),
        ErrorGroup::Regime => scored.made.map(|made| word(made.regime)),
    }
}

fn line<'a>(name: &str, scored: impl Iterator<Item = &'a Scored<'a>>) -> GroupErrors {
    let mut ratios = Vec::new();
    let mut cases = 0;
    for one in scored {
        cases += 1;
        ratios.extend(one.ratio);
    }
    GroupErrors { name: name.to_owned(), cases, answered: ratios.len(), errors: Errors::from_ratios(&ratios) }
}

impl Errors {
    fn from_ratios(ratios: &[Band]) -> Option<Self> {
        if ratios.is_empty() {
            return None;
        }
        let errors: Vec<f64> = ratios.iter().map(|ratio| 100.0 * (ratio.expected - 1.0)).collect();
        let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        let share = |count: usize| 100.0 * count as f64 / ratios.len() as f64;
        Some(Self {
            mape_percent: mean(&sizes),
            median_percent: median(sizes.clone()),
            bias_percent: median(errors),
            within_20_percent: share(sizes.iter().filter(|size| **size <= 20.0).count()),
            in_band_percent: share(ratios.iter().filter(|ratio| ratio.low <= 1.0 && 1.0 <= ratio.high).count()),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of at least one value; the mean of the middle two of an even number.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], values[middle]) } else { values[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_embedded::Archive;
    use gpuplan_estimate::Regime;

    const RUNS: &str = "\
id,quality,locator,metric,value,unit,flops_def,longest_example,gpu_model,precision_label,shard_label,recompute_label,optimizer_label,gpu_mem_gb,notes,model.kind,hardware.gpu,hardware.gpus
1,A,,iter_seconds,2,s,,,A100,bf16,,,,80,,decoder,a100,8
2,A,,tokens/s/gpu,100,tok/s,,,A100,bf16,,,,80,,decoder,a100,8
3,A,,samples/s,50,img/s,,,A100,bf16,,,,80,,cnn,a100,8
4,C,,iter_seconds,2,s,,,A100,bf16,,,,80,,decoder,a100,8
5,A,,iter_seconds,2,s,,true,A100,bf16,,,,80,,decoder,a100,8
6,A,,peak_mem_GB,40,GB,,,A100,bf16,,,,80,,decoder,a100,8
7,A,,fits,OOM,fit fact,,,A100,bf16,,,,80,,decoder,a100,8
8,A,,iter_seconds,2,s,,,A100,bf16,,,,80,,decoder,a100,8
";

    fn published() -> Published {
        let mut archive = Archive::default();
        archive.add_table("published/some", RUNS).unwrap();
        Published::from_archive(&archive).unwrap()
    }

    /// Steps of 2.2 s, 80 tokens/s, 50 samples/s, 44 GB, said to fit.
    fn prediction() -> Prediction {
        let around = |value: f64| Band::around(value, 0.8, 1.05);
        Prediction {
            step_seconds: around(2.2),
            tokens_per_second_per_gpu: Some(around(80.0)),
            samples_per_second: around(50.0),
            peak_memory: around(44e9),
            fits: true,
            regime: Regime::Compute,
            doubts: gpuplan_estimate::Doubts::default(),
        }
    }

    #[test]
    fn errors_follow_their_definitions() {
        let published = published();
        let mut predictions = vec![Some(prediction()); 8];
        predictions[7] = None;
        let scores = Scores::new(&published, &predictions);
        let all = scores.time_of_all();
        let errors = all.errors.unwrap();
        // 2.2 / 2, 100 / 80 and 50 / 50; the last is unanswered, of quality C and of the longest example are not asked.
        assert_eq!((all.cases, all.answered), (4, 3));
        assert!((errors.mape_percent - 35.0 / 3.0).abs() < 1e-9);
        assert!((errors.median_percent - 10.0).abs() < 1e-9 && (errors.bias_percent - 10.0).abs() < 1e-9);
        assert!((errors.within_20_percent - 200.0 / 3.0).abs() < 1e-9);
        // 100 / 84 is still above 1.
        assert!((errors.in_band_percent - 200.0 / 3.0).abs() < 1e-9);
        let memory = scores.memory_of_all().errors.unwrap();
        assert!((memory.mape_percent - 10.0).abs() < 1e-9);
        let expected = FitFacts {
            asked: 2,
            answered: 2,
            false_fit: 1,
            out_of_memory_facts: 1,
            false_out_of_memory: 0,
            fits_facts: 1,
        };
        assert_eq!(scores.fits, expected);
        assert!((scores.median_high_over_low().unwrap() - 1.05 / 0.8).abs() < 1e-9);
        assert!(scores.macro_mape_percent().is_none() && scores.regret.is_none());
        assert_eq!(
            scores.time(ErrorGroup::Family).iter().map(|line| line.name.as_str()).collect::<Vec<_>>(),
            ["cnn", "decoder"]
        );
        assert_eq!(scores.time(ErrorGroup::Regime)[0].cases, 3);
    }

    #[test]
    fn no_answer_has_no_error() {
        let published = published();
        let scores = Scores::new(&published, &[]);
        assert_eq!((scores.time_of_all().cases, scores.time_of_all().answered), (4, 0));
        assert!(scores.time_of_all().errors.is_none() && scores.median_high_over_low().is_none());
        assert_eq!(scores.fits.answered, 0);
    }

    #[test]
    fn a_prediction_of_nothing_is_an_error_of_100_percent() {
        let published = published();
        let nothing = Band::default();
        let made = Prediction {
            step_seconds: nothing,
            tokens_per_second_per_gpu: Some(nothing),
            samples_per_second: nothing,
            peak_memory: nothing,
            ..prediction()
        };
        let predictions = vec![Some(made); published.runs.len()];
        let scores = Scores::new(&published, &predictions);
        for all in [scores.time_of_all(), scores.memory_of_all()] {
            let errors = all.errors.unwrap();
            assert!((errors.mape_percent - 100.0).abs() < 1e-9 && (errors.bias_percent + 100.0).abs() < 1e-9);
        }
        assert!(scores.median_high_over_low().is_none());
    }

    #[test]
    fn medians_of_even_and_odd_counts() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
    }
}
