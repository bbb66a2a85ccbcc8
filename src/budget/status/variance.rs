//! Why a phase has cost other than planned: the rate, the hours, the machines, lost work, idle machines, bills.

use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::{Charge, Item, Waste};
use crate::portfolio::Portfolio;
use crate::portfolio::planned::{MACHINE_HOUR, PhaseCost};
use crate::status::attribution::Attributed;
use gpuplan_units::Usd;

/// What was spent on a phase less what was planned to be by now. The causes add up to it, to the nano-dollar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Variance {
    /// All of it.
    pub total_usd: Usd,
    /// Done earlier than planned, or later where negative: the planned cost of what is done, less what was planned until now.
    pub timing_usd: Usd,
    /// Another price of a machine-hour.
    pub rate_usd: Usd,
    /// Longer on as many machines.
    pub hours_usd: Usd,
    /// More machines.
    pub machines_usd: Usd,
    /// Work that was done again or came to nothing, beyond what was planned of it.
    pub lost_work_usd: Usd,
    /// Machines on which nothing ran.
    pub idle_usd: Usd,
    /// What bills say above what runs recorded.
    pub bill_usd: Usd,
    /// Disks, storage, data and tax.
    pub other_usd: Usd,
}

pub fn variance(
    portfolio: &Portfolio,
    phase: usize,
    once: &PhaseCost,
    done: f64,
    attributed: &Attributed,
    planned_to_date: Usd,
) -> Variance {
    let empty = Vec::new();
    let charges = attributed.recorded.get(&phase).unwrap_or(&empty);
    let usd = |dollars: f64| Usd::from_dollars(dollars).unwrap_or(Usd::ZERO);
    let signed = |dollars: f64| if dollars < 0.0 { Usd::ZERO - usd(-dollars) } else { usd(dollars) };
    let taxed = |dollars: f64| signed(portfolio.tax.included(dollars));
    let total = attributed.of_phase(phase) - planned_to_date;
    let done_usd = taxed(once.cost.expected.dollars() * done);
    let bill = attributed.bill_above.get(&phase).copied().unwrap_or_default();
    let cost = |is_it: &dyn Fn(&Charge) -> bool| -> f64 {
        charges.iter().filter(|charge| is_it(charge)).map(|charge| charge.costs.effective.dollars()).sum()
    };
    let planned = |is_it: &dyn Fn(Item) -> bool| -> f64 {
        once.lines.iter().filter(|line| is_it(line.item)).map(|line| line.cost.dollars()).sum::<f64>() * done
    };
    let mut found =
        Variance { total_usd: total, timing_usd: done_usd - planned_to_date, bill_usd: bill, ..Variance::default() };
    if !charges.is_empty() {
        let is_waste = |charge: &Charge| matches!(charge.waste, Some(Waste::Redone | Waste::Failed));
        found.lost_work_usd = taxed(cost(&is_waste) - planned(&|item| item == Item::LostWork));
        found.idle_usd = taxed(cost(&|charge| charge.waste == Some(Waste::Idle)));
        let is_useful = |charge: &Charge| charge.waste.is_none() && charge.is_machine_time();
        let useful = cost(&is_useful);
        // Bills that do not count in hours, as Google's, say nothing of them.
        let in_hours = charges.iter().filter(|charge| is_useful(charge)).all(|charge| charge.unit == "hour");
        let timed = charges.iter().filter(|charge| in_hours && is_useful(charge));
        let hours: f64 = timed.map(|charge| charge.quantity).sum();
        let is_time = |item: Item| matches!(item, Item::Machines | Item::Fallback);
        let planned_useful = planned(&is_time);
        let planned_hours: f64 = once
            .lines
            .iter()
            .filter(|line| is_time(line.item) && line.unit == MACHINE_HOUR)
            .map(|line| line.quantity)
            .sum::<f64>()
            * done;
        if planned_hours > 0.0 && hours > 0.0 {
            let rate = planned_useful / planned_hours;
            let (planned_nodes, nodes) = (f64::from(once.machines.nodes), nodes(phase, attributed, once));
            let each = planned_hours / planned_nodes;
            found.machines_usd = taxed((nodes - planned_nodes) * each * rate);
            found.hours_usd = taxed((hours - nodes * each) * rate);
            found.rate_usd = taxed(useful - hours * rate);
        } else {
            found.rate_usd = taxed(useful - planned_useful);
        }
    }
    let explained = found.timing_usd
        + found.rate_usd
        + found.hours_usd
        + found.machines_usd
        + found.lost_work_usd
        + found.idle_usd
        + found.bill_usd;
    found.other_usd = total - explained;
    found
}

/// Machines at a time, on the mean of the runs that have ended; as planned where none has.
fn nodes(phase: usize, attributed: &Attributed, once: &PhaseCost) -> f64 {
    let known = attributed.known.get(&phase).into_iter().flatten();
    let nodes: Vec<f64> = known.filter_map(|run| run.actual).map(|actual| f64::from(actual.nodes)).collect();
    if nodes.is_empty() { f64::from(once.machines.nodes) } else { nodes.iter().sum::<f64>() / nodes.len() as f64 }
}
