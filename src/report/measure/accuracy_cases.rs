//! How wrong the estimate is on a user's own table of runs: tables for people, every run for programs.

use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::measure::accuracy::{summary, table, word};
use crate::measure::accuracy_json::{ErrorLine, FitErrors, LayoutRegret};
use crate::text::json::{VERSION, pretty};
use crate::text::wrap::wrap;
use gpuplan_accuracy::{ErrorGroup, Scores};
use gpuplan_units::Band;

/// Reasons that are printed; JSON has all.
const SHOWN_REASONS: usize = 10;

/// A run that the estimate has no answer for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Unanswered {
    /// Id of the table.
    pub id: String,
    /// What the estimate does not know.
    pub why: String,
}

/// The scores of an own table with what they rest on.
pub struct OwnScores<'a> {
    pub scores: &'a Scores<'a>,
    pub unanswered: &'a [Unanswered],
    /// Of these sources the constants were fitted on: their errors are no errors on new runs.
    pub fitted_sources: &'a [String],
    pub constants_version: &'a str,
}

/// `gpuplan accuracy --cases FILE -o json`. An error is predicted / measured - 1.
#[derive(Serialize, JsonSchema)]
pub struct OwnAccuracyReport<'a> {
    version: u32,
    generated_at: Timestamp,
    /// Version of the fitted constants.
    constants_version: &'a str,
    /// Step time or throughput.
    time: OwnGroupings,
    time_all: ErrorLine,
    /// Width of the band of the step time; `null` where nothing was answered.
    median_high_over_low: Option<f64>,
    /// Peak memory of a GPU.
    memory: OwnGroupings,
    memory_all: ErrorLine,
    fits: FitErrors,
    /// `null` where the table has no sweep of layouts.
    regret: Option<LayoutRegret>,
    /// Every answered run, in the order of the table; times first.
    runs: Vec<RunLine<'a>>,
    unanswered: &'a [Unanswered],
    /// Sources of the table that the constants were fitted on.
    fitted_sources: &'a [String],
}

/// The same runs under the names of each grouping.
#[derive(Serialize, JsonSchema)]
struct OwnGroupings {
    /// What the table calls the source of a run; `own` where it names none.
    source: Vec<ErrorLine>,
    /// Kind of model.
    family: Vec<ErrorLine>,
    gpu: Vec<ErrorLine>,
    /// What bounds the predicted step.
    regime: Vec<ErrorLine>,
}

/// One answered run.
#[derive(Serialize, JsonSchema)]
struct RunLine<'a> {
    id: &'a str,
    source: &'a str,
    /// `time` or `memory`.
    what: &'static str,
    error_percent: f64,
    /// Predicted over measured, at both ends of the band and where it is expected.
    predicted_over_measured: Band,
    in_band: bool,
}

/// Everything, whatever the table shows.
pub fn json(own: &OwnScores, now: Timestamp) -> String {
    let scores = own.scores;
    let groupings = |memory: bool| {
        let by = |by| {
            let lines = if memory { scores.memory(by) } else { scores.time(by) };
            lines.into_iter().map(ErrorLine::from).collect()
        };
        OwnGroupings {
            source: by(ErrorGroup::Source),
            family: by(ErrorGroup::Family),
            gpu: by(ErrorGroup::Gpu),
            regime: by(ErrorGroup::Regime),
        }
    };
    let runs = scores.runs().map(|one| RunLine {
        id: &one.run.id,
        source: &one.run.source,
        what: if one.is_memory { "memory" } else { "time" },
        error_percent: 100.0 * (one.ratio.expected - 1.0),
        predicted_over_measured: one.ratio,
        in_band: one.ratio.low <= 1.0 && 1.0 <= one.ratio.high,
    });
    pretty(&OwnAccuracyReport {
        version: VERSION,
        generated_at: now,
        constants_version: own.constants_version,
        time: groupings(false),
        time_all: scores.time_of_all().into(),
        median_high_over_low: scores.median_high_over_low(),
        memory: groupings(true),
        memory_all: scores.memory_of_all().into(),
        fits: scores.fits.into(),
        regret: scores.regret.map(LayoutRegret::from),
        runs: runs.collect(),
        unanswered: own.unanswered,
        fitted_sources: own.fitted_sources,
    })
}

/// Tables and the lines under them.
pub fn text(own: &OwnScores, by: ErrorGroup, width: u16) -> String {
    let scores = own.scores;
    let mut out = format!("Step time or throughput by {}, error = predicted / measured - 1\n\n", word(by));
    out.push_str(&table(&scores.time(by), &scores.time_of_all(), by, width));
    if scores.memory_of_all().cases > 0 {
        let memory = table(&scores.memory(by), &scores.memory_of_all(), by, width);
        let _ = write!(out, "\nPeak memory of a GPU by {}\n\n{memory}", word(by));
    }
    let _ = write!(out, "\n{}", summary(scores, width));
    if !own.unanswered.is_empty() {
        let _ = writeln!(out, "\nWithout an answer: {}", own.unanswered.len());
        for one in own.unanswered.iter().take(SHOWN_REASONS) {
            let _ = writeln!(out, "{}", wrap(&format!("  {}: {}", one.id, one.why), width, "    "));
        }
        if own.unanswered.len() > SHOWN_REASONS {
            let _ = writeln!(out, "  and {} more (--output json has all)", own.unanswered.len() - SHOWN_REASONS);
        }
    }
    if !own.fitted_sources.is_empty() {
        let note = format!(
            "The constants ({}) were fitted on runs of {}: their errors here say nothing of runs that were never seen.",
            own.constants_version,
            own.fitted_sources.join(", ")
        );
        let _ = writeln!(out, "\n{}", wrap(&note, width, ""));
    }
    out
}
