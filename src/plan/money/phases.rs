//! Phases one after the other: what they take together, and how much of a deadline each may have.

use serde::Serialize;

use gpuplan_units::{Hours, Quantiles, Usd};

/// What a phase takes by its plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    pub hours: Quantiles<f64>,
    pub cost: Quantiles<Usd>,
}

/// All phases together. Their percentiles are added, which is exact where all phases err together, as estimates of one model by one
/// method mostly do, and too wide where they do not (Dhaene et al. 2002, "The concept of comonotonicity in actuarial science and
/// finance: theory", Insurance: Mathematics and Economics 31).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Total {
    pub run_hours: Quantiles<f64>,
    pub cost_usd: Quantiles<Usd>,
}

impl Total {
    pub fn sum(phases: &[Taken]) -> Self {
        let hours = |figure: fn(&Quantiles<f64>) -> f64| phases.iter().map(|phase| figure(&phase.hours)).sum();
        let cost = |figure: fn(&Quantiles<Usd>) -> Usd| phases.iter().map(|phase| figure(&phase.cost)).sum();
        Self {
            run_hours: Quantiles {
                expected: hours(|hours| hours.expected),
                p50: hours(|hours| hours.p50),
                p90: hours(|hours| hours.p90),
            },
            cost_usd: Quantiles {
                expected: cost(|cost| cost.expected),
                p50: cost(|cost| cost.p50),
                p90: cost(|cost| cost.p90),
            },
        }
    }
}

/// A deadline divided among phases, in proportion to the hours that each would take without one.
pub fn shares(deadline: Hours, hours: &[f64]) -> Vec<Hours> {
    let all: f64 = hours.iter().sum();
    hours.iter().map(|one| Hours(deadline.0 * one / all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_phases_that_err_together_add_up() {
        fn quantiles<T>(expected: T, p50: T, p90: T) -> Quantiles<T> {
            Quantiles { expected, p50, p90 }
        }
        let usd = |dollars: i64| Usd::from_nanos(i128::from(dollars) * 1_000_000_000);
        let taken = |hours, dollars| Taken {
            hours: quantiles(hours, hours - 1.0, hours * 2.0),
            cost: quantiles(usd(dollars), usd(dollars - 1), usd(dollars * 2)),
        };
        let total = Total::sum(&[taken(10.0, 100), taken(5.0, 7)]);
        assert_eq!(total.run_hours, quantiles(15.0, 13.0, 30.0));
        assert_eq!(total.cost_usd, quantiles(usd(107), usd(105), usd(214)));
        assert_eq!(shares(Hours(30.0), &[10.0, 5.0]), [Hours(20.0), Hours(10.0)]);
    }
}
