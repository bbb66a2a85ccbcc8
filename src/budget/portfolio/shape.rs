//! `Shape`: how the cost of a run spreads, through the percentiles of its plan and with the plan's own mean.

use gpuplan_plan::normal::{NORMAL_90, normal_distribution};
use gpuplan_units::Quantiles;

/// Deviations of a logarithm beyond this describe nothing that a plan says.
const WIDEST: f64 = 8.0;

/// A log-normal in three pieces, as a ratio to the mean: under the median, from there to the 90th percentile, beyond it.
/// The two upper percentiles of the plan are met exactly. Its mean is met by the spread under the median where the mean is low,
/// and by the tail beyond the 90th percentile where it is high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    low: f64,
    high: f64,
    tail: f64,
    /// Mean over median.
    mean: f64,
}

impl Shape {
    /// `None`: no distribution has such a mean beside such percentiles.
    pub fn fit(figures: Quantiles<f64>) -> Option<Self> {
        let Quantiles { expected, p50, p90 } = figures;
        if expected == 0.0 && p50 == 0.0 {
            return Some(Self { low: 0.0, high: 0.0, tail: 0.0, mean: 1.0 });
        }
        if !(p50 > 0.0 && p90 >= p50 && expected > 0.0 && p90.is_finite() && expected.is_finite()) {
            return None;
        }
        let mean = expected / p50;
        let high = (p90 / p50).ln() / NORMAL_90;
        let plain = Self { low: high, high, tail: high, mean };
        let fitted = if plain.mean_over_median() > mean {
            Self { low: bisect(high, |low| Self { low, ..plain }.mean_over_median() > mean), ..plain }
        } else {
            Self { tail: bisect(high, |tail| Self { tail, ..plain }.mean_over_median() < mean), ..plain }
        };
        ((fitted.mean_over_median() / mean - 1.0).abs() < 1e-6).then_some(fitted)
    }

    /// Ratio to the mean at so many standard deviations.
    pub fn ratio_at(&self, deviations: f64) -> f64 {
        let log = if deviations <= 0.0 {
            self.low * deviations
        } else if deviations <= NORMAL_90 {
            self.high * deviations
        } else {
            self.high * NORMAL_90 + self.tail * (deviations - NORMAL_90)
        };
        log.exp() / self.mean
    }

    /// Standard deviation of the logarithm above the median.
    pub fn spread(&self) -> f64 {
        self.high
    }

    /// The integral of the three pieces under the normal density: of exp(s z) from a to b it is
    /// exp(s^2 / 2) (N(b - s) - N(a - s)).
    fn mean_over_median(&self) -> f64 {
        let piece = |s: f64| (s * s / 2.0).exp();
        let below = piece(self.low) * normal_distribution(-self.low);
        let body = piece(self.high) * (normal_distribution(NORMAL_90 - self.high) - normal_distribution(-self.high));
        let beyond =
            (NORMAL_90 * (self.high - self.tail)).exp() * piece(self.tail) * normal_distribution(self.tail - NORMAL_90);
        below + body + beyond
    }
}

/// The largest value from `from` on for which `holds`, by halving; `holds` must turn once.
fn bisect(from: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (from, WIDEST.max(from));
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::draw::Draws;

    fn drawn(shape: Shape) -> (f64, f64, f64) {
        let mut draws = Draws::new(7, 0);
        let mut all: Vec<f64> = (0..200_000).map(|_| shape.ratio_at(draws.normal())).collect();
        all.sort_by(f64::total_cmp);
        (all.iter().sum::<f64>() / all.len() as f64, all[all.len() / 2], all[all.len() / 10 * 9])
    }

    #[test]
    fn the_percentiles_and_the_mean_of_a_plan_come_back() {
        // On-demand, spot with a mean between, spot with a heavy tail, hardly any spread.
        for (expected, p50, p90) in
            [(100.0, 100.0, 115.0), (35_210.0, 32_450.0, 49_576.0), (42_108.0, 38_635.0, 48_129.0), (5.0, 5.0, 5.0)]
        {
            let shape = Shape::fit(Quantiles { expected, p50, p90 }).unwrap();
            let (mean, median, ninety) = drawn(shape);
            assert!((mean - 1.0).abs() < 0.01, "mean {mean} of {expected} {p50} {p90}");
            assert!((median * expected / p50 - 1.0).abs() < 0.01, "median {median} of {expected} {p50} {p90}");
            assert!((ninety * expected / p90 - 1.0).abs() < 0.01, "p90 {ninety} of {expected} {p50} {p90}");
        }
    }

    #[test]
    fn what_no_distribution_can_be_is_refused() {
        for (expected, p50, p90) in [(10.0, 100.0, 120.0), (1.0, 0.0, 3.0), (1.0, 2.0, 1.0), (f64::NAN, 1.0, 2.0)] {
            assert_eq!(Shape::fit(Quantiles { expected, p50, p90 }), None, "{expected} {p50} {p90}");
        }
        assert_eq!(Shape::fit(Quantiles::default()).unwrap().ratio_at(1.0), 1.0);
    }
}
