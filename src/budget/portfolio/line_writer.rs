//! Writes the lines of a budget. They add up to the total exactly.

use std::collections::BTreeMap;

use crate::charge::Item;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::{Commitment, CommitmentKind};
use crate::portfolio::coverage::{ASSUMPTION, Covered};
use crate::portfolio::lines::{
    BudgetLine, CostedPhase, LineAmount, LineBasis, LineMachines, LineOrigin, PhasePart, blank_phase_line, shared_line,
    split_evenly,
};
use crate::portfolio::planned::{MACHINE_HOUR, PhaseCostLine};
use crate::portfolio::pool_lines::{PoolsLeft, held_lines, unused_lines};
use crate::portfolio::{Portfolio, Tax, repeated};
use gpuplan_units::Usd;

/// All lines, and what each commitment covered.
pub struct BudgetLines {
    pub lines: Vec<BudgetLine>,
    /// By commitment.
    pub covered: Vec<Covered>,
    /// Machine-hours used, by pool.
    pub pool_hours: Vec<f64>,
}

impl BudgetLines {
    pub fn new(portfolio: &Portfolio, costed: &[CostedPhase]) -> Self {
        let mut writer = Writer::new(portfolio);
        for (index, costed) in costed.iter().enumerate() {
            for (part, month) in costed.phase.in_months().enumerate() {
                let part = PhasePart { index, costed: *costed, part: part as u32, month };
                for placed in costed.placed {
                    let lines = held_lines(portfolio, &mut writer.pools, part, *placed);
                    writer.lines.extend(lines);
                }
                for (position, line) in costed.once.lines.iter().enumerate() {
                    writer.phase_line(part, position, line);
                }
            }
        }
        writer.unused(costed);
        writer.lines.extend(unused_lines(portfolio, &writer.pools, costed));
        writer.tax();
        Self { lines: writer.lines, covered: writer.covered, pool_hours: writer.pools.hours_used() }
    }

    pub fn total(&self) -> Usd {
        self.lines.iter().map(|line| line.amount.cost_usd).sum()
    }
}

struct Writer<'a> {
    portfolio: &'a Portfolio,
    lines: Vec<BudgetLine>,
    /// What is left of the capacity of each commitment in each month.
    left: Vec<BTreeMap<Month, Usd>>,
    covered: Vec<Covered>,
    pools: PoolsLeft,
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
            pools: PoolsLeft::new(portfolio),
        }
    }

    fn phase_line(&mut self, part: PhasePart, position: usize, line: &PhaseCostLine) {
        let PhasePart { costed: CostedPhase { phase, once, .. }, month, .. } = part;
        let rented = part.costed.rented();
        let mut cost = split_evenly(repeated(line.cost, rented), part.part, phase.months);
        let mut quantity = line.quantity * f64::from(rented) / f64::from(phase.months);
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
                    list_usd: Some(on_demand),
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
            let is_at_spot = matches!(line.item, Item::Machines | Item::LostWork) && line.unit == MACHINE_HOUR;
            let on_demand = once.on_demand.filter(|_| once.is_spot() && is_at_spot);
            let list_usd = on_demand.and_then(|rate| rate.for_hours(1, quantity));
            let amount = LineAmount { quantity, cost_usd: cost, list_usd, ..blank.amount };
            self.lines.push(BudgetLine { id, amount, ..blank });
        }
    }

    /// What is paid of a commitment and not used.
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
