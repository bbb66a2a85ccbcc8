//! The report on a budget: many runs over months, as `gpuplan budget FILE --output json` wrote it.

mod carbon;
pub mod course;
mod lines;
pub mod rules;
mod runs;

use std::cmp::Reverse;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::finance::money::Money;
use crate::page::budget::carbon::Footprint;
use crate::page::budget::course::Cumulative;
use crate::page::budget::lines::{BudgetLine, money};
use crate::page::budget::runs::PhaseFigures;
use crate::page::chart::{Chart, ChartKind, Range, RangeChart, Swing, SwingChart};
use crate::page::document::{Cell, Column, Figure, KeyFigure, Report, Section, Table, day, day_and_time};
use gpuplan_budget::exchange::Exchange;
use gpuplan_budget::portfolio::verdict::RuleResult;
use gpuplan_units::{Quantiles, Usd};

/// The version that is read.
const VERSION: u64 = 1;

/// Why a document is not a budget that can be reported on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetDocumentError {
    #[error(
        "this budget has version {found}, written by a newer gpuplan; this program reads version {VERSION}: \
         update gpuplan, or make the budget again with this one"
    )]
    Newer { found: u64 },
    #[error("it is not a budget of this program: {detail}")]
    Malformed { detail: String },
}

/// What a report takes from it. What a budget lacks may be absent.
#[derive(Clone, Debug, Deserialize)]
pub struct Budget {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    generated_at: Option<Timestamp>,
    #[serde(default)]
    exchange: Option<Exchange>,
    #[serde(default)]
    tax: Option<String>,
    total: CostGroup,
    #[serde(default)]
    by_month: Vec<CostGroup>,
    #[serde(default)]
    by_team: Vec<CostGroup>,
    #[serde(default)]
    by_cloud: Vec<CostGroup>,
    #[serde(default)]
    by_gpu: Vec<CostGroup>,
    #[serde(default)]
    cumulative: Vec<Cumulative>,
    #[serde(default)]
    footprint: Option<Footprint>,
    #[serde(default)]
    phases: Vec<PhaseFigures>,
    #[serde(default)]
    commitments: Vec<CommitmentFigures>,
    #[serde(default)]
    rules: Vec<RuleResult>,
    #[serde(default)]
    sensitivity: Vec<SensitivityBar>,
    #[serde(default)]
    lines: Vec<BudgetLine>,
    #[serde(default)]
    assumptions: Vec<String>,
}

/// The whole, or what falls on one month, team, cloud or GPU.
#[derive(Clone, Debug, Deserialize)]
struct CostGroup {
    #[serde(default)]
    name: String,
    cost_usd: Quantiles<Usd>,
    #[serde(default)]
    budget_usd: Option<Usd>,
    #[serde(default)]
    chance_within_budget: Option<f64>,
    /// Of the whole alone.
    #[serde(default)]
    price_age: Option<PriceAge>,
    /// Of the whole alone.
    #[serde(default)]
    mean_of_draws_usd: Option<Usd>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PriceAge {
    older_than_days: f64,
    older_share: f64,
    oldest: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
struct CommitmentFigures {
    name: String,
    kind: String,
    paid_usd: String,
    saved_usd: String,
    expected_use: f64,
    chance_of_loss: f64,
}

/// One thing that may turn out otherwise, and the dollars that it adds (negative: saves) at either end.
#[derive(Clone, Debug, Deserialize)]
struct SensitivityBar {
    what: String,
    #[serde(default)]
    low: String,
    #[serde(default)]
    high: String,
    low_usd: String,
    high_usd: String,
    #[serde(default)]
    basis: String,
}

/// A document of `budget`, of either kind, in the version that this program writes.
pub fn read_versioned<T: DeserializeOwned>(document: Value) -> Result<T, BudgetDocumentError> {
    match document.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(found) if found > VERSION => return Err(BudgetDocumentError::Newer { found }),
        _ => return Err(BudgetDocumentError::Malformed { detail: format!("`version` is not {VERSION}") }),
    }
    serde_json::from_value(document).map_err(|error| BudgetDocumentError::Malformed { detail: error.to_string() })
}

/// Whether a JSON document is a budget and no plan.
pub fn is_budget(document: &Value) -> bool {
    document.get("total").is_some() && document.get("lines").is_some()
}

impl Budget {
    pub fn read(document: Value) -> Result<Self, BudgetDocumentError> {
        read_versioned(document)
    }

    fn shown(&self) -> Money<'_> {
        Money::in_currency(self.exchange.as_ref())
    }
}

/// What the amounts of a page are.
pub fn in_words(shown: Money, tax: &str) -> String {
    format!("Money is in {}; tax: {tax}.", shown.name())
}

fn key(budget: &Budget) -> Vec<KeyFigure> {
    let shown = budget.shown();
    let cost = budget.total.cost_usd;
    let mut key = vec![
        KeyFigure {
            name: "Expected cost",
            value: shown.usd(cost.expected),
            note: format!("middle case {}", shown.usd(cost.p50)),
        },
        KeyFigure { name: "Nine of ten cases", value: format!("≤ {}", shown.usd(cost.p90)), note: "cost".to_owned() },
    ];
    key.extend(budget.total.budget_usd.map(|limit| {
        KeyFigure {
            name: "Budget",
            value: shown.usd(limit),
            note: budget
                .total
                .chance_within_budget
                .map_or_else(String::new, |likely| format!("{} chance to keep it", chance(likely))),
        }
    }));
    key.extend(budget.total.price_age.and_then(|age| {
        let oldest = age.oldest?;
        Some(KeyFigure {
            name: "On old prices",
            value: format!("{:.0} %", age.older_share * 100.0),
            note: format!("of the cost, older than {:.0} days; the oldest is of {}", age.older_than_days, day(oldest)),
        })
    }));
    key
}

pub fn report(budget: &Budget, now: Timestamp) -> Report {
    let shown = budget.shown();
    let mut sections = vec![summary(budget)];
    sections.extend(rules::section(&budget.rules, shown));
    let mut missing = Vec::new();
    let groups = [
        ("by-month", "By month", &budget.by_month),
        ("by-team", "By team", &budget.by_team),
        ("by-cloud", "By cloud", &budget.by_cloud),
        ("by-gpu", "By GPU", &budget.by_gpu),
    ];
    for (id, heading, parts) in groups {
        if parts.is_empty() {
            missing.push(format!("{heading}: the budget does not say it"));
        } else {
            // Months in their order, everything else by what it costs.
            let mut parts: Vec<&CostGroup> = parts.iter().collect();
            if id != "by-month" {
                parts.sort_by_key(|part| Reverse(part.cost_usd.expected));
            }
            let mut section = group(id, heading, &parts, shown);
            if id == "by-month" {
                section.figures.extend(course::by_team(&budget.lines, shown));
                section.figures.extend(course::added_up(&budget.cumulative, budget.total.budget_usd, shown));
            }
            sections.push(section);
        }
    }
    if !budget.phases.is_empty() {
        sections.push(runs::section(&budget.phases, budget.shown()));
    }
    if !budget.commitments.is_empty() {
        sections.push(commitments(budget));
    }
    if budget.sensitivity.iter().any(|bar| bar.low_usd != bar.high_usd) {
        sections.push(sensitivity(budget));
    }
    sections.extend(budget.footprint.as_ref().map(carbon::section));
    sections.push(lines::section(&budget.lines, shown));
    let tax = budget.tax.as_deref().unwrap_or("not stated");
    let mut points: Vec<String> = budget.assumptions.clone();
    points.push(in_words(shown, tax));
    sections.push(Section { id: "assumptions", heading: "Assumptions and sources", points, ..Section::default() });
    if !missing.is_empty() {
        sections.push(Section { id: "not-shown", heading: "What is not shown", points: missing, ..Section::default() });
    }
    let made = budget.generated_at.map_or(String::new(), |at| format!(" made on {}", day_and_time(at)));
    let title = budget.name.clone().unwrap_or_else(|| "Budget".to_owned());
    let key = key(budget);
    Report {
        title,
        lead: format!("A budget{made}, {} lines{}.", budget.lines.len(), shown.aside()),
        made_at: now,
        key,
        sections,
    }
}

/// From draws, which say neither never nor always.
pub fn chance(share: f64) -> String {
    match share {
        share if share > 0.99 => "> 99 %".to_owned(),
        share if share < 0.01 => "< 1 %".to_owned(),
        share => format!("{:.0} %", share * 100.0),
    }
}

pub fn chance_cell(share: f64) -> Cell {
    Cell::new(chance(share), share.to_string())
}

fn summary(budget: &Budget) -> Section {
    let shown = budget.shown();
    let cost = budget.total.cost_usd;
    let mut text = vec![format!(
        "All runs together are expected to cost {}. In nine of ten cases they cost no more than {}.",
        shown.usd(cost.expected),
        shown.usd(cost.p90)
    )];
    let average = budget.total.mean_of_draws_usd.and_then(|mean| shown.average(cost.expected, mean));
    text.extend(average.map(|words| format!("{words}.")));
    if let (Some(limit), Some(likely)) = (budget.total.budget_usd, budget.total.chance_within_budget) {
        text.push(format!("The budget of {} is kept with a chance of {}.", shown.usd(limit), chance(likely)));
    }
    text.extend(rules::broken(&budget.rules));
    Section { id: "summary", heading: "Summary", text, ..Section::default() }
}

fn group(id: &'static str, heading: &'static str, parts: &[&CostGroup], shown: Money) -> Section {
    let has_budget = parts.iter().any(|part| part.budget_usd.is_some());
    let range = |part: &CostGroup| Range {
        name: part.name.clone(),
        words: format!("{} to {}", shown.usd(part.cost_usd.p50), shown.usd(part.cost_usd.p90)),
        median: shown.value(part.cost_usd.p50),
        p90: shown.value(part.cost_usd.p90),
        expected: shown.value(part.cost_usd.expected),
        is_best: true,
    };
    let chart = Chart::new(
        format!(
            "{heading}: from the middle case to nine of ten, with a mark at the expected cost{}",
            if has_budget { " and a line at the budget" } else { "" }
        ),
        format!(
            "{} bars from the 50th to the 90th percentile of cost, each with a mark at the expected cost{}, on an axis from zero.",
            parts.len(),
            if has_budget { " and a line at its budget" } else { "" }
        ),
        ChartKind::Ranges(RangeChart {
            ranges: parts.iter().copied().map(range).collect(),
            limits: parts.iter().map(|part| part.budget_usd.map(|usd| shown.value(usd))).collect(),
            is_from_zero: true,
        }),
    )
    .in_currency(shown.currency());
    let row = |part: &CostGroup| {
        let mut cells = vec![Cell::text(&*part.name)];
        cells.extend([part.cost_usd.p50, part.cost_usd.expected, part.cost_usd.p90].map(|usd| Cell::money(usd, shown)));
        if has_budget {
            cells.push(part.budget_usd.map_or_else(Cell::none, |usd| Cell::money(usd, shown)));
            cells.push(part.chance_within_budget.map_or_else(Cell::none, chance_cell));
        }
        cells
    };
    let mut columns = vec![
        Column::text("name", "Name"),
        Column::number("cost_usd_p50", "Middle case (p50)"),
        Column::number("cost_usd_expected", "Expected (mean)"),
        Column::number("cost_usd_p90", "Nine of ten (p90)"),
    ];
    if has_budget {
        columns.push(Column::number("budget_usd", "Budget"));
        columns.push(Column::number("chance_within_budget", "Chance to keep it"));
    }
    let table = Table {
        id,
        caption: format!("{heading}: percentiles of the cost; those of several do not add up"),
        columns,
        rows: parts.iter().copied().map(row).collect(),
    };
    Section { id: section_id(id), heading, figures: vec![Figure { chart: Some(chart), table }], ..Section::default() }
}

/// A table and its section must not share an id.
fn section_id(table: &str) -> &'static str {
    match table {
        "by-month" => "months",
        "by-team" => "teams",
        "by-cloud" => "clouds",
        _ => "gpus",
    }
}

fn commitments(budget: &Budget) -> Section {
    let shown = budget.shown();
    let row = |commitment: &CommitmentFigures| {
        vec![
            Cell::text(&*commitment.name),
            Cell::text(&*commitment.kind),
            money(&commitment.paid_usd, shown),
            Cell::share(commitment.expected_use),
            money(&commitment.saved_usd, shown),
            chance_cell(commitment.chance_of_loss),
        ]
    };
    let table = Table {
        id: "commitment",
        caption: "Paid whether used or not; what is saved is against renting the same hours on demand".to_owned(),
        columns: vec![
            Column::text("name", "Commitment"),
            Column::text("kind", "Kind"),
            Column::number("paid_usd", "Paid"),
            Column::number("expected_use", "Used"),
            Column::number("saved_usd", "Saves"),
            Column::number("chance_of_loss", "Loses with"),
        ],
        rows: budget.commitments.iter().map(row).collect(),
    };
    Section {
        id: "commitments",
        heading: "Commitments",
        figures: vec![Figure { chart: None, table }],
        ..Section::default()
    }
}

fn sensitivity(budget: &Budget) -> Section {
    let shown = budget.shown();
    // What moves nothing is in the JSON.
    let moving = || budget.sensitivity.iter().filter(|bar| bar.low_usd != bar.high_usd);
    let row = |bar: &SensitivityBar| {
        vec![
            Cell::text(&*bar.what),
            Cell::text(&*bar.low),
            money(&bar.low_usd, shown),
            Cell::text(&*bar.high),
            money(&bar.high_usd, shown),
            Cell::text(&*bar.basis),
        ]
    };
    let table = Table {
        id: "levers",
        caption: "What each adds to the total, or saves where negative; the widest first".to_owned(),
        columns: vec![
            Column::text("what", "What"),
            Column::text("low", "At best"),
            Column::number("low_usd", "Adds"),
            Column::text("high", "At worst"),
            Column::number("high_usd", "Adds"),
            Column::text("basis", "Rests on"),
        ],
        rows: moving().map(row).collect(),
    };
    let dollars = |text: &str| Usd::parse_signed(text).unwrap_or_default();
    let swing = |bar: &SensitivityBar| Swing {
        name: bar.what.clone(),
        words: format!("{} to {}", shown.change(dollars(&bar.low_usd)), shown.change(dollars(&bar.high_usd))),
        low: shown.value(dollars(&bar.low_usd)),
        high: shown.value(dollars(&bar.high_usd)),
    };
    let chart = Chart::new(
        "What each adds to the total (strong) or saves (faint), from a middle line at the expected cost",
        format!("{} bars to both sides of a middle line, as long as what they add or save.", table.rows.len()),
        ChartKind::Swings(SwingChart { swings: moving().map(swing).collect() }),
    )
    .in_currency(shown.currency());
    Section {
        id: "sensitivity",
        heading: "What the total depends on",
        figures: vec![Figure { chart: Some(chart), table }],
        ..Section::default()
    }
}
