//! The lines of a budget: every amount with quantity, rate, source, date and assumption. They add up to the total exactly.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::Item;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::{Commitment, CommitmentKind};
use crate::portfolio::coverage::{ASSUMPTION, Covered};
use crate::portfolio::planned::{MACHINE_HOUR, PhaseCost, PhaseCostLine};
use crate::portfolio::{Phase, Portfolio, Tax, repeated};
use gpuplan_units::Usd;

/// A phase and what doing it once costs.
#[derive(Clone, Copy, Debug)]
pub struct CostedPhase<'a> {
    pub phase: &'a Phase,
    pub once: &'a PhaseCost,
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
    Tax,
}

/// All lines, and what each commitment covered.
pub struct BudgetLines {
    pub lines: Vec<BudgetLine>,
    /// By commitment.
    pub covered: Vec<Covered>,
}

/// The `part`-th of `parts` of an amount: all parts together are the amount to the nano-dollar.
pub fn split_evenly(amount: Usd, part: u32, parts: u32) -> Usd {
    let until = |part: u32| amount.share(i128::from(part), i128::from(parts.max(1)));
    until(part + 1) - until(part)
}

impl BudgetLines {
    pub fn new(portfolio: &Portfolio, costed: &[CostedPhase]) -> Self {
        let mut writer = Writer::new(portfolio);
        for (index, costed) in costed.iter().enumerate() {
            for (part, month) in costed.phase.in_months().enumerate() {
                for (position, line) in costed.once.lines.iter().enumerate() {
                    writer.phase_line(PhasePart { index, costed: *costed, part: part as u32, month }, position, line);
                }
            }
        }
        writer.unused(costed);
        writer.tax();
        Self { lines: writer.lines, covered: writer.covered }
    }

    pub fn total(&self) -> Usd {
        self.lines.iter().map(|line| line.amount.cost_usd).sum()
    }
}

/// One month of a phase.
#[derive(Clone, Copy)]
struct PhasePart<'a> {
    /// Of the phase in the portfolio.
    index: usize,
    costed: CostedPhase<'a>,
    /// Of the months of the phase.
    part: u32,
    month: Month,
}

struct Writer<'a> {
    portfolio: &'a Portfolio,
    lines: Vec<BudgetLine>,
    /// What is left of the capacity of each commitment in each month.
    left: Vec<BTreeMap<Month, Usd>>,
    covered: Vec<Covered>,
}

impl<'a> Writer<'a> {
    fn new(portfolio: &'a Portfolio) -> Self {
        let months = |commitment: &Commitment| {
            portfolio.months_of(commitment).map(|month| (month, commitment.capacity(month))).collect()
        };
        Self {
            portfolio,
            lines: Vec::new(),
            left: portfolio.commitments.iter().map(months).collect(),
            covered: vec![Covered::default(); portfolio.commitments.len()],
        }
    }

    fn phase_line(&mut self, part: PhasePart, position: usize, line: &PhaseCostLine) {
        let PhasePart { costed: CostedPhase { phase, once }, month, .. } = part;
        let mut cost = split_evenly(repeated(line.cost, phase.repeats), part.part, phase.months);
        let mut quantity = line.quantity * f64::from(phase.repeats) / f64::from(phase.months);
        let all = quantity;
        let id = format!("{}/{month}/{}.{}", phase.path(), position + 1, line.item.word());
        for (at, commitment) in self.portfolio.commitments.iter().enumerate() {
            let Some(left) = self.left[at].get_mut(&month).filter(|left| **left > Usd::ZERO) else { continue };
            let Some(coverage) = commitment.coverage(once, line) else { continue };
            let hours = (coverage.share * all).min(quantity).min(left.dollars() / coverage.capacity.dollars());
            // What is beyond counting is more than there is.
            let priced = |price: Usd, most: Usd| {
                Usd::from_dollars(hours * price.dollars()).map_or(most, |amount| amount.min(most))
            };
            let (taken, on_demand) = (priced(coverage.capacity, *left), priced(line.unit_price, cost));
            if taken == Usd::ZERO {
                continue;
            }
            let used = if commitment.is_free() { Usd::ZERO } else { taken };
            *left = *left - taken;
            (quantity, cost) = (quantity - hours, cost - on_demand);
            let covered = &mut self.covered[at];
            *covered = Covered { used: covered.used + used, on_demand: covered.on_demand + on_demand };
            let blank = blank_phase_line(part, line);
            self.lines.push(BudgetLine {
                id: format!("{id}/{}", commitment.name),
                machines: LineMachines { purchase: Some("commitment".to_owned()), ..blank.machines },
                amount: LineAmount {
                    quantity: hours,
                    unit_price_usd: coverage.unit_price,
                    cost_usd: used,
                    ..blank.amount
                },
                basis: LineBasis {
                    source: commitment.source.clone(),
                    priced_at: Some(commitment.as_of),
                    assumption: format!("`{}` {ASSUMPTION}", commitment.name),
                },
                ..blank
            });
        }
        if cost > Usd::ZERO || quantity > 0.0 {
            let blank = blank_phase_line(part, line);
            let amount = LineAmount { quantity, cost_usd: cost, ..blank.amount };
            self.lines.push(BudgetLine { id, amount, ..blank });
        }
    }

    /// What is paid and not used.
    fn unused(&mut self, costed: &[CostedPhase]) {
        let left = std::mem::take(&mut self.left);
        for (at, (commitment, months)) in self.portfolio.commitments.iter().zip(left).enumerate() {
            if commitment.is_free() {
                continue;
            }
            for (month, cost) in months.into_iter().filter(|(_, left)| *left > Usd::ZERO) {
                let is_machines = matches!(commitment.kind, CommitmentKind::Reservation { .. });
                let price = if is_machines { commitment.usd_per_hour.times(1) } else { Usd::from_nanos(1_000_000_000) };
                let blank = shared_line(month, Item::UnusedCommitment, cost, LineOrigin::Commitment(at));
                self.lines.push(BudgetLine {
                    id: format!("{}/{month}/unused", commitment.name),
                    machines: LineMachines {
                        cloud: commitment.cloud.clone(),
                        region: commitment.region.clone(),
                        instance_type: match &commitment.kind {
                            CommitmentKind::Reservation { instance_type, .. } => Some(instance_type.clone()),
                            CommitmentKind::SavingsPlan { .. } => None,
                        },
                        gpu: commitment.gpu(costed.iter().map(|costed| costed.once)).map(str::to_owned),
                        purchase: Some("commitment".to_owned()),
                        ..LineMachines::default()
                    },
                    amount: LineAmount {
                        quantity: cost.dollars() / price.dollars(),
                        unit: if is_machines { MACHINE_HOUR } else { "committed dollar" }.to_owned(),
                        unit_price_usd: price,
                        ..blank.amount
                    },
                    basis: LineBasis {
                        source: commitment.source.clone(),
                        priced_at: Some(commitment.as_of),
                        assumption: format!("what no run uses of `{}`; it {ASSUMPTION}", commitment.name),
                    },
                    ..blank
                });
            }
        }
    }

    /// A line for what each month, team, cloud and GPU adds to the tax.
    fn tax(&mut self) {
        let Tax { millionths } = self.portfolio.tax;
        if millionths == 0 {
            return;
        }
        let mut taxed: BTreeMap<(Month, Option<String>, String, Option<String>), Usd> = BTreeMap::new();
        for line in &self.lines {
            let machines = &line.machines;
            let key = (line.month, line.team.clone(), machines.cloud.clone(), machines.gpu.clone());
            let sum = taxed.entry(key).or_default();
            *sum = *sum + line.amount.cost_usd;
        }
        for ((month, team, cloud, gpu), sum) in taxed {
            let parts = [Some("tax"), team.as_deref(), Some(cloud.as_str()), gpu.as_deref()];
            let id = parts.into_iter().flatten().chain([month.to_string().as_str()]).collect::<Vec<_>>().join("/");
            let blank = shared_line(month, Item::Tax, self.portfolio.tax.on(sum), LineOrigin::Tax);
            self.lines.push(BudgetLine {
                id,
                team,
                machines: LineMachines { cloud, gpu, ..LineMachines::default() },
                amount: LineAmount {
                    quantity: sum.dollars(),
                    unit: "USD".to_owned(),
                    unit_price_usd: Usd::from_nanos(millionths * 1000),
                    ..blank.amount
                },
                basis: LineBasis {
                    source: "the portfolio".to_owned(),
                    priced_at: None,
                    assumption: "as stated, on every amount alike".to_owned(),
                },
                ..blank
            });
        }
    }
}

/// A line of a phase, without id, quantity and cost.
fn blank_phase_line(part: PhasePart, line: &PhaseCostLine) -> BudgetLine {
    let PhasePart { index, costed: CostedPhase { phase, once }, month, .. } = part;
    let times = if phase.repeats > 1 { format!("; done {} times", phase.repeats) } else { String::new() };
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
fn shared_line(month: Month, item: Item, cost: Usd, origin: LineOrigin) -> BudgetLine {
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
