//! Forecast against actual of this user's own runs, as table, JSON and CSV.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::csv_text::csv_text;
use crate::text::format::three_figures;
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use crate::text::wrap::wrap;
use gpuplan_budget::mine::{ComparisonGroup, ForecastAndActual, RunComparison, comparison_groups};

/// `1.18 x`: how many times the forecast came.
fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2} x"))
}

fn actual_over_forecast(pair: ForecastAndActual) -> String {
    format!("{} / {}", three_figures(pair.actual), three_figures(pair.forecast))
}

pub fn text(runs: &[RunComparison], width: u16) -> String {
    let columns = [
        Column::left("run", 0),
        Column::left("gpu", 0),
        Column::left("framework", 110),
        Column::right("work", 0),
        Column::right("time", 0),
        Column::right("price", 0),
        Column::right("cost", 0),
        Column::right("interruptions", 0),
        Column::right("cost in p90", 90),
    ];
    let mut rows: Vec<Vec<String>> = runs.iter().map(run_row).collect();
    let groups = comparison_groups(runs);
    rows.extend(groups.iter().filter(|group| group.runs.len() > 1).map(group_row));
    let foot = "Actual over forecast; interruptions: seen / forecast. Work is the time that a step's estimate says, without waiting and lost \
        work; price is of a machine and hour; the forecast of the cost has checkpoint storage in it, the actual cost \
        has not. Rows in brackets are medians.";
    format!("{}{}\n", render(&columns, rows, width), wrap(foot, width, ""))
}

fn run_row(run: &RunComparison) -> Vec<String> {
    vec![
        run.run.clone(),
        run.gpu.clone(),
        run.framework.clone(),
        ratio_text(run.work_hours.ratio()),
        ratio_text(run.hours.ratio()),
        ratio_text(run.rate_usd.ratio()),
        ratio_text(run.cost_usd.ratio()),
        actual_over_forecast(run.interruptions),
        if run.is_within_p90 { "yes" } else { "no" }.to_owned(),
    ]
}

fn group_row(group: &ComparisonGroup) -> Vec<String> {
    vec![
        format!("[{} runs]", group.runs.len()),
        group.gpu.clone(),
        group.framework.clone(),
        ratio_text(group.work_hours),
        ratio_text(group.hours),
        ratio_text(group.rate),
        ratio_text(group.cost),
        actual_over_forecast(group.interruptions),
        format!("{:.0} %", group.within_p90 * 100.0),
    ]
}

/// What `accuracy --mine --output json` writes: forecast against actual of the user's own completed runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OwnRunsDocument<'a> {
    pub version: u32,
    pub generated_at: Timestamp,
    pub runs: &'a [RunComparison],
    /// The same by GPU and framework.
    pub groups: Vec<ComparisonGroup>,
}

pub fn json(runs: &[RunComparison], now: Timestamp) -> String {
    pretty(&OwnRunsDocument { version: VERSION, generated_at: now, runs, groups: comparison_groups(runs) })
}

pub fn csv(runs: &[RunComparison]) -> String {
    let pairs = ["work_hours", "hours", "rate_usd", "cost_usd", "interruptions"];
    let pairs: Vec<String> =
        pairs.iter().flat_map(|name| [format!("{name}_forecast"), format!("{name}_actual")]).collect();
    let header: Vec<&str> =
        ["run", "gpu", "framework", "nodes"].into_iter().chain(pairs.iter().map(String::as_str)).collect();
    let cells = |run: &RunComparison| {
        let mut cells = vec![run.run.clone(), run.gpu.clone(), run.framework.clone(), run.nodes.to_string()];
        for pair in [run.work_hours, run.hours, run.rate_usd, run.cost_usd, run.interruptions] {
            cells.extend([pair.forecast.to_string(), pair.actual.to_string()]);
        }
        cells
    };
    csv_text(&header, runs.iter().map(cells))
}
