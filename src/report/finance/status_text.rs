//! A budget against what was spent, for a person: what it comes to first, then where, why, and what stands out.

use crate::finance::money::{EXCHANGE_COLUMNS, Money, exchange_cells};
use crate::finance::rules_text;
use crate::finance::sections::{self, Section};
use crate::text::csv_text::csv_text;
use crate::text::format;
use crate::text::json::pretty;
use crate::text::table::Column;
use gpuplan_budget::exchange::Exchange;
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

/// Besides, where the portfolio is in another currency.
const IN_CURRENCY: [&str; 6] = [
    "planned_in_currency",
    "spent_in_currency",
    "to_go_in_currency",
    "committed_in_currency",
    "at_completion_in_currency",
    "budget_in_currency",
];

/// Every row, by what it is of.
pub fn csv(status: &BudgetStatus) -> String {
    let mut rows = vec![("total", &status.total)];
    rows.extend(status.by_month.iter().map(|row| ("month", row)));
    rows.extend(status.by_team.iter().map(|row| ("team", row)));
    rows.extend(status.by_project.iter().map(|row| ("project", row)));
    rows.extend(status.by_phase.iter().map(|phase| ("phase", &phase.row)));
    let cells = rows.into_iter().map(|(by, row)| csv_cells(by, row, status.exchange.as_ref()));
    match &status.exchange {
        None => csv_text(&COLUMNS, cells),
        Some(_) => csv_text(&[&COLUMNS[..], &IN_CURRENCY, &EXCHANGE_COLUMNS].concat(), cells),
    }
}

fn csv_cells(by: &str, row: &StatusRow, exchange: Option<&Exchange>) -> Vec<String> {
    let amounts = [row.planned_usd, row.spent_usd, row.to_go_usd, row.committed_usd, row.at_completion_usd];
    let amounts: Vec<Option<Usd>> = amounts.into_iter().map(Some).chain([row.budget_usd]).collect();
    let text = |amount: Option<String>| amount.unwrap_or_default();
    let mut cells = vec![by.to_owned(), row.name.clone()];
    cells.extend(amounts.iter().map(|usd| text(usd.map(|usd| usd.to_string()))));
    cells.push(text(row.chance_within_budget.map(|chance| chance.to_string())));
    if let Some(exchange) = exchange {
        cells.extend(amounts.iter().map(|usd| text(usd.map(|usd| exchange.units(usd).to_string()))));
        cells.extend(exchange_cells(exchange));
    }
    cells
}

/// What a reader wants to know first, in lines.
pub fn head(status: &BudgetStatus) -> Vec<String> {
    let money = Money::in_currency(status.exchange.as_ref());
    let (total, cost) = (&status.total, status.at_completion_usd);
    let last = status.period.start.ahead(status.period.months).back();
    let tax =
        if status.tax == "excluded" { "tax excluded".to_owned() } else { format!("tax of {} included", status.tax) };
    let mut lines = vec![
        format!(
            "{}: {} to {last}, as of {}, {}, {tax}",
            status.name,
            status.period.start,
            status.generated_at.strftime("%Y-%m-%d"),
            money.name()
        ),
        format!(
            "{} spent and {} to go: {} at completion; with probability 0.9 under {}; {} was planned ({})",
            money.usd(total.spent_usd),
            money.usd(total.to_go_usd),
            money.usd(total.at_completion_usd),
            money.usd(cost.p90),
            money.usd(total.planned_usd),
            status.planned_from
        ),
    ];
    if let (Some(budget), Some(chance)) = (total.budget_usd, total.chance_within_budget) {
        let left = budget - total.spent_usd;
        let left = if left < Usd::ZERO {
            format!("{} more than it is spent", money.usd(Usd::ZERO - left))
        } else {
            format!("{} of it is left", money.usd(left))
        };
        lines.push(format!(
            "Budget of {}: kept with probability {}, given what was spent; {left}",
            money.usd(budget),
            format::probability(chance)
        ));
    }
    lines.push(format!("{:.0} % of what was spent is on imported bills", status.billed_share * 100.0));
    if status.other_runs > 0 {
        lines.push(format!(
            "{} runs in the ledger belong to no phase and no team of this portfolio ({}); they are left out: `launched_as` takes them in",
            status.other_runs,
            money.usd(status.other_usd)
        ));
    }
    lines
}

fn all(status: &BudgetStatus) -> Vec<Section> {
    let money = Money::in_currency(status.exchange.as_ref());
    let section = |title: &str, columns: Vec<Column>, rows: Vec<Vec<String>>| {
        (!rows.is_empty()).then(|| Section { title: title.to_owned(), columns, rows, foot: String::new() })
    };
    let rows = |title: &str, name: &'static str, rows: &[StatusRow]| {
        let has_budget = rows.iter().any(|row| row.budget_usd.is_some());
        section(title, columns(name, has_budget), rows.iter().map(|row| cells(row, has_budget, money)).collect())
    };
    let phases = status.by_phase.iter().map(|phase| phase_cells(phase, money)).collect();
    let causes: Vec<Vec<String>> = status
        .by_phase
        .iter()
        .filter(|phase| phase.variance.total_usd != Usd::ZERO)
        .map(|phase| cause_cells(phase, money))
        .collect();
    [
        section("What the budget has to keep", rules_text::columns(), rules_text::rows(&status.rules, money)),
        section(
            "What stands out",
            vec![Column::left("run", 0), Column::left("what", 0), Column::right("cost", 0)],
            status.anomalies.iter().map(|one| anomaly(one, money)).collect(),
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

fn cells(row: &StatusRow, has_budget: bool, money: Money) -> Vec<String> {
    let mut cells = vec![row.name.clone()];
    let amounts = [row.planned_usd, row.spent_usd, row.to_go_usd, row.committed_usd, row.at_completion_usd];
    cells.extend(amounts.map(|usd| money.usd(usd)));
    if has_budget {
        cells.push(row.budget_usd.map_or_else(|| "-".to_owned(), |amount| money.usd(amount)));
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

fn phase_cells(phase: &PhaseStatus, money: Money) -> Vec<String> {
    let row = &phase.row;
    let late = if phase.is_late { ", late" } else { "" };
    let mut cells = vec![row.name.clone(), format!("{:.1} of {}{late}", phase.done, phase.repeats)];
    cells.extend([row.planned_usd, row.spent_usd, row.to_go_usd, row.at_completion_usd].map(|usd| money.usd(usd)));
    cells
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

fn cause_cells(phase: &PhaseStatus, money: Money) -> Vec<String> {
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
    std::iter::once(phase.row.name.clone()).chain(amounts.map(|amount| money.change(amount))).collect()
}

fn anomaly(anomaly: &Anomaly, money: Money) -> Vec<String> {
    vec![anomaly.run.clone(), what_stands_out(anomaly), money.usd(anomaly.usd)]
}

/// The same in a sentence.
pub fn anomaly_words(anomaly: &Anomaly, money: Money) -> String {
    format!("{}: {} ({})", anomaly.run, what_stands_out(anomaly), money.usd(anomaly.usd))
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
