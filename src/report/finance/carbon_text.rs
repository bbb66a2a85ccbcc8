//! Electricity of the machines of a budget and what it emits, for a person.

use crate::finance::sections::Section;
use crate::sentences::energy::{carbon, electricity, left_out, unknown_parts};
use crate::text::table::{Column, footer};
use gpuplan_budget::portfolio::footprint::{Footprint, PhaseFootprint};

pub fn section(footprint: &Footprint, most: usize) -> Section {
    let row = |phase: &PhaseFootprint| vec![phase.phase.clone(), electricity(phase.kwh), carbon(phase.co2e_kg)];
    let mut rows: Vec<Vec<String>> = footprint.phases.iter().take(most).map(row).collect();
    rows.push(vec!["total".to_owned(), electricity(footprint.kwh), carbon(footprint.co2e_kg)]);
    let cut = footer(most.min(footprint.phases.len()), footprint.phases.len(), "--max-results shows more");
    let unknown = unknown_parts(footprint.kwh_of_unknown_grids, footprint.machine_hours_of_unknown_gpus);
    let unknown = unknown.map_or_else(String::new, |line| format!("{line}\n"));
    Section {
        title: "Energy and emissions, in no sum of money".to_owned(),
        columns: vec![Column::left("phase", 0), Column::left("electricity", 0), Column::left("emissions", 0)],
        rows,
        foot: format!("{cut}{unknown}{}\n", left_out()),
    }
}
