//! The report on a budget against what was spent, as `gpuplan budget FILE --actual --output json` wrote it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::finance::money::Money;
use crate::page::budget::course::{Cumulative, SHARED, level, lines_over_months, months_added_up};
use crate::page::budget::{BudgetDocumentError, chance, chance_cell, in_words, read_versioned, rules};
use crate::page::chart::{Chart, ChartKind, Part, PartsChart, Stroke};
use crate::page::document::{Cell, Column, Figure, KeyFigure, Report, Section, Table, day};
use gpuplan_budget::exchange::Exchange;
use gpuplan_budget::portfolio::verdict::RuleResult;
use gpuplan_units::{Quantiles, Usd};

/// What a report takes from it.
#[derive(Clone, Debug, Deserialize)]
pub struct Status {
    name: String,
    generated_at: Timestamp,
    #[serde(default)]
    exchange: Option<Exchange>,
    tax: String,
    planned_from: String,
    total: Row,
    at_completion_usd: Quantiles<Usd>,
    by_month: Vec<Row>,
    #[serde(default)]
    cumulative: Vec<Cumulative>,
    by_team: Vec<Row>,
    by_project: Vec<Row>,
    by_phase: Vec<Phase>,
    billed_share: f64,
    #[serde(default)]
    anomalies: Vec<Anomaly>,
    #[serde(default)]
    rules: Vec<RuleResult>,
    #[serde(default)]
    assumptions: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    name: String,
    planned_usd: Usd,
    /// What was paid in advance may be less than what it took the place of.
    #[serde(with = "gpuplan_units::money::signed_usd")]
    spent_usd: Usd,
    #[serde(with = "gpuplan_units::money::signed_usd")]
    to_go_usd: Usd,
    #[serde(with = "gpuplan_units::money::signed_usd")]
    at_completion_usd: Usd,
    budget_usd: Option<Usd>,
    chance_within_budget: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Phase {
    #[serde(flatten)]
    row: Row,
    repeats: u32,
    done: f64,
    is_late: bool,
    /// Signed amounts by cause, as text.
    variance: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Anomaly {
    run: String,
    kind: String,
    usd: Usd,
    times_forecast: Option<f64>,
    idle_hours: Option<f64>,
}

/// Whether a JSON document is a budget against what was spent.
pub fn is_status(document: &Value) -> bool {
    document.get("at_completion_usd").is_some() && document.get("planned_from").is_some()
}

impl Status {
    pub fn read(document: Value) -> Result<Self, BudgetDocumentError> {
        read_versioned(document)
    }

    fn shown(&self) -> Money<'_> {
        Money::in_currency(self.exchange.as_ref())
    }
}

pub fn report(status: &Status, now: Timestamp) -> Report {
    let shown = status.shown();
    let Status { total, at_completion_usd: ends, .. } = status;
    let mut key = vec![
        KeyFigure {
            name: "Spent",
            value: shown.usd(total.spent_usd),
            note: format!("{:.0} % of it on imported bills", status.billed_share * 100.0),
        },
        KeyFigure {
            name: "At completion",
            value: shown.usd(total.at_completion_usd),
            note: format!("{} was planned", shown.usd(total.planned_usd)),
        },
        KeyFigure {
            name: "Nine of ten cases",
            value: format!("≤ {}", shown.usd(ends.p90)),
            note: format!("{} to go", shown.usd(total.to_go_usd)),
        },
    ];
    key.extend(total.budget_usd.map(|limit| {
        KeyFigure {
            name: "Budget",
            value: shown.usd(limit),
            note: total
                .chance_within_budget
                .map_or_else(String::new, |likely| format!("{} chance to keep it", chance(likely))),
        }
    }));
    let mut sections = vec![summary(status)];
    sections.extend(rules::section(&status.rules, shown));
    sections.push(course(status));
    let groups = [
        ("teams", "By team", "by-team", &status.by_team),
        ("projects", "By project", "by-project", &status.by_project),
    ];
    sections.extend(
        groups
            .into_iter()
            .filter(|(.., rows)| !rows.is_empty())
            .map(|(id, heading, table, rows)| group(id, heading, table, &dearest_first(rows), shown)),
    );
    sections.push(phases(status));
    sections.extend(causes(status));
    sections.extend(stands_out(status));
    let mut points = status.assumptions.clone();
    points.push(in_words(shown, &status.tax));
    sections.push(Section { id: "assumptions", heading: "Assumptions and sources", points, ..Section::default() });
    Report {
        title: status.name.clone(),
        lead: format!(
            "A budget against what was spent, as of {}{}; what was planned is from {}.",
            day(status.generated_at),
            shown.aside(),
            status.planned_from
        ),
        made_at: now,
        key,
        sections,
    }
}

fn summary(status: &Status) -> Section {
    let shown = status.shown();
    let total = &status.total;
    let more = total.at_completion_usd - total.planned_usd;
    let than = if more < Usd::ZERO { "less than" } else { "more than" };
    let mut text = vec![format!(
        "{} is spent and {} is to go. That is {} at completion, {} {than} planned; in nine of ten cases it is no more than {}.",
        shown.usd(total.spent_usd),
        shown.usd(total.to_go_usd),
        shown.usd(total.at_completion_usd),
        shown.usd(if more < Usd::ZERO { Usd::ZERO - more } else { more }),
        shown.usd(status.at_completion_usd.p90)
    )];
    if let (Some(limit), Some(likely)) = (total.budget_usd, total.chance_within_budget) {
        text.push(format!(
            "The budget of {} is kept with a chance of {}, given what was spent.",
            shown.usd(limit),
            chance(likely)
        ));
    }
    text.extend(rules::broken(&status.rules));
    Section { id: "summary", heading: "Summary", text, ..Section::default() }
}

/// The months one after another, and all of them added up.
fn course(status: &Status) -> Section {
    let shown = status.shown();
    let sum = |of: fn(&Row) -> Usd| {
        let mut all = Usd::ZERO;
        status.by_month.iter().map(move |row| {
            all = all + of(row);
            all
        })
    };
    let mut series = vec![
        months_added_up("planned", Stroke::Dotted, sum(|row| row.planned_usd), shown),
        months_added_up("spent and to go", Stroke::Solid, sum(|row| row.at_completion_usd), shown),
    ];
    if !status.cumulative.is_empty() {
        let ends = status.cumulative.iter().map(|until| until.cost_usd.p90);
        series.push(months_added_up("the same in nine of ten cases", Stroke::DashDotted, ends, shown));
    }
    series.extend(status.total.budget_usd.map(|limit| level(limit, status.by_month.len(), shown)));
    let chart = lines_over_months(
        "All months added up, against what was planned and the budget",
        format!(
            "Lines over {} months from zero to {}.",
            status.by_month.len(),
            shown.usd(status.total.at_completion_usd)
        ),
        status.by_month.first().map_or("the first month", |row| &row.name),
        series,
        shown,
    );
    let mut section = group("months", "By month", "by-month", &status.by_month, shown);
    let mut all = (Usd::ZERO, Usd::ZERO);
    let until: BTreeMap<&str, Usd> =
        status.cumulative.iter().map(|until| (until.month.as_str(), until.cost_usd.p90)).collect();
    let rows = status.by_month.iter().map(|row| {
        all = (all.0 + row.planned_usd, all.1 + row.at_completion_usd);
        let p90 = until.get(row.name.as_str()).map_or_else(Cell::none, |p90| Cell::money(*p90, shown));
        vec![Cell::text(&*row.name), Cell::money(all.0, shown), Cell::money(all.1, shown), p90]
    });
    let table = Table {
        id: "cumulative",
        caption: "Until the end of each month".to_owned(),
        columns: vec![
            Column::text("name", "Month"),
            Column::number("planned_usd", "Planned"),
            Column::number("at_completion_usd", "Spent and to go"),
            Column::number("at_completion_usd_p90", "In nine of ten cases"),
        ],
        rows: rows.collect(),
    };
    section.figures.push(Figure { chart: Some(chart), table });
    section
}

const SHARED_WORDS: &str = "shared: what reservations, savings plans and prepaid machines cost in months that are over, less the charges that \
    they took the place of; and what is to come of it.";

/// A row, against its budget, or what was planned where it has none.
fn parts(row: &Row, shown: Money) -> Part {
    Part {
        name: row.name.clone(),
        words: format!(
            "{} of {}",
            shown.usd(row.at_completion_usd),
            shown.usd(row.budget_usd.unwrap_or(row.planned_usd))
        ),
        done: shown.value(row.spent_usd).max(0.0),
        ahead: shown.value(row.to_go_usd).max(0.0),
        limit: Some(shown.value(row.budget_usd.unwrap_or(row.planned_usd))),
    }
}

fn dearest_first(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| Reverse(row.at_completion_usd));
    rows
}

fn group(id: &'static str, heading: &'static str, table: &'static str, rows: &[Row], shown: Money) -> Section {
    let has_budget = rows.iter().any(|row| row.budget_usd.is_some());
    let chart = Chart::new(
        format!(
            "{heading}: spent (strong), to go (faint), and a line at the budget, or at the plan where there is none"
        ),
        format!("{} bars of what is spent and what is to go, on an axis from zero.", rows.len()),
        ChartKind::Parts(PartsChart { parts: rows.iter().map(|row| parts(row, shown)).collect() }),
    )
    .in_currency(shown.currency());
    let cells = |row: &Row| {
        let mut cells = vec![Cell::text(&*row.name)];
        cells.extend(
            [row.planned_usd, row.spent_usd, row.to_go_usd, row.at_completion_usd].map(|usd| Cell::money(usd, shown)),
        );
        if has_budget {
            cells.push(row.budget_usd.map_or_else(Cell::none, |usd| Cell::money(usd, shown)));
            cells.push(row.chance_within_budget.map_or_else(Cell::none, chance_cell));
        }
        cells
    };
    let mut columns = vec![
        Column::text("name", "Name"),
        Column::number("planned_usd", "Planned"),
        Column::number("spent_usd", "Spent"),
        Column::number("to_go_usd", "To go"),
        Column::number("at_completion_usd", "At completion"),
    ];
    if has_budget {
        columns.push(Column::number("budget_usd", "Budget"));
        columns.push(Column::number("chance_within_budget", "Chance to keep it"));
    }
    let caption = format!("{heading}: what is spent and to go adds up to what it is at completion");
    let table = Table { id: table, caption, columns, rows: rows.iter().map(cells).collect() };
    let is_shared = rows.iter().any(|row| row.name == SHARED);
    let text = if is_shared { vec![SHARED_WORDS.to_owned()] } else { Vec::new() };
    Section { id, heading, text, figures: vec![Figure { chart: Some(chart), table }], ..Section::default() }
}

fn phases(status: &Status) -> Section {
    let shown = status.shown();
    let cells = |phase: &Phase| {
        let late = if phase.is_late { ", late" } else { "" };
        let Row { name, planned_usd, spent_usd, to_go_usd, at_completion_usd, .. } = &phase.row;
        let mut cells = vec![
            Cell::text(&**name),
            Cell::new(format!("{:.1} of {}{late}", phase.done, phase.repeats), phase.done.to_string()),
        ];
        cells.extend([planned_usd, spent_usd, to_go_usd, at_completion_usd].map(|amount| Cell::money(*amount, shown)));
        cells
    };
    let mut phases: Vec<&Phase> = status.by_phase.iter().collect();
    phases.sort_by_key(|phase| Reverse(phase.row.at_completion_usd));
    let table = Table {
        id: "phase",
        caption: "Every run and phase, the dearest first".to_owned(),
        columns: vec![
            Column::text("phase", "Run"),
            Column::number("done", "Done"),
            Column::number("planned_usd", "Planned"),
            Column::number("spent_usd", "Spent"),
            Column::number("to_go_usd", "To go"),
            Column::number("at_completion_usd", "At completion"),
        ],
        rows: phases.into_iter().map(cells).collect(),
    };
    Section { id: "runs", heading: "Runs", figures: vec![Figure { chart: None, table }], ..Section::default() }
}

/// `None`: all was spent as it was planned.
fn causes(status: &Status) -> Option<Section> {
    const NAMES: [(&str, &str); 9] = [
        ("total_usd", "Difference"),
        ("timing_usd", "Timing"),
        ("rate_usd", "Rate"),
        ("hours_usd", "Hours"),
        ("machines_usd", "Machines"),
        ("lost_work_usd", "Lost work"),
        ("idle_usd", "Idle"),
        ("bill_usd", "Bill"),
        ("other_usd", "Other"),
    ];
    let money = status.shown();
    let amount = |phase: &Phase, cause: &str| {
        phase.variance.get(cause).and_then(|text| Usd::parse_signed(text).ok()).unwrap_or_default()
    };
    let mut other: Vec<&Phase> =
        status.by_phase.iter().filter(|phase| amount(phase, "total_usd") != Usd::ZERO).collect();
    other.sort_by_key(|phase| Reverse(amount(phase, "total_usd").nanos().abs()));
    // A cause that explains nothing anywhere has no column.
    let is_shown = |cause: &str| other.iter().any(|phase| amount(phase, cause) != Usd::ZERO);
    let shown: Vec<(&'static str, &'static str)> = NAMES.into_iter().filter(|(cause, _)| is_shown(cause)).collect();
    let change = |amount: Usd| Cell::new(money.change(amount), amount.to_string());
    let cells = |phase: &&Phase| {
        let name = std::iter::once(Cell::text(&*phase.row.name));
        name.chain(shown.iter().map(|(cause, _)| change(amount(phase, cause)))).collect()
    };
    let mut columns = vec![Column::text("phase", "Run")];
    columns.extend(shown.iter().map(|(cause, name)| Column::number(cause, name)));
    let table = Table {
        id: "cause",
        caption: "Spent, less what was planned to be by now; the causes add up to it".to_owned(),
        columns,
        rows: other.iter().map(cells).collect(),
    };
    (!other.is_empty()).then(|| Section {
        id: "why",
        heading: "Why more or less was spent",
        figures: vec![Figure { chart: None, table }],
        ..Section::default()
    })
}

/// `None`: nothing does.
fn stands_out(status: &Status) -> Option<Section> {
    let shown = status.shown();
    let cells = |anomaly: &Anomaly| {
        let what = match anomaly.kind.as_str() {
            "far-over-forecast" => format!("{:.1} times its forecast", anomaly.times_forecast.unwrap_or_default()),
            "idle-machines" => format!("machines were idle for {:.1} h", anomaly.idle_hours.unwrap_or_default()),
            "not-planned" => "belongs to no phase of the portfolio".to_owned(),
            _ => "its months are over, and it is not done".to_owned(),
        };
        vec![Cell::text(&*anomaly.run), Cell::text(what), Cell::money(anomaly.usd, shown)]
    };
    let mut anomalies: Vec<&Anomaly> = status.anomalies.iter().collect();
    anomalies.sort_by_key(|anomaly| Reverse(anomaly.usd));
    let table = Table {
        id: "anomaly",
        caption: "Runs at three times their forecast, idle machines, runs that nobody planned, late phases".to_owned(),
        columns: vec![Column::text("run", "Run"), Column::text("what", "What"), Column::number("cost_usd", "Cost")],
        rows: anomalies.into_iter().map(cells).collect(),
    };
    (!status.anomalies.is_empty()).then(|| Section {
        id: "anomalies",
        heading: "What stands out",
        figures: vec![Figure { chart: None, table }],
        ..Section::default()
    })
}
