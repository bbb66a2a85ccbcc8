//! Electricity of the machines of a budget and what it emits, where the budget was asked for it.

use serde::Deserialize;

use crate::page::document::{Cell, Column, Figure, Section, Table};
use crate::sentences::energy::{carbon, electricity, left_out, unknown_parts};
use gpuplan_units::Band;

/// What the page takes from it.
#[derive(Clone, Debug, Deserialize)]
pub struct Footprint {
    kwh: Band,
    co2e_kg: Option<Band>,
    kwh_of_unknown_grids: f64,
    machine_hours_of_unknown_gpus: f64,
    phases: Vec<PhaseFootprint>,
}

#[derive(Clone, Debug, Deserialize)]
struct PhaseFootprint {
    phase: String,
    kwh: Band,
    co2e_kg: Option<Band>,
}

fn cells(band: Option<Band>) -> [Cell; 3] {
    let of = |of: fn(Band) -> f64| band.map_or_else(Cell::none, |band| Cell::count(of(band).round()));
    [of(|band| band.low), of(|band| band.expected), of(|band| band.high)]
}

pub fn section(footprint: &Footprint) -> Section {
    let row = |phase: &PhaseFootprint| {
        let name = std::iter::once(Cell::text(&*phase.phase));
        name.chain(cells(Some(phase.kwh))).chain(cells(phase.co2e_kg)).collect()
    };
    let table = Table {
        id: "energy",
        caption: "Kilowatt-hours with cooling, and kilograms of CO2-equivalents; in no sum of money".to_owned(),
        columns: vec![
            Column::text("phase", "Run"),
            Column::number("kwh_low", "kWh from"),
            Column::number("kwh_expected", "kWh"),
            Column::number("kwh_high", "kWh to"),
            Column::number("co2e_kg_low", "CO2e kg from"),
            Column::number("co2e_kg_expected", "CO2e kg"),
            Column::number("co2e_kg_high", "CO2e kg to"),
        ],
        rows: footprint.phases.iter().map(row).collect(),
    };
    let mut text = vec![format!("{}; {}.", electricity(footprint.kwh), carbon(footprint.co2e_kg))];
    text.extend(unknown_parts(footprint.kwh_of_unknown_grids, footprint.machine_hours_of_unknown_gpus));
    text.push(left_out().to_owned());
    Section {
        id: "electricity",
        heading: "Energy and emissions",
        text,
        figures: vec![Figure { chart: None, table }],
        ..Section::default()
    }
}
