//! How wrong the estimate is, as JSON.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::accuracy::{against_peers, inference_means};
use crate::json::{VERSION, pretty};
use gpuplan_accuracy::peers::PeerErrors;
use gpuplan_accuracy::regret::Regret;
use gpuplan_accuracy::{By, FitFacts, Line, Scores};
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
    time_all: Line,
    /// Mean of the errors of `macro_groups` code bases; `null` where none has enough runs.
    macro_mape_percent: Option<f64>,
    macro_groups: usize,
    /// Width of the band of the step time; `null` where nothing was answered.
    median_high_over_low: Option<f64>,
    /// Peak memory of a GPU.
    memory: Groupings,
    memory_all: Line,
    fits: FitFacts,
    /// `null` where no sweep of layouts was published.
    regret: Option<Regret>,
    held_out: HeldOutErrors<'a>,
    /// Other public estimators on the same runs.
    peers: Vec<PeerLine>,
}

/// The same runs under the names of each grouping.
#[derive(Serialize, JsonSchema)]
struct Groupings {
    source: Vec<Line>,
    group: Vec<Line>,
    family: Vec<Line>,
    gpu: Vec<Line>,
    regime: Vec<Line>,
}

impl Groupings {
    fn new(lines: impl Fn(By) -> Vec<Line>) -> Self {
        Self {
            source: lines(By::Source),
            group: lines(By::Group),
            family: lines(By::Family),
            gpu: lines(By::Gpu),
            regime: lines(By::Regime),
        }
    }
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
    inference: HeldOutInferenceReport<'a>,
    memory_mape_percent: f64,
    memory_sources: &'a [HeldOutSource],
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

/// An estimator, and gpuplan on the runs that it can take.
#[derive(Serialize, JsonSchema)]
struct PeerLine {
    #[serde(flatten)]
    errors: PeerErrors,
    gpuplan_mape_percent: Option<f64>,
}

/// Everything, whatever the table shows.
pub fn accuracy(
    scores: &Scores,
    time: &Fitted,
    memory: &FittedMemory,
    now: Timestamp,
) -> Result<String, serde_json::Error> {
    let macro_mape = scores.macro_mape_percent();
    let peer = |(line, errors): (Line, PeerErrors)| PeerLine {
        errors,
        gpuplan_mape_percent: line.errors.map(|errors| errors.mape_percent),
    };
    pretty(&AccuracyReport {
        version: VERSION,
        generated_at: now,
        constants_version: &time.version,
        time: Groupings::new(|by| scores.time(by)),
        time_all: scores.time_of_all(),
        macro_mape_percent: macro_mape.map(|(mape, _)| mape),
        macro_groups: macro_mape.map_or(0, |(_, groups)| groups),
        median_high_over_low: scores.median_high_over_low(),
        memory: Groupings::new(|by| scores.memory(by)),
        memory_all: scores.memory_of_all(),
        fits: scores.fits,
        regret: scores.regret,
        held_out: HeldOutErrors {
            macro_mape_percent: time.held_out_macro_percent,
            groups: &time.held_out_groups,
            other_families_mape_percent: time.held_out_gpu_percent,
            gpus: &time.held_out_gpus,
            inference: HeldOutInferenceReport::new(&time.held_out_inference),
            memory_mape_percent: memory.held_out_error_percent,
            memory_sources: &memory.held_out_sources,
        },
        peers: against_peers(scores).into_iter().map(peer).collect(),
    })
}

/// Errors of inference alone.
pub fn held_out_inference(held: &[HeldOutInference]) -> Result<String, serde_json::Error> {
    pretty(&HeldOutInferenceReport::new(held))
}
