//! Lines of machines that are held: what runs use of them, and what is paid for the rest.

use std::collections::BTreeMap;

use crate::charge::Item;
use crate::portfolio::assignment::candidate::hours_in;
use crate::portfolio::assignment::{RULE, machine_hours_in};
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::{
    BudgetLine, CostedPhase, LineAmount, LineBasis, LineMachines, LineOrigin, PhasePart, blank_phase_line, shared_line,
    split_evenly,
};
use crate::portfolio::planned::{HeldPlan, MACHINE_HOUR, PhaseMachines, Placed};
use crate::portfolio::{Portfolio, repeated};
use gpuplan_market::capacity::OWN;
use gpuplan_market::capacity::pool::Pool;
use gpuplan_units::Usd;

const SOURCE: &str = "machines that are held";

/// What is not used yet of each pool in each month.
pub struct PoolsLeft {
    by_pool: Vec<BTreeMap<Month, Left>>,
}

#[derive(Clone, Copy)]
struct Left {
    /// Of what is paid, used or not.
    paid: Usd,
    machine_hours: f64,
    used_hours: f64,
}

/// What is paid for all machines of a pool in a month, used or not.
pub fn paid_in(pool: &Pool, month: Month) -> Usd {
    // Days begin and end on whole seconds.
    pool.paid.times(pool.nodes).share((hours_in(pool, month) * 3600.0).round() as i128, 3600)
}

impl PoolsLeft {
    pub fn new(portfolio: &Portfolio) -> Self {
        let of_pool = |pool: &Pool| {
            let left = |month| Left {
                paid: paid_in(pool, month),
                machine_hours: machine_hours_in(pool, month),
                used_hours: 0.0,
            };
            portfolio.all_months().map(|month| (month, left(month))).collect()
        };
        Self { by_pool: portfolio.pools.iter().map(of_pool).collect() }
    }

    pub fn hours_used(&self) -> Vec<f64> {
        self.by_pool.iter().map(|months| months.values().map(|left| left.used_hours).sum()).collect()
    }

    /// Uses hours of a pool. Gives what was paid for them.
    fn take(&mut self, pool: &Pool, at: usize, month: Month, hours: f64) -> Usd {
        let Some(left) = self.by_pool[at].get_mut(&month) else { return Usd::ZERO };
        // What is beyond counting is more than there is.
        let paid = Usd::from_dollars(hours * pool.paid.dollars()).map_or(left.paid, |paid| paid.min(left.paid));
        left.paid = left.paid - paid;
        left.used_hours += hours;
        paid
    }
}

/// Repeats of a phase on machines of a pool in one month.
pub fn held_lines(portfolio: &Portfolio, pools: &mut PoolsLeft, part: PhasePart, placed: Placed) -> Vec<BudgetLine> {
    let PhasePart { costed: CostedPhase { phase, once, .. }, month, .. } = part;
    let held = &once.held[placed.held];
    let pool = &portfolio.pools[held.pool];
    let hours = held.machine_hours * f64::from(placed.repeats) / f64::from(phase.months);
    let paid = pools.take(pool, held.pool, month, hours);
    // As cheap as a phase at most, and that was counted.
    let marginal = Usd::from_dollars(hours * pool.marginal.dollars()).unwrap_or(Usd::ZERO);
    let machines = line_machines(&held.machines, pool);
    let id = format!("{}/{month}/{}", phase.path(), pool.name);
    let line = |id: String, item: Item, amount: LineAmount, basis: LineBasis| BudgetLine {
        id,
        run: Some(phase.run.clone()),
        phase: Some(phase.name.clone()),
        team: Some(phase.team.clone()),
        month,
        item,
        machines: machines.clone(),
        amount,
        basis,
        tags: phase.tags.clone(),
        origin: LineOrigin::Phase(part.index),
    };
    let amount = LineAmount {
        quantity: hours,
        unit: MACHINE_HOUR.to_owned(),
        unit_price_usd: pool.paid.times(1) + pool.marginal.times(1),
        cost_usd: paid + marginal,
        ..LineAmount::default()
    };
    let basis = LineBasis {
        source: SOURCE.to_owned(),
        priced_at: None,
        assumption: format!("{} of {} times on `{}`: {RULE}", placed.repeats, phase.repeats, pool.name),
    };
    let mut lines = vec![line(format!("{id}/machines"), Item::Machines, amount, basis)];
    for (position, other) in held.lines.iter().enumerate() {
        let blank = blank_phase_line(part, other);
        let amount = LineAmount {
            quantity: other.quantity * f64::from(placed.repeats) / f64::from(phase.months),
            cost_usd: split_evenly(repeated(other.cost, placed.repeats), part.part, phase.months),
            ..blank.amount
        };
        lines.push(line(format!("{id}/{}.{}", position + 1, other.item.word()), other.item, amount, blank.basis));
    }
    lines
}

/// What is paid for machines that are held and that no run uses.
pub fn unused_lines(portfolio: &Portfolio, pools: &PoolsLeft, costed: &[CostedPhase]) -> Vec<BudgetLine> {
    let mut lines = Vec::new();
    for (at, pool) in portfolio.pools.iter().enumerate() {
        let left: Vec<(Month, Left)> = pools.by_pool[at]
            .iter()
            .filter(|(_, left)| left.paid > Usd::ZERO)
            .map(|(month, left)| (*month, *left))
            .collect();
        for (month, left) in left {
            let blank = shared_line(month, Item::UnusedCommitment, left.paid, LineOrigin::Pool(at));
            lines.push(BudgetLine {
                id: format!("{}/{month}/unused", pool.name),
                machines: LineMachines {
                    cloud: pool.cloud.clone(),
                    region: pool.region.clone(),
                    instance_type: Some(pool.instance_type.clone()),
                    gpu: gpu(at, costed).map(str::to_owned),
                    purchase: Some(purchase(pool).to_owned()),
                    ..LineMachines::default()
                },
                amount: LineAmount {
                    quantity: left.machine_hours - left.used_hours,
                    unit: MACHINE_HOUR.to_owned(),
                    unit_price_usd: pool.paid.times(1),
                    ..blank.amount
                },
                basis: LineBasis {
                    source: SOURCE.to_owned(),
                    priced_at: None,
                    assumption: format!("what no run uses of `{}`", pool.name),
                },
                ..blank
            });
        }
    }
    lines
}

fn purchase(pool: &Pool) -> &'static str {
    if pool.cloud == OWN { "reserved" } else { "commitment" }
}

fn line_machines(machines: &PhaseMachines, pool: &Pool) -> LineMachines {
    LineMachines {
        cloud: machines.cloud.clone(),
        region: machines.region.clone(),
        zone_id: machines.zone_id.clone(),
        instance_type: machines.instance_type.clone(),
        gpu: machines.gpu.clone(),
        gpus_per_node: Some(machines.gpus_per_node),
        purchase: Some(purchase(pool).to_owned()),
    }
}

/// Of the machines of a pool, as the plans on it name them.
pub fn gpu<'a>(pool: usize, costed: &[CostedPhase<'a>]) -> Option<&'a str> {
    let plans = costed.iter().flat_map(|costed| &costed.once.held);
    plans.into_iter().find(|held: &&HeldPlan| held.pool == pool)?.machines.gpu.as_deref()
}
