//! What the objective of the limits chooses among plans that keep every limit.

use crate::limits::{Limits, Objective};
use gpuplan_units::{Hours, Usd};

/// Without a deadline, plans that end within this are preferred: few would wait a year to save a dollar.
pub const PATIENCE: Hours = Hours(30.0 * 24.0);
/// Costs this near are one cost: the band of a step time is three times as wide.
pub const COST_TOLERANCE: f64 = 0.05;

/// What the objective weighs of a plan.
#[derive(Clone, Copy)]
pub struct CostAndHours {
    /// Expected, as the hours.
    pub cost: Usd,
    pub hours: f64,
    /// Its hours are given, so that no patience is needed.
    pub is_service: bool,
}

/// The plan to recommend among those at `order`; of equal ones the first.
pub fn recommend(limits: &Limits, order: &[usize], figures: impl Fn(usize) -> CostAndHours) -> Option<usize> {
    let figures = |index: &usize| figures(*index);
    let hours = |index: &usize| figures(index).hours;
    let product = |index: &usize| figures(index).cost.dollars() * hours(index);
    let dollars = |index: &usize| figures(index).cost.dollars() + limits.value_of_time.dollars() * hours(index);
    let is_patient =
        |index: &usize| limits.deadline.is_some() || figures(index).is_service || hours(index) <= PATIENCE.0;
    let by_hours = |a: &usize, b: &usize| hours(a).total_cmp(&hours(b)).then(figures(a).cost.cmp(&figures(b).cost));
    let in_time: Vec<usize> = order.iter().copied().filter(is_patient).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(limits: &Limits, plans: &[(i64, f64)]) -> Option<usize> {
        let order: Vec<usize> = (0..plans.len()).collect();
        recommend(limits, &order, |index| {
            let (dollars, hours) = plans[index];
            CostAndHours { cost: Usd::from_nanos(i128::from(dollars) * 1_000_000_000), hours, is_service: false }
        })
    }

    #[test]
    fn each_objective_chooses_its_own_and_patience_ends_after_a_month() {
        let plans = [(100, 50.0), (104, 20.0), (200, 9.0), (90, 800.0)];
        let aim = |objective| Limits { objective, ..Limits::default() };
        assert_eq!(chosen(&aim(Objective::Cost), &plans), Some(1), "within 5 % of the least, and faster");
        assert_eq!(chosen(&aim(Objective::Time), &plans), Some(2));
        assert_eq!(chosen(&aim(Objective::Balanced), &plans), Some(2));
        let costly_waiting = Limits { value_of_time: Usd::from_nanos(20_000_000_000), ..Limits::default() };
        assert_eq!(chosen(&costly_waiting, &plans), Some(2));
        let in_two_months = Limits { deadline: Some(Hours(1500.0)), ..Limits::default() };
        assert_eq!(chosen(&in_two_months, &plans), Some(3));
        assert_eq!(
            chosen(&Limits::default(), &[(90, 900.0), (100, 800.0)]),
            Some(1),
            "the fastest where none is in time"
        );
        assert_eq!(chosen(&Limits::default(), &[]), None);
    }
}
