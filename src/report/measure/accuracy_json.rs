//! How wrong the estimate is, as JSON.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::measure::accuracy::{against_peers, inference_means};
use crate::text::json::{VERSION, pretty};
use gpuplan_accuracy::peers::PeerErrors;
use gpuplan_accuracy::{ErrorGroup, Errors, FitFacts, GroupErrors, Regret, Scores};
use gpuplan_estimate::band::{FittedBands, SourceCoverage};
use gpuplan_estimate::constants::{Fitted, HeldOutError, HeldOutInference};
use gpuplan_estimate::memory_constants::{FittedMemory, HeldOutSource};

/// `gpuplan accuracy -o json`, which `benchmarks/results/accuracy.json` records. An error is predicted / measured - 1.
#[derive(Serialize, JsonSchema)]
pub struct AccuracyReport<'a> {
    version: u32,
    generated_at: Timestamp,
    /// Version of the fitted constants.
    constants_version: &'a str,
    /// Step time or throughput.
    time: Groupings,
    time_all: ErrorLine,
    /// Mean of the errors of `macro_groups` code bases; `null` where none has enough runs.
    macro_mape_percent: Option<f64>,
    macro_groups: usize,
    /// Width of the band of the step time; `null` where nothing was answered.
    median_high_over_low: Option<f64>,
    /// Peak memory of a GPU.
    memory: Groupings,
    memory_all: ErrorLine,
    fits: FitErrors,
    /// `null` where no sweep of layouts was published.
    regret: Option<LayoutRegret>,
    held_out: HeldOutErrors<'a>,
    /// Other public estimators on the same runs.
    peers: Vec<PeerLine>,
}

/// The same runs under the names of each grouping.
#[derive(Serialize, JsonSchema)]
struct Groupings {
    /// `earlier`: the sources that most constants are fitted on; `recent`: those that only three constants see.
    table: Vec<ErrorLine>,
    /// Paper or repository.
    source: Vec<ErrorLine>,
    /// Sources that share one code base.
    group: Vec<ErrorLine>,
    /// Kind of model.
    family: Vec<ErrorLine>,
    gpu: Vec<ErrorLine>,
    /// What bounds the predicted step.
    regime: Vec<ErrorLine>,
}

impl Groupings {
    fn new(lines: impl Fn(ErrorGroup) -> Vec<GroupErrors>) -> Self {
        let by = |grouping| lines(grouping).into_iter().map(ErrorLine::from).collect();
        Self {
            table: by(ErrorGroup::Table),
            source: by(ErrorGroup::Source),
            group: by(ErrorGroup::Group),
            family: by(ErrorGroup::Family),
            gpu: by(ErrorGroup::Gpu),
            regime: by(ErrorGroup::Regime),
        }
    }
}

/// Errors of the runs under one name.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorLine {
    name: String,
    cases: usize,
    /// Cases that were predicted.
    answered: usize,
    /// Absent where nothing was answered.
    #[serde(flatten)]
    errors: Option<ErrorFigures>,
}

/// An error is predicted / measured - 1, in percent.
#[derive(Serialize, JsonSchema)]
#[allow(clippy::struct_field_names, reason = "keys as the document has them")]
struct ErrorFigures {
    /// Mean absolute error.
    mape_percent: f64,
    /// Median absolute error.
    median_percent: f64,
    /// Median signed error.
    bias_percent: f64,
    /// Share of runs with an error of at most 20 %.
    within_20_percent: f64,
    /// Share of runs that the band from 10 to 90 % holds.
    in_band_percent: f64,
}

impl From<GroupErrors> for ErrorLine {
    fn from(line: GroupErrors) -> Self {
        let figures = |errors: Errors| ErrorFigures {
            mape_percent: errors.mape_percent,
            median_percent: errors.median_percent,
            bias_percent: errors.bias_percent,
            within_20_percent: errors.within_20_percent,
            in_band_percent: errors.in_band_percent,
        };
        Self { name: line.name, cases: line.cases, answered: line.answered, errors: line.errors.map(figures) }
    }
}

/// Whether a run fits a GPU, predicted and in fact.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FitErrors {
    asked: usize,
    answered: usize,
    /// Predicted to fit, and ran out of memory.
    false_fit: usize,
    out_of_memory_facts: usize,
    /// Predicted not to fit, and ran.
    false_out_of_memory: usize,
    fits_facts: usize,
}

impl From<FitFacts> for FitErrors {
    fn from(fits: FitFacts) -> Self {
        Self {
            asked: fits.asked,
            answered: fits.answered,
            false_fit: fits.false_fit,
            out_of_memory_facts: fits.out_of_memory_facts,
            false_out_of_memory: fits.false_out_of_memory,
            fits_facts: fits.fits_facts,
        }
    }
}

impl From<Regret> for LayoutRegret {
    fn from(regret: Regret) -> Self {
        Self { groups: regret.groups, mean_percent: regret.mean_percent, worst_percent: regret.worst_percent }
    }
}

/// Time of the layout that is predicted fastest over that of the fastest, minus one.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LayoutRegret {
    /// Published sweeps of layouts.
    groups: usize,
    mean_percent: f64,
    worst_percent: f64,
}

/// Errors on runs that the constants were fitted without.
#[derive(Serialize, JsonSchema)]
struct HeldOutErrors<'a> {
    /// Mean over groups of 8 runs and more.
    macro_mape_percent: f64,
    groups: &'a [HeldOutError],
    /// Of families that are no decoders, on GPU models left out.
    other_families_mape_percent: f64,
    gpus: &'a [HeldOutError],
    /// All runs, on generations of GPUs left out.
    generations: &'a [HeldOutError],
    inference: HeldOutInferenceReport<'a>,
    memory_mape_percent: f64,
    memory_sources: &'a [HeldOutSource],
    /// Share of the runs inside bands that never saw their code base, and its median width.
    bands_inside_percent: f64,
    bands_median_high_over_low: f64,
    band_sources: &'a [SourceCoverage],
}

/// `gpuplan accuracy --refit --inference -o json`: errors of inference on GPUs that no constant was fitted on.
#[derive(Serialize, JsonSchema)]
pub struct HeldOutInferenceReport<'a> {
    version: u32,
    gpus: &'a [HeldOutInference],
    /// Over all runs of each kind.
    means: Vec<HeldOutInference>,
}

impl<'a> HeldOutInferenceReport<'a> {
    fn new(held: &'a [HeldOutInference]) -> Self {
        Self { version: VERSION, gpus: held, means: inference_means(held).into_values().collect() }
    }
}

/// Mean absolute errors of other estimators on the runs of one source, and of gpuplan on the same.
#[derive(Serialize, JsonSchema)]
struct PeerLine {
    source: &'static str,
    runs: usize,
    /// Half of the peak, recompute included.
    constant_hfu_50_mape_percent: f64,
    llm_analysis_mape_percent: f64,
    calculon_mape_percent: Option<f64>,
    /// How many of the runs calculon can take.
    calculon_runs: usize,
    gpuplan_mape_percent: Option<f64>,
}

/// Everything, whatever the table shows.
pub fn accuracy(scores: &Scores, time: &Fitted, memory: &FittedMemory, now: Timestamp) -> String {
    let (macro_mape, bands) = (scores.macro_mape_percent(), FittedBands::embedded());
    let peer = |(line, errors): (GroupErrors, PeerErrors)| PeerLine {
        source: errors.source,
        runs: errors.runs,
        constant_hfu_50_mape_percent: errors.constant_hfu_50_mape_percent,
        llm_analysis_mape_percent: errors.llm_analysis_mape_percent,
        calculon_mape_percent: errors.calculon_mape_percent,
        calculon_runs: errors.calculon_runs,
        gpuplan_mape_percent: line.errors.map(|errors| errors.mape_percent),
    };
    pretty(&AccuracyReport {
        version: VERSION,
        generated_at: now,
        constants_version: &time.version,
        time: Groupings::new(|by| scores.time(by)),
        time_all: scores.time_of_all().into(),
        macro_mape_percent: macro_mape.map(|(mape, _)| mape),
        macro_groups: macro_mape.map_or(0, |(_, groups)| groups),
        median_high_over_low: scores.median_high_over_low(),
        memory: Groupings::new(|by| scores.memory(by)),
        memory_all: scores.memory_of_all().into(),
        fits: scores.fits.into(),
        regret: scores.regret.map(LayoutRegret::from),
        held_out: HeldOutErrors {
            macro_mape_percent: time.held_out_macro_percent,
            groups: &time.held_out_groups,
            other_families_mape_percent: time.held_out_gpu_percent,
            gpus: &time.held_out_gpus,
            generations: &time.held_out_generations,
            inference: HeldOutInferenceReport::new(&time.held_out_inference),
            memory_mape_percent: memory.held_out_error_percent,
            memory_sources: &memory.held_out_sources,
            bands_inside_percent: bands.inside_percent,
            bands_median_high_over_low: bands.median_high_over_low,
            band_sources: &bands.sources,
        },
        peers: against_peers(scores).into_iter().map(peer).collect(),
    })
}

/// Errors of inference alone.
pub fn held_out_inference(held: &[HeldOutInference]) -> String {
    pretty(&HeldOutInferenceReport::new(held))
}
