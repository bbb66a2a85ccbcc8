//! What is left of machines that are held, draw by draw: a run that takes longer than expected leaves less for the next.

use std::collections::BTreeMap;

use crate::portfolio::Portfolio;
use crate::portfolio::assignment::machine_hours_in;
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::planned::{HeldPlan, Placed};
use crate::portfolio::simulation::draws::DRAWS;
use gpuplan_market::capacity::pool::Pool;

pub struct PoolDraws<'a> {
    pools: &'a [Pool],
    /// Machine-hours, by pool and month.
    left: Vec<BTreeMap<Month, Vec<f64>>>,
}

impl<'a> PoolDraws<'a> {
    pub fn new(portfolio: &'a Portfolio) -> Self {
        let full = |pool: &Pool| {
            portfolio.all_months().map(|month| (month, vec![machine_hours_in(pool, month); DRAWS])).collect()
        };
        Self { pools: &portfolio.pools, left: portfolio.pools.iter().map(full).collect() }
    }

    /// Takes from `costs`, which are those of all repeats rented, what is placed on pools. Gives what that costs, by plan. What does not
    /// fit in a draw stays rented. `estimate` are the draws of the error of the estimate.
    pub fn place<'b>(
        &mut self,
        costed: &CostedPhase<'b>,
        month: Month,
        estimate: Option<&Vec<f64>>,
        costs: &mut [f64],
    ) -> Vec<(&'b HeldPlan, Vec<f64>)> {
        let (repeats, months) = (f64::from(costed.phase.repeats), f64::from(costed.phase.months));
        let rented = costs.to_vec();
        let mut found = Vec::new();
        for Placed { held, repeats: placed } in costed.placed.iter().copied() {
            let (held, placed) = (&costed.once.held[held], f64::from(placed));
            let pool = &self.pools[held.pool];
            let Some(left) = self.left[held.pool].get_mut(&month) else { continue };
            let rate = pool.paid.dollars() + pool.marginal.dollars();
            let beside = held.lines.iter().map(|line| line.cost.dollars()).sum::<f64>() * placed / months;
            let mut held_costs = vec![0.0; DRAWS];
            for (draw, cost) in held_costs.iter_mut().enumerate() {
                let factor = held.shape.ratio_at(estimate.map_or(0.0, |normals| normals[draw]));
                let wanted = held.machine_hours * placed / months * factor;
                let used = wanted.min(left[draw]);
                left[draw] = (left[draw] - used).max(0.0);
                let share = if wanted > 0.0 { used / wanted } else { 1.0 };
                *cost = used * rate + share * beside;
                costs[draw] -= share * rented[draw] * placed / repeats;
            }
            found.push((held, held_costs));
        }
        for cost in costs.iter_mut() {
            *cost = cost.max(0.0);
        }
        found
    }

    /// What is paid and not used, by pool and month.
    pub fn unused(self, portfolio: &Portfolio) -> Vec<BTreeMap<Month, Vec<f64>>> {
        let mut unused = self.left;
        for (pool, months) in portfolio.pools.iter().zip(&mut unused) {
            months.values_mut().flatten().for_each(|hours| *hours *= pool.paid.dollars());
        }
        unused
    }
}
