//! Electricity and emissions in words.

use crate::text::format::{thousands, three_figures};
use gpuplan_plan::document::{EnergyRecord, PueRecord};
use gpuplan_plan::energy::{MACHINE_OVER_RATED, UNKNOWN_PUE};
use gpuplan_units::Band;

/// Three figures below a thousand.
fn count(number: f64) -> String {
    if number < 1000.0 { three_figures(number) } else { thousands(number.round() as i128) }
}

fn range(band: Band) -> String {
    format!("{} to {}", count(band.low), count(band.high))
}

/// `1,208 kWh (750 to 1,290)`.
pub fn electricity(kwh: Band) -> String {
    format!("{} kWh ({})", count(kwh.expected), range(kwh))
}

/// `447 kg of CO2e (275 to 485)`.
pub fn carbon(kg: Option<Band>) -> String {
    kg.map_or_else(
        || "what it emits is not known".to_owned(),
        |kg| format!("{} kg of CO2e ({})", count(kg.expected), range(kg)),
    )
}

/// What is in no figure of a budget, though it is not nothing.
pub fn unknown_parts(kwh_of_unknown_grids: f64, hours_of_unknown_gpus: f64) -> Option<String> {
    let grids = (kwh_of_unknown_grids > 0.0)
        .then(|| format!("the emissions of {} kWh whose grid is not known", count(kwh_of_unknown_grids)));
    let gpus = (hours_of_unknown_gpus > 0.0)
        .then(|| format!("the electricity of {} machine-hours whose GPU is not known", count(hours_of_unknown_gpus)));
    let parts: Vec<String> = grids.into_iter().chain(gpus).collect();
    (!parts.is_empty()).then(|| format!("In no figure, though not zero: {}.", parts.join(" and ")))
}

/// The boundary of every figure.
pub fn left_out() -> &'static str {
    "Left out: the making of the machines, storage and networks, and what clouds buy to match their consumption."
}

/// One line for the details of a plan.
pub fn line(energy: &EnergyRecord) -> String {
    let from = energy.grid.as_ref().map_or_else(String::new, |grid| format!(" with electricity of {}", grid.zone));
    format!("{}; {}{from}; in no total", electricity(energy.kwh), carbon(energy.co2e_kg))
}

/// What the electricity rests on, and what the emissions do, term by term with their sources.
pub fn terms(energy: &EnergyRecord) -> Vec<String> {
    let pue = match &energy.pue {
        Some(PueRecord { value, of, year, source }) => format!("a PUE of {value} ({of}, {year}; {source})"),
        None => format!(
            "a PUE of {} ({} to {}), since nobody publishes one",
            UNKNOWN_PUE.expected, UNKNOWN_PUE.low, UNKNOWN_PUE.high
        ),
    };
    let mut lines = vec![format!(
        "{}: {} W a GPU as rated, {} times that for the whole machine ({} to {}, as measured), {pue}",
        electricity(energy.kwh),
        energy.gpu_rated_watts,
        MACHINE_OVER_RATED.expected,
        MACHINE_OVER_RATED.low,
        MACHINE_OVER_RATED.high
    )];
    lines.push(match &energy.grid {
        Some(grid) => format!(
            "{}: {} g a kWh of {} ({}, by what power plants emit and with fuel and building; {})",
            carbon(energy.co2e_kg),
            count(grid.g_co2e_per_kwh.expected),
            grid.zone,
            range(grid.g_co2e_per_kwh),
            grid.sources.join(", ")
        ),
        None => "what it emits is not known: the catalog has no grid for this place".to_owned(),
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_bands_and_what_is_unknown_is_said() {
        let kwh = Band { low: 684.4, expected: 1207.5, high: 1288.0 };
        assert_eq!(electricity(kwh), "1,208 kWh (684 to 1,288)");
        assert_eq!(carbon(Some(Band { low: 1.234, expected: 2.5, high: 3.0 })), "2.5 kg of CO2e (1.23 to 3)");
        assert_eq!(carbon(None), "what it emits is not known");
        assert_eq!(unknown_parts(0.0, 0.0), None);
        let both = unknown_parts(1200.0, 5.0).unwrap();
        assert!(
            both.contains("the emissions of 1,200 kWh") && both.contains("the electricity of 5 machine-hours"),
            "{both}"
        );
        let energy = EnergyRecord { kwh, gpu_rated_watts: 700.0, pue: None, grid: None, co2e_kg: None };
        assert_eq!(line(&energy), "1,208 kWh (684 to 1,288); what it emits is not known; in no total");
        let terms = terms(&energy);
        assert!(terms[0].contains("700 W a GPU") && terms[0].contains("1.25 (1.04 to 1.63)"), "{terms:?}");
        assert!(terms[1].contains("no grid"), "{terms:?}");
    }
}
