//! The published runs that are most like an estimated one: a sentence for people, the runs for programs.

use schemars::JsonSchema;
use serde::Serialize;

use gpuplan_accuracy::nearest::{NearRun, Nearest};
use gpuplan_estimate::answer::CaseAnswer;

/// The published runs that are most like this one, and how far off the estimate is on them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NearestReport {
    /// The nearest first, six at most; none where no published run is like this one.
    runs: Vec<NearRunReport>,
    /// Median of the sizes of their errors; `null` where none is near.
    median_error_percent: Option<f64>,
    /// Distance of the nearest run of all, near or not; docs/estimate.md has its terms.
    closest_distance: Option<f64>,
}

/// One published run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NearRunReport {
    /// Id in `benchmarks/published`.
    id: String,
    source: String,
    /// Sum of what sets it apart; 0 is the same, and 2 the most that counts as near.
    distance: f64,
    /// Predicted over measured time, less one.
    error_percent: f64,
    /// Most constants were fitted on runs of this source, so that its errors are smaller than those of a stranger's run.
    fitted: bool,
}

impl NearestReport {
    pub fn new(nearest: &Nearest) -> Self {
        let one = |near: &NearRun| NearRunReport {
            id: near.run.id.clone(),
            source: near.run.source.clone(),
            distance: rounded(near.distance),
            error_percent: rounded(near.error_percent),
            fitted: !near.run.is_recent(),
        };
        Self {
            runs: nearest.near.iter().map(one).collect(),
            median_error_percent: nearest.median_error_percent().map(rounded),
            closest_distance: nearest.closest.map(|closest| rounded(closest.distance)),
        }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// One answer of `estimate --cases`, with the published runs like it where there is an estimate.
#[derive(Serialize, JsonSchema)]
pub struct AnswerLine {
    #[serde(flatten)]
    pub answer: CaseAnswer,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestReport>,
}

/// Such as `Like 6 published runs, which are 4 % off (-3 to +6 %): dgxc-nemo-047, ...`.
pub fn sentence(nearest: &Nearest) -> String {
    let Some(median) = nearest.median_error_percent() else {
        return match nearest.closest {
            Some(one) => format!(
                "No published run is near; the closest, {}, is at distance {:.1} (2 is the most that counts)",
                one.run.id, one.distance
            ),
            None => "no published run is near".to_owned(),
        };
    };
    let errors = nearest.near.iter().map(|one| one.error_percent);
    let (low, high) =
        errors.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), error| (low.min(error), high.max(error)));
    let ids: Vec<&str> = nearest.near.iter().map(|one| one.run.id.as_str()).collect();
    let (runs, are) = if ids.len() == 1 { ("run", "is") } else { ("runs", "are") };
    format!(
        "Like {} published {runs}, which {are} {median:.0} % off ({low:+.0} to {high:+.0} %): {}",
        ids.len(),
        ids.join(", ")
    )
}
