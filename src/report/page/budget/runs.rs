//! The runs of a budget: what each costs, and on what it runs for how long. Two tables, since one of both is wider than a page.

use std::cmp::Reverse;

use serde::Deserialize;

use crate::finance::money::Money;
use crate::page::budget::lines::money;
use crate::page::document::{Cell, Column, Figure, Section, Table};
use crate::text::format;
use gpuplan_units::{Quantiles, Usd};

/// A run, or one of its phases.
#[derive(Clone, Debug, Deserialize)]
pub struct PhaseFigures {
    phase: String,
    #[serde(default)]
    team: String,
    #[serde(default)]
    start: String,
    months: u32,
    repeats: u32,
    #[serde(default)]
    cloud: String,
    #[serde(default)]
    gpu: Option<String>,
    nodes: u32,
    #[serde(default)]
    purchase: String,
    pub cost_usd: Quantiles<Usd>,
    /// Signed.
    #[serde(default)]
    saved_usd: Option<String>,
    run_hours: Quantiles<f64>,
    #[serde(default)]
    gpu_utilization: Option<f64>,
}

pub fn section(phases: &[PhaseFigures], shown: Money) -> Section {
    let mut by_cost: Vec<&PhaseFigures> = phases.iter().collect();
    by_cost.sort_by_key(|phase| Reverse(phase.cost_usd.expected));
    let figures = [costs(&by_cost, shown), machines(&by_cost)];
    let figures = figures.map(|table| Figure { chart: None, table }).into();
    Section { id: "runs", heading: "Runs", figures, ..Section::default() }
}

fn costs(phases: &[&PhaseFigures], shown: Money) -> Table {
    let has_savings = phases.iter().any(|phase| phase.saved_usd.is_some());
    let row = |phase: &&PhaseFigures| {
        let mut cells = vec![
            Cell::text(&*phase.phase),
            Cell::text(&*phase.team),
            Cell::count(f64::from(phase.repeats)),
            Cell::money(phase.cost_usd.expected, shown),
            Cell::money(phase.cost_usd.p90, shown),
        ];
        if has_savings {
            cells.push(phase.saved_usd.as_deref().map_or_else(Cell::none, |text| money(text, shown)));
        }
        cells
    };
    let mut columns = vec![
        Column::text("phase", "Run"),
        Column::text("team", "Team"),
        Column::number("repeats", "Times"),
        Column::number("cost_usd_expected", "Expected (mean)"),
        Column::number("cost_usd_p90", "Nine of ten (p90)"),
    ];
    if has_savings {
        columns.push(Column::number("saved_usd", "Saved"));
    }
    let note = if has_savings { "; saved by spot and commitments" } else { "" };
    Table {
        id: "phase",
        caption: format!("Every run and phase, the dearest first{note}"),
        columns,
        rows: phases.iter().map(row).collect(),
    }
}

fn machines(phases: &[&PhaseFigures]) -> Table {
    let row = |phase: &&PhaseFigures| {
        vec![
            Cell::text(&*phase.phase),
            Cell::text(&*phase.start),
            Cell::count(f64::from(phase.months)),
            Cell::text(format::machines(phase.nodes, phase.gpu.as_deref(), &phase.cloud)),
            Cell::text(&*phase.purchase),
            Cell::hours(phase.run_hours.expected),
            phase.gpu_utilization.map_or_else(Cell::none, Cell::share),
        ]
    };
    Table {
        id: "phase-machines",
        caption: "On what each runs, and for how long".to_owned(),
        columns: vec![
            Column::text("phase", "Run"),
            Column::text("start", "From"),
            Column::number("months", "Months"),
            Column::text("machines", "Machines"),
            Column::text("purchase", "Terms"),
            Column::number("run_hours_expected", "Hours each"),
            Column::number("gpu_utilization", "GPUs busy"),
        ],
        rows: phases.iter().map(row).collect(),
    }
}
