//! What the objective of the limits chooses among plans that keep every limit.

use crate::candidate::Plan;
use crate::limits::{Limits, Objective};
use gpuplan_units::Hours;

/// Without a deadline, plans that end within this are preferred: few would wait a year to save a dollar.
pub const PATIENCE: Hours = Hours(30.0 * 24.0);
/// Costs this near are one cost: the band of a step time is three times as wide.
pub const COST_TOLERANCE: f64 = 0.05;

/// The plan to recommend among those at `order`, which is by cost.
pub fn recommend(plans: &[Plan], order: &[usize], limits: &Limits) -> Option<usize> {
    let patient = |index: &usize| {
        limits.deadline.is_some() || plans[*index].is_service() || plans[*index].run.hours.expected <= PATIENCE.0
    };
    let in_time: Vec<usize> = order.iter().copied().filter(patient).collect();
    let by_hours = |a: &usize, b: &usize| {
        let (a, b) = (&plans[*a], &plans[*b]);
        a.run.hours.expected.total_cmp(&b.run.hours.expected).then(a.cost.expected.cmp(&b.cost.expected))
    };
    let product = |index: &usize| plans[*index].cost.expected.dollars() * plans[*index].run.hours.expected;
    let dollars = |index: &usize| {
        let plan = &plans[*index];
        plan.cost.expected.dollars() + limits.value_of_time.dollars() * plan.run.hours.expected
    };
    let Some(least) = in_time.iter().map(dollars).min_by(f64::total_cmp) else {
        return order.iter().copied().min_by(by_hours);
    };
    match limits.objective {
        Objective::Time => in_time.into_iter().min_by(by_hours),
        Objective::Balanced => in_time.into_iter().min_by(|a, b| product(a).total_cmp(&product(b))),
        Objective::Cost => {
            in_time.into_iter().filter(|index| dollars(index) <= least * (1.0 + COST_TOLERANCE)).min_by(by_hours)
        }
    }
}
