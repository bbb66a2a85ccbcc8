//! The months of a budget: all of them added up against the budget, and each divided by team.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::finance::money::Money;
use crate::page::budget::lines::BudgetLine;
use crate::page::chart::{Chart, ChartKind, LineChart, Quantity, Series, Stack, StackChart, Stroke};
use crate::page::document::{Cell, Column, Figure, Table};
use gpuplan_budget::portfolio::calendar::Month;
use gpuplan_units::{Quantiles, Usd};

/// What no team alone pays.
pub const SHARED: &str = "shared";

/// Everything until the end of a month.
#[derive(Clone, Debug, Deserialize)]
pub struct Cumulative {
    pub month: String,
    pub cost_usd: Quantiles<Usd>,
}

/// A line through the ends of the months, from nothing at their beginning.
pub fn months_added_up(name: &str, stroke: Stroke, ends: impl Iterator<Item = Usd>, shown: Money) -> Series {
    let points = ends.enumerate().map(|(at, sum)| ((at + 1) as f64, shown.value(sum)));
    Series { name: name.to_owned(), stroke, points: std::iter::once((0.0, 0.0)).chain(points).collect() }
}

/// The budget over so many months.
pub fn level(limit: Usd, months: usize, shown: Money) -> Series {
    let points = vec![(0.0, shown.value(limit)), (months as f64, shown.value(limit))];
    Series { name: "budget".to_owned(), stroke: Stroke::Dashed, points }
}

/// A chart of lines over the months from this one.
pub fn lines_over_months(title: &str, description: String, first: &str, series: Vec<Series>, shown: Money) -> Chart {
    let lines = LineChart {
        // A document of another program may call its months otherwise.
        time: Month::parse(first).map_or(Quantity::Hours, Quantity::Months),
        x_name: "until the end of the month".to_owned(),
        y_name: shown.unit(),
        begins_at_zero: true,
        series,
    };
    Chart::new(title, description, ChartKind::Lines(lines)).in_currency(shown.currency())
}

/// `None`: a budget of before this was in it, or of one month.
pub fn added_up(months: &[Cumulative], budget: Option<Usd>, shown: Money) -> Option<Figure> {
    let last = months.last().filter(|_| months.len() > 1)?;
    let mut series = vec![
        months_added_up("nine of ten (p90)", Stroke::DashDotted, months.iter().map(|until| until.cost_usd.p90), shown),
        months_added_up("expected (mean)", Stroke::Solid, months.iter().map(|until| until.cost_usd.expected), shown),
    ];
    series.extend(budget.map(|limit| level(limit, months.len(), shown)));
    let chart = lines_over_months(
        "All months added up, expected and in nine of ten cases, against the budget",
        format!(
            "Lines over {} months from zero to {} expected, {} in nine of ten cases.",
            months.len(),
            shown.usd(last.cost_usd.expected),
            shown.usd(last.cost_usd.p90)
        ),
        &months[0].month,
        series,
        shown,
    );
    let row = |until: &Cumulative| {
        let costs =
            [until.cost_usd.p50, until.cost_usd.expected, until.cost_usd.p90].map(|usd| Cell::money(usd, shown));
        std::iter::once(Cell::text(&*until.month)).chain(costs).collect()
    };
    let table = Table {
        id: "cumulative",
        caption: "Until the end of each month, added up draw by draw".to_owned(),
        columns: vec![
            Column::text("month", "Month"),
            Column::number("cost_usd_p50", "Middle case (p50)"),
            Column::number("cost_usd_expected", "Expected (mean)"),
            Column::number("cost_usd_p90", "Nine of ten (p90)"),
        ],
        rows: months.iter().map(row).collect(),
    };
    Some(Figure { chart: Some(chart), table })
}

/// `None`: there is one team, or none is stated.
pub fn by_team(lines: &[BudgetLine], shown: Money) -> Option<Figure> {
    let mut months: BTreeMap<&str, BTreeMap<&str, Usd>> = BTreeMap::new();
    for line in lines {
        let (Some(month), Ok(cost)) = (line.month.as_deref(), Usd::parse_signed(&line.cost_usd)) else { continue };
        let sum = months.entry(month).or_default().entry(line.team.as_deref().unwrap_or(SHARED)).or_default();
        *sum = *sum + cost;
    }
    let mut teams: Vec<&str> = months.values().flat_map(BTreeMap::keys).copied().collect();
    // What no team alone pays comes last, so that teams lie side by side.
    teams.sort_unstable_by_key(|team| (*team == SHARED, *team));
    teams.dedup();
    if teams.len() < 2 {
        return None;
    }
    let stack = |(month, of_team): (&&str, &BTreeMap<&str, Usd>)| Stack {
        name: (*month).to_owned(),
        words: shown.usd(of_team.values().copied().sum()),
        parts: teams.iter().map(|team| of_team.get(team).map_or(0.0, |cost| shown.value(*cost).max(0.0))).collect(),
    };
    let chart = Chart::new(
        format!("Each month by team, from left to right: {} (strong and faint in turn)", teams.join(", ")),
        format!("{} bars of expected cost, divided by {} teams, on an axis from zero.", months.len(), teams.len()),
        ChartKind::Stacks(StackChart { stacks: months.iter().map(stack).collect() }),
    )
    .in_currency(shown.currency());
    let rows = months.iter().flat_map(|(month, of_team)| {
        of_team.iter().map(move |(team, cost)| vec![Cell::text(*month), Cell::text(*team), Cell::money(*cost, shown)])
    });
    let table = Table {
        id: "month-by-team",
        caption: "Expected cost by month and team".to_owned(),
        columns: vec![
            Column::text("month", "Month"),
            Column::text("team", "Team"),
            Column::number("cost_usd_expected", "Expected (mean)"),
        ],
        rows: rows.collect(),
    };
    Some(Figure { chart: Some(chart), table })
}
