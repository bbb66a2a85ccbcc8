//! `Footprint`: electricity of the machines of a budget and what it emits, beside the money and in no total.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::Item;
use crate::portfolio::lines::{BudgetLine, LineOrigin};
use crate::portfolio::planned::MACHINE_HOUR;
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_market::Market;
use gpuplan_plan::energy::Energy;
use gpuplan_units::Band;

/// All machines that runs use, over the hours that are paid. What is held and not used is not in it. Errors are taken to be one: limits add up.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Footprint {
    /// Kilowatt-hours with cooling and what else the buildings use.
    pub kwh: Band,
    /// Of all of `kwh` whose grid is known, kilograms of CO2-equivalents by location; null: it is known of none.
    pub co2e_kg: Option<Band>,
    /// Of `kwh`, as expected, what comes from a grid that is not known.
    pub kwh_of_unknown_grids: f64,
    /// Hours of machines of which the GPU is not stated or not known; they are in no other figure.
    pub machine_hours_of_unknown_gpus: f64,
    /// Most emissions first, then most electricity.
    pub phases: Vec<PhaseFootprint>,
}

/// Of one phase, all its times together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseFootprint {
    pub phase: String,
    pub kwh: Band,
    /// Null: of some of its machines it is not known where their electricity comes from.
    pub co2e_kg: Option<Band>,
}

/// GPUs of a machine, a slice being a part of one, and the rated watts of one. `None`: not known.
fn rated(line: &BudgetLine, hardware: &Hardware) -> Option<(f64, f64)> {
    let machines = &line.machines;
    let named = machines.instance_type.as_deref();
    if let Some(id) = named.and_then(|name| hardware.find_instance(&CloudId::new(&machines.cloud), name)) {
        let node = &hardware.instance(id).node;
        return Some((node.gpus.as_f64(), hardware.gpu(node.gpu).tdp_watts));
    }
    let gpu = hardware.gpu(hardware.find_gpu(machines.gpu.as_deref()?)?);
    Some((f64::from(machines.gpus_per_node?), gpu.tdp_watts))
}

/// Of the machine time in these lines; `names` are those of the phases in the order of the portfolio.
pub fn footprint(lines: &[BudgetLine], names: &[&str], hardware: &Hardware, market: &Market) -> Footprint {
    let mut phases: BTreeMap<usize, (Band, Option<Band>)> = BTreeMap::new();
    let mut footprint = Footprint {
        kwh: Band::default(),
        co2e_kg: None,
        kwh_of_unknown_grids: 0.0,
        machine_hours_of_unknown_gpus: 0.0,
        phases: Vec::new(),
    };
    for line in lines {
        let LineOrigin::Phase(at) = line.origin else { continue };
        let is_time = matches!(line.item, Item::Machines | Item::Fallback | Item::LostWork);
        if !is_time || line.amount.unit != MACHINE_HOUR {
            continue;
        }
        let hours = line.amount.quantity;
        let Some((gpus, watts)) = rated(line, hardware) else {
            footprint.machine_hours_of_unknown_gpus += hours;
            continue;
        };
        let place = line.machines.region.as_deref();
        let site = place.and_then(|region| market.sites.find(&CloudId::new(&line.machines.cloud), region));
        let energy = Energy::consumed(hours * gpus, watts, site);
        footprint.kwh = footprint.kwh.plus(energy.kwh);
        match energy.co2e_kg {
            Some(kg) => footprint.co2e_kg = Some(footprint.co2e_kg.unwrap_or_default().plus(kg)),
            None => footprint.kwh_of_unknown_grids += energy.kwh.expected,
        }
        let (kwh, kg) = phases.entry(at).or_insert((Band::default(), Some(Band::default())));
        *kwh = kwh.plus(energy.kwh);
        *kg = kg.zip(energy.co2e_kg).map(|(sum, kg)| sum.plus(kg));
    }
    let of_phase = |(at, (kwh, co2e_kg)): (usize, (Band, Option<Band>))| PhaseFootprint {
        phase: names[at].to_owned(),
        kwh,
        co2e_kg,
    };
    footprint.phases = phases.into_iter().map(of_phase).collect();
    let size = |phase: &PhaseFootprint| (phase.co2e_kg.map_or(0.0, |kg| kg.expected), phase.kwh.expected);
    footprint.phases.sort_by(|one, other| {
        let ((kg, kwh), (other_kg, other_kwh)) = (size(one), size(other));
        other_kg.total_cmp(&kg).then(other_kwh.total_cmp(&kwh))
    });
    footprint
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portfolio::calendar::Month;
    use crate::portfolio::lines::{LineAmount, LineMachines, shared_line};
    use gpuplan_units::Usd;

    /// Hours of machines of a phase in a place.
    fn line(at: usize, item: Item, hours: f64, machines: (&str, &str, &str)) -> BudgetLine {
        let month = Month::parse("2027-01").unwrap();
        let (cloud, region, instance) = machines;
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        BudgetLine {
            machines: LineMachines {
                cloud: cloud.to_owned(),
                region: given(region),
                instance_type: given(instance),
                ..LineMachines::default()
            },
            amount: LineAmount { quantity: hours, unit: MACHINE_HOUR.to_owned(), ..LineAmount::default() },
            ..shared_line(month, item, Usd::ZERO, LineOrigin::Phase(at))
        }
    }

    #[test]
    fn machine_time_is_electricity_and_what_is_unknown_is_counted_apart() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let (virginia, france) = (("aws", "us-east-1", "p5.48xlarge"), ("gcp", "europe-west9", "a3-highgpu-8g"));
        let lines = [
            line(0, Item::Machines, 90.0, virginia),
            line(0, Item::LostWork, 10.0, virginia),
            line(1, Item::Machines, 100.0, france),
            line(2, Item::Machines, 50.0, ("aws", "", "p5.48xlarge")),
            line(2, Item::Machines, 7.0, ("a colo", "", "")),
            // Neither disks nor a change of prices draw power.
            line(0, Item::Disk, 1e6, virginia),
            line(0, Item::Other, 1e6, virginia),
        ];
        let found = footprint(&lines, &["one", "two", "three"], &hardware, &market);
        // 100 h x 8 x 0.7 kW x 1.5 x a PUE of 1.15; of France the fleet's 1.09; 50 h where nobody says a place.
        let kwh = [560.0 * 1.5 * 1.15, 560.0 * 1.5 * 1.09, 280.0 * 1.5 * 1.25];
        assert!((found.kwh.expected - kwh.iter().sum::<f64>()).abs() < 1e-6, "{found:?}");
        assert!((found.kwh_of_unknown_grids - kwh[2]).abs() < 1e-6);
        assert_eq!(found.machine_hours_of_unknown_gpus, 7.0);
        let names: Vec<&str> = found.phases.iter().map(|phase| phase.phase.as_str()).collect();
        assert_eq!(names, ["one", "two", "three"], "most emissions first, then the unknown");
        assert_eq!(found.phases[2].co2e_kg, None, "unknown is not zero");
        let known: f64 = found.phases.iter().filter_map(|phase| phase.co2e_kg).map(|kg| kg.expected).sum();
        assert!((found.co2e_kg.unwrap().expected - known).abs() < 1e-9);
        let nothing = footprint(&lines[4..5], &["one", "two", "three"], &hardware, &market);
        assert_eq!((nothing.co2e_kg, nothing.kwh.expected, nothing.phases.len()), (None, 0.0, 0));
    }
}
