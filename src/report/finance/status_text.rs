//! A budget against what was spent, for a person: what it comes to first, then where, why, and what stands out.

use crate::finance::rules_text;
use crate::finance::sections::{self, Section};
use crate::text::csv_text::csv_text;
use crate::text::format;
use crate::text::json::pretty;
use crate::text::table::Column;
use gpuplan_budget::status::{Anomaly, AnomalyKind, BudgetStatus, PhaseStatus, StatusRow};
use gpuplan_units::Usd;

pub fn json(status: &BudgetStatus) -> String {
    pretty(status)
}

/// For a terminal.
pub fn text(status: &BudgetStatus, width: u16) -> String {
    sections::text(&head(status), all(status), &status.assumptions, None, width)
}

/// For a page or a comment.
pub fn markdown(status: &BudgetStatus) -> String {
    sections::markdown(&head(status), all(status), &status.assumptions, None)
}

const COLUMNS: [&str; 9] = [
    "by",
    "name",
    "planned_usd",
    "spent_usd",
    "to_go_usd",
    "committed_usd",
    "at_completion_usd",
    "budget_usd",
    "chance_within_budget",
];

/// Every row, by what it is of.
pub fn csv(status: &BudgetStatus) -> String {
    let mut rows = vec![csv_cells("total", &status.total)];
    rows.extend(status.by_month.iter().map(|row| csv_cells("month", row)));
    rows.extend(status.by_team.iter().map(|row| csv_cells("team", row)));
    rows.extend(status.by_project.iter().map(|row| csv_cells("project", row)));
    rows.extend(status.by_phase.iter().map(|phase| csv_cells("phase", &phase.row)));
    csv_text(&COLUMNS, rows)
}

fn csv_cells(by: &str, row: &StatusRow) -> Vec<String> {
    let mut cells = vec![by.to_owned(), row.name.clone()];
    let amounts = [row.planned_usd, row.spent_usd, row.to_go_usd, row.committed_usd, row.at_completion_usd];
    cells.extend(amounts.map(|amount| amount.to_string()));
    cells.push(row.budget_usd.map_or_else(String::new, |budget| budget.to_string()));
    cells.push(row.chance_within_budget.map_or_else(String::new, |chance| chance.to_string()));
    cells
}

/// What a reader wants to know first, in lines.
pub fn head(status: &BudgetStatus) -> Vec<String> {
    let (total, cost) = (&status.total, status.at_completion_usd);
    let last = status.period.start.ahead(status.period.months).back();
    let tax =
        if status.tax == "excluded" { "tax excluded".to_owned() } else { format!("tax of {} included", status.tax) };
    let mut lines = vec![
        format!(
            "{}: {} to {last}, as of {}, US dollars, {tax}",
            status.name,
            status.period.start,
            status.generated_at.strftime("%Y-%m-%d")
        ),
        format!(
            "{} spent and {} to go: {} at completion; with probability 0.9 under {}; {} was planned ({})",
            format::usd(total.spent_usd),
            format::usd(total.to_go_usd),
            format::usd(total.at_completion_usd),
            format::usd(cost.p90),
            format::usd(total.planned_usd),
            status.planned_from
        ),
    ];
    if let (Some(budget), Some(chance)) = (total.budget_usd, total.chance_within_budget) {
        let left = budget - total.spent_usd;
        let left = if left < Usd::ZERO {
            format!("{} more than it is spent", format::usd(Usd::ZERO - left))
        } else {
            format!("{} of it is left", format::usd(left))
        };
        lines.push(format!(
            "Budget of {}: kept with probability {}, given what was spent; {left}",
            format::usd(budget),
            format::probability(chance)
        ));
    }
    lines.push(format!("{:.0} % of what was spent is on imported bills", status.billed_share * 100.0));
    if status.other_runs > 0 {
        lines.push(format!(
            "{} runs in the ledger belong to no phase and no team of this portfolio ({}); they are left out: `launched_as` takes them in",
            status.other_runs,
            format::usd(status.other_usd)
        ));
    }
    lines
}

fn all(status: &BudgetStatus) -> Vec<Section> {
    let section = |title: &str, columns: Vec<Column>, rows: Vec<Vec<String>>| {
        (!rows.is_empty()).then(|| Section { title: title.to_owned(), columns, rows, foot: String::new() })
    };
    let rows = |title: &str, name: &'static str, rows: &[StatusRow]| {
        let has_budget = rows.iter().any(|row| row.budget_usd.is_some());
        section(title, columns(name, has_budget), rows.iter().map(|row| cells(row, has_budget)).collect())
    };
    let phases = status.by_phase.iter().map(phase_cells).collect();
    let causes: Vec<Vec<String>> =
        status.by_phase.iter().filter(|phase| phase.variance.total_usd != Usd::ZERO).map(cause_cells).collect();
    [
        section("What the budget has to keep", rules_text::columns(), rules_text::rows(&status.rules)),
        section(
            "What stands out",
            vec![Column::left("run", 0), Column::left("what", 0), Column::right("cost", 0)],
            status.anomalies.iter().map(anomaly).collect(),
        ),
        rows("By month", "month", &status.by_month),
        rows("By team", "team", &status.by_team),
        rows("By project", "project", &status.by_project),
        section("By phase", phase_columns(), phases),
        section("Why more or less was spent than planned by now", cause_columns(), causes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn columns(name: &'static str, has_budget: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::left(name, 0),
        Column::right("planned", 0),
        Column::right("spent", 0),
        Column::right("to go", 0),
        Column::right("committed", 110),
        Column::right("at completion", 0),
    ];
    if has_budget {
        columns.extend([Column::right("budget", 0), Column::right("kept with", 0)]);
    }
    columns
}

fn cells(row: &StatusRow, has_budget: bool) -> Vec<String> {
    let mut cells = vec![row.name.clone()];
    let amounts = [row.planned_usd, row.spent_usd, row.to_go_usd, row.committed_usd, row.at_completion_usd];
    cells.extend(amounts.map(amount));
    if has_budget {
        cells.push(row.budget_usd.map_or_else(|| "-".to_owned(), format::usd));
        cells.push(row.chance_within_budget.map_or_else(|| "-".to_owned(), format::probability));
    }
    cells
}

fn phase_columns() -> Vec<Column> {
    vec![
        Column::left("phase", 0),
        Column::right("done", 0),
        Column::right("planned", 0),
        Column::right("spent", 0),
        Column::right("to go", 0),
        Column::right("at completion", 0),
    ]
}

fn phase_cells(phase: &PhaseStatus) -> Vec<String> {
    let row = &phase.row;
    let late = if phase.is_late { ", late" } else { "" };
    let mut cells = vec![row.name.clone(), format!("{:.1} of {}{late}", phase.done, phase.repeats)];
    cells.extend([row.planned_usd, row.spent_usd, row.to_go_usd, row.at_completion_usd].map(amount));
    cells
}

/// What prepaid machines took the place of may be more than what they cost.
fn amount(usd: Usd) -> String {
    if usd < Usd::ZERO { format::change(usd) } else { format::usd(usd) }
}

fn cause_columns() -> Vec<Column> {
    vec![
        Column::left("phase", 0),
        Column::right("difference", 0),
        Column::right("timing", 0),
        Column::right("rate", 0),
        Column::right("hours", 0),
        Column::right("machines", 100),
        Column::right("lost work", 100),
        Column::right("idle", 100),
        Column::right("bill", 120),
        Column::right("other", 120),
    ]
}

fn cause_cells(phase: &PhaseStatus) -> Vec<String> {
    let variance = &phase.variance;
    let amounts = [
        variance.total_usd,
        variance.timing_usd,
        variance.rate_usd,
        variance.hours_usd,
        variance.machines_usd,
        variance.lost_work_usd,
        variance.idle_usd,
        variance.bill_usd,
        variance.other_usd,
    ];
    std::iter::once(phase.row.name.clone()).chain(amounts.map(format::change)).collect()
}

fn anomaly(anomaly: &Anomaly) -> Vec<String> {
    vec![anomaly.run.clone(), what_stands_out(anomaly), format::usd(anomaly.usd)]
}

/// The same in a sentence.
pub fn anomaly_words(anomaly: &Anomaly) -> String {
    format!("{}: {} ({})", anomaly.run, what_stands_out(anomaly), format::usd(anomaly.usd))
}

fn what_stands_out(anomaly: &Anomaly) -> String {
    match anomaly.kind {
        AnomalyKind::FarOverForecast => {
            format!("cost {:.1} times its forecast", anomaly.times_forecast.unwrap_or_default())
        }
        AnomalyKind::IdleMachines => format!("machines were idle for {:.1} h", anomaly.idle_hours.unwrap_or_default()),
        AnomalyKind::NotPlanned => "belongs to no phase of the portfolio".to_owned(),
        AnomalyKind::Late => "its months are over, and it is not done".to_owned(),
    }
}
