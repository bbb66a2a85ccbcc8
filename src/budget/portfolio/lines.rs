//! The lines of a budget: every amount with quantity, rate, source, date and assumption.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::Item;
use crate::exchange::Units;
use crate::portfolio::Phase;
use crate::portfolio::calendar::Month;
use crate::portfolio::planned::{PhaseCost, PhaseCostLine, Placed};
use gpuplan_units::Usd;

/// A phase and what doing it once costs.
#[derive(Clone, Copy, Debug)]
pub struct CostedPhase<'a> {
    pub phase: &'a Phase,
    pub once: &'a PhaseCost,
    /// Repeats on machines that are held.
    pub placed: &'a [Placed],
}

impl CostedPhase<'_> {
    /// Repeats that are not on machines that are held.
    pub fn rented(&self) -> u32 {
        self.phase.repeats - self.placed.iter().map(|placed| placed.repeats).sum::<u32>()
    }
}

/// One amount of one month.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BudgetLine {
    /// The same in every budget of this portfolio, so that two can be compared.
    pub id: String,
    pub run: Option<String>,
    pub phase: Option<String>,
    /// Null: all teams share it.
    pub team: Option<String>,
    pub month: Month,
    pub item: Item,
    #[serde(flatten)]
    pub machines: LineMachines,
    #[serde(flatten)]
    pub amount: LineAmount,
    #[serde(flatten)]
    pub basis: LineBasis,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Which draws its percentiles come from.
    #[serde(skip)]
    pub origin: LineOrigin,
}

/// What is rented, where and on what terms; null: not stated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LineMachines {
    pub cloud: String,
    pub region: Option<String>,
    pub zone_id: Option<String>,
    pub instance_type: Option<String>,
    pub gpu: Option<String>,
    pub gpus_per_node: Option<u32>,
    pub purchase: Option<String>,
}

/// How much of it, and what that costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LineAmount {
    pub quantity: f64,
    pub unit: String,
    pub unit_price_usd: Usd,
    pub cost_usd: Usd,
    /// The same in the currency of `exchange`: all lines together are the total in it, to the billionth. Absent: dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_in_currency: Option<Units>,
    /// What the same machines would cost on demand, where a commitment covers them or they are on spot; absent elsewhere, and where it is
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_usd: Option<Usd>,
    /// Percentiles of this line alone; those of several do not add up.
    pub p50_usd: Usd,
    pub p90_usd: Usd,
}

/// What an amount rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LineBasis {
    /// Of the price.
    pub source: String,
    pub priced_at: Option<Timestamp>,
    pub assumption: String,
}

/// What a line belongs to: a phase or a commitment by its position in the portfolio, or the tax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOrigin {
    Phase(usize),
    Commitment(usize),
    /// A pool of machines that are held.
    Pool(usize),
    Tax,
}

/// The `part`-th of `parts` of an amount: all parts together are the amount to the nano-dollar.
pub fn split_evenly(amount: Usd, part: u32, parts: u32) -> Usd {
    let until = |part: u32| amount.share(i128::from(part), i128::from(parts.max(1)));
    until(part + 1) - until(part)
}

/// One month of a phase.
#[derive(Clone, Copy)]
pub struct PhasePart<'a> {
    /// Of the phase in the portfolio.
    pub index: usize,
    pub costed: CostedPhase<'a>,
    /// Of the months of the phase.
    pub part: u32,
    pub month: Month,
}

/// A line of a phase, without id, quantity and cost.
pub fn blank_phase_line(part: PhasePart, line: &PhaseCostLine) -> BudgetLine {
    let PhasePart { index, costed: CostedPhase { phase, once, .. }, month, .. } = part;
    let rented = part.costed.rented();
    let times = if rented > 1 { format!("; done {rented} times") } else { String::new() };
    let spread = if phase.months > 1 { format!("; spread evenly over {} months", phase.months) } else { String::new() };
    BudgetLine {
        id: String::new(),
        run: Some(phase.run.clone()),
        phase: Some(phase.name.clone()),
        team: Some(phase.team.clone()),
        month,
        item: line.item,
        machines: LineMachines {
            cloud: once.machines.cloud.clone(),
            region: once.machines.region.clone(),
            zone_id: once.machines.zone_id.clone(),
            instance_type: once.machines.instance_type.clone(),
            gpu: once.machines.gpu.clone(),
            gpus_per_node: Some(once.machines.gpus_per_node),
            // A plan that falls back rents its fallback on demand.
            purchase: Some(if line.item == Item::Fallback {
                "on-demand".to_owned()
            } else {
                once.machines.purchase.clone()
            }),
        },
        amount: LineAmount { unit: line.unit.clone(), unit_price_usd: line.unit_price, ..LineAmount::default() },
        basis: LineBasis {
            source: line.source.clone(),
            priced_at: line.priced_at,
            assumption: format!("{}{times}{spread}", line.assumption),
        },
        tags: phase.tags.clone(),
        origin: LineOrigin::Phase(index),
    }
}

/// A line that is of no phase.
pub fn shared_line(month: Month, item: Item, cost: Usd, origin: LineOrigin) -> BudgetLine {
    BudgetLine {
        id: String::new(),
        run: None,
        phase: None,
        team: None,
        month,
        item,
        machines: LineMachines::default(),
        amount: LineAmount { cost_usd: cost, p50_usd: cost, p90_usd: cost, ..LineAmount::default() },
        basis: LineBasis::default(),
        tags: BTreeMap::new(),
        origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_of_an_amount_are_the_amount(nanos in 0_i64..i64::MAX, parts in 1_u32..200) {
            let amount = Usd::from_nanos(i128::from(nanos));
            let sum: Usd = (0..parts).map(|part| split_evenly(amount, part, parts)).sum();
            prop_assert_eq!(sum, amount);
        }
    }

    #[test]
    fn the_parts_of_the_largest_amount_are_the_amount() {
        let amount = Usd::from_nanos(i128::MAX - 1);
        assert_eq!((0..7).map(|part| split_evenly(amount, part, 7)).sum::<Usd>(), amount);
    }
}
