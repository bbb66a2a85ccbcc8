//! `StepTimes`: how long the optimizer steps of a run took.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds of an optimizer step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTimes {
    pub count: u64,
    pub median_seconds: f64,
    /// Median distance from the median times 1.4826: the standard deviation, if the steps were normally distributed.
    pub spread_seconds: f64,
    /// The first step, which compiles and warms up; it is not among `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seconds: Option<f64>,
    /// What told of them: a log format, or the trace's own marks.
    pub found_in: String,
}

/// The first step compiles and fills caches where it takes more than this many times what the others do (judgement).
const WARM_UP: f64 = 2.0;
/// Scale that makes the median distance a standard deviation of normally distributed figures.
const NORMAL: f64 = 1.4826;

impl StepTimes {
    /// Median and spread of `seconds`; `None` of nothing.
    pub fn from_seconds(seconds: &[f64], first_seconds: Option<f64>, found_in: &str) -> Option<Self> {
        let median_seconds = median(seconds)?;
        let distances: Vec<f64> = seconds.iter().map(|each| (each - median_seconds).abs()).collect();
        let spread_seconds = median(&distances)? * NORMAL;
        Some(Self {
            count: seconds.len() as u64,
            median_seconds,
            spread_seconds,
            first_seconds,
            found_in: found_in.to_owned(),
        })
    }

    /// The same of steps in their order, of which each run (each device of a trace) may have warmed up with its first. `None` of nothing.
    pub fn after_warm_up(runs: &[Vec<f64>], found_in: &str) -> Option<Self> {
        let firsts: Vec<f64> = runs.iter().filter_map(|run| run.first().copied()).collect();
        let later: Vec<f64> = runs.iter().flat_map(|run| run.iter().skip(1).copied()).collect();
        let first = median(&firsts);
        let warm = Self::from_seconds(&later, first, found_in)
            .filter(|warm| first.is_some_and(|first| first > WARM_UP * warm.median_seconds));
        warm.or_else(|| Self::from_seconds(&runs.concat(), None, found_in))
    }
}

/// The middle of some numbers; `None` of nothing.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even % 2 == 0 => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}
