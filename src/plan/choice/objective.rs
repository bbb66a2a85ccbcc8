//! What the objective of the limits weighs of a plan; the least is recommended.

use crate::choice::value_of_time::ValueOfTime;
use crate::limits::{Limits, Objective};
use gpuplan_units::Usd;

/// What to have least of.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    pub objective: Objective,
    /// Dollars.
    pub value_of_hour: f64,
}

impl Aim {
    pub fn new(limits: &Limits, value: ValueOfTime) -> Self {
        Self { objective: limits.objective, value_of_hour: value.usd_per_hour.dollars() }
    }

    /// The least cost, whatever the hours.
    pub const CHEAPEST: Self = Self { objective: Objective::Cost, value_of_hour: 0.0 };

    /// Of an expected cost and expected hours; less is better. It rises with both, so that a bound of both bounds it.
    pub fn score(self, cost: Usd, hours: f64) -> f64 {
        match self.objective {
            Objective::CostAndTime => cost.dollars() + self.value_of_hour * hours,
            Objective::Cost => cost.dollars(),
            Objective::Time => hours,
            Objective::Balanced => cost.dollars() * hours,
        }
    }

    /// What it gives for an hour less, where a score is a sum of money. Dollars.
    pub fn price_of_an_hour(self) -> Option<f64> {
        match self.objective {
            Objective::CostAndTime => Some(self.value_of_hour),
            Objective::Cost => Some(0.0),
            Objective::Time | Objective::Balanced => None,
        }
    }

    /// Of equal scores, the plan that is better in what the objective does not weigh.
    pub fn key(self, cost: Usd, hours: f64) -> (f64, f64, f64) {
        (self.score(cost, hours), hours, cost.dollars())
    }
}

/// Orders the keys of plans.
pub fn by_key(a: (f64, f64, f64), b: (f64, f64, f64)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_objective_chooses_its_own() {
        let plans = [(100, 50.0), (104, 20.0), (200, 9.0), (90, 800.0)];
        let chosen = |objective, value_of_hour| {
            let aim = Aim { objective, value_of_hour };
            let key = |index: &usize| {
                let (dollars, hours) = plans[*index];
                aim.key(Usd::from_nanos(i128::from(dollars) * 1_000_000_000), hours)
            };
            (0..plans.len()).min_by(|a, b| by_key(key(a), key(b)))
        };
        assert_eq!(chosen(Objective::Cost, 0.0), Some(3), "cost alone waits a month to save ten dollars");
        assert_eq!(chosen(Objective::CostAndTime, 2.0), Some(1));
        assert_eq!(chosen(Objective::CostAndTime, 20.0), Some(2));
        assert_eq!(chosen(Objective::Time, 0.0), Some(2));
        assert_eq!(chosen(Objective::Balanced, 0.0), Some(2));
    }
}
