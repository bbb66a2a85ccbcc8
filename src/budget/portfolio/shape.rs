//! `Shape`: how the cost of a run spreads, as its plan has it: by its replays, or through its percentiles and with its own mean.

use std::f64::consts::PI;

use gpuplan_plan::normal::{NORMAL_90, deviations, normal_distribution};
use gpuplan_units::Quantiles;

/// Deviations of a logarithm beyond this describe nothing that a plan says.
const WIDEST: f64 = 8.0;

/// Halvings until a spread is found.
const HALVINGS: usize = 60;

/// How a cost or a time spreads, as a ratio to its mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Fitted(Pieces),
    Replayed(Replays),
}

/// A log-normal in three pieces, as a ratio to the mean: under the median, from there to the 90th percentile, beyond it.
/// The two upper percentiles of the plan are met exactly. Its mean is met by the spread under the median where the mean is low,
/// and by the tail beyond the 90th percentile where it is high, or where the spread under the median does not do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pieces {
    low: f64,
    high: f64,
    tail: f64,
    /// Mean over median.
    mean: f64,
}

/// Costs of replays as ratios to their mean, at equal steps of probability: on spot they have two humps, where no log-normal fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Replays {
    /// Standard deviations from the median, and the ratio there.
    points: Vec<(f64, f64)>,
}

impl Shape {
    /// `None`: no distribution has such a mean beside such percentiles.
    pub fn fit(figures: Quantiles<f64>) -> Option<Self> {
        Pieces::fit(figures).map(Self::Fitted)
    }

    /// From costs at equal steps of probability, cheapest first, spread until the 90th percentile is that of `figures`, which knows of
    /// uncertain prices too. `None`: they are no costs.
    pub fn replayed(costs: &[f64], figures: Quantiles<f64>) -> Option<Self> {
        Replays::new(costs, figures.p90 / figures.expected).map(Self::Replayed)
    }

    /// Ratio to the mean at so many standard deviations.
    pub fn ratio_at(&self, deviations: f64) -> f64 {
        match self {
            Self::Fitted(pieces) => pieces.ratio_at(deviations),
            Self::Replayed(replays) => replays.ratio_at(deviations),
        }
    }

    /// Standard deviation of the logarithm above the median.
    pub fn spread(&self) -> f64 {
        match self {
            Self::Fitted(pieces) => pieces.high,
            Self::Replayed(replays) => (replays.ratio_at(NORMAL_90) / replays.ratio_at(0.0)).ln() / NORMAL_90,
        }
    }
}

impl Replays {
    fn new(costs: &[f64], p90_over_mean: f64) -> Option<Self> {
        let is_cost = |cost: &f64| cost.is_finite() && *cost > 0.0;
        if costs.len() < 2 || !costs.iter().all(is_cost) || !costs.is_sorted() || !p90_over_mean.is_finite() {
            return None;
        }
        let share = |index: usize| (index as f64 + 0.5) / costs.len() as f64;
        let at: Vec<f64> = (0..costs.len()).map(|index| deviations(share(index)) * NORMAL_90).collect();
        let spread_by = |power: f64| {
            let raised = Self { points: at.iter().zip(costs).map(|(at, cost)| (*at, cost.powf(power))).collect() };
            let mean = raised.mean();
            Self { points: raised.points.into_iter().map(|(at, cost)| (at, cost / mean)).collect() }
        };
        let (mut narrow, mut wide) = (1.0, WIDEST);
        if spread_by(narrow).ratio_at(NORMAL_90) < p90_over_mean {
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(narrow, wide);
                let is_low = spread_by(middle).ratio_at(NORMAL_90) < p90_over_mean;
                if is_low { narrow = middle } else { wide = middle }
            }
        }
        Some(spread_by(narrow))
    }

    /// Linear between the points; beyond the outermost replays nothing is known, and nothing is added.
    fn ratio_at(&self, deviations: f64) -> f64 {
        let after = self.points.partition_point(|(at, _)| *at < deviations).clamp(1, self.points.len() - 1);
        let ((from, low), (to, high)) = (self.points[after - 1], self.points[after]);
        let share = ((deviations - from) / (to - from)).clamp(0.0, 1.0);
        low + share * (high - low)
    }

    /// Over the normal distribution: of a + b z from one point to the next it is a (N(to) - N(from)) + b (n(from) - n(to)).
    fn mean(&self) -> f64 {
        let density = |at: f64| (-at * at / 2.0).exp() / (2.0 * PI).sqrt();
        let tail = 0.5 / self.points.len() as f64;
        let ends =
            self.points.first().into_iter().chain(self.points.last()).map(|(_, value)| tail * value).sum::<f64>();
        let between = self.points.windows(2).map(|pair| {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            let slope = (high - low) / (to - from);
            (low - slope * from) * (2.0 * tail) + slope * (density(from) - density(to))
        });
        ends + between.sum::<f64>()
    }
}

impl Pieces {
    fn fit(figures: Quantiles<f64>) -> Option<Self> {
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
            let lower = Self { low: bisect(high, |low| Self { low, ..plain }.mean_over_median() > mean), ..plain };
            if lower.has_mean() { lower } else { plain.with_a_shorter_tail(mean) }
        } else {
            Self { tail: bisect(high, |tail| Self { tail, ..plain }.mean_over_median() < mean), ..plain }
        };
        fitted.has_mean().then_some(fitted)
    }

    /// Wide bands around a mean that is the median: the upper half alone has more than it, until the tail gives way too.
    fn with_a_shorter_tail(self, mean: f64) -> Self {
        let by =
            |share: f64| Self { low: self.low + share * (WIDEST - self.low), tail: self.tail * (1.0 - share), ..self };
        let (mut from, mut to) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(from, to);
            if by(middle).mean_over_median() > mean { from = middle } else { to = middle }
        }
        by(from)
    }

    fn has_mean(&self) -> bool {
        (self.mean_over_median() / self.mean - 1.0).abs() < 1e-6
    }

    fn ratio_at(&self, deviations: f64) -> f64 {
        let log = if deviations <= 0.0 {
            self.low * deviations
        } else if deviations <= NORMAL_90 {
            self.high * deviations
        } else {
            self.high * NORMAL_90 + self.tail * (deviations - NORMAL_90)
        };
        log.exp() / self.mean
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
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::draw::Draws;

    fn drawn(shape: &Shape) -> (f64, f64, f64) {
        let mut draws = Draws::new(7, 0);
        let mut all: Vec<f64> = (0..200_000).map(|_| shape.ratio_at(draws.normal())).collect();
        all.sort_by(f64::total_cmp);
        (all.iter().sum::<f64>() / all.len() as f64, all[all.len() / 2], all[all.len() / 10 * 9])
    }

    #[test]
    fn the_percentiles_and_the_mean_of_a_plan_come_back() {
        // On-demand, spot with a mean between, spot with a heavy tail, hardly any spread, a band as wide as that of a stranger.
        for (expected, p50, p90) in [
            (100.0, 100.0, 115.0),
            (35_210.0, 32_450.0, 49_576.0),
            (42_108.0, 38_635.0, 48_129.0),
            (5.0, 5.0, 5.0),
            (20.986, 20.986, 53.588),
        ] {
            let shape = Shape::fit(Quantiles { expected, p50, p90 }).unwrap();
            let (mean, median, ninety) = drawn(&shape);
            assert!((mean - 1.0).abs() < 0.01, "mean {mean} of {expected} {p50} {p90}");
            assert!((median * expected / p50 - 1.0).abs() < 0.01, "median {median} of {expected} {p50} {p90}");
            assert!((ninety * expected / p90 - 1.0).abs() < 0.01, "p90 {ninety} of {expected} {p50} {p90}");
        }
    }

    /// Two of three replays stay on spot, the third falls back: no log-normal has such a mean.
    #[test]
    fn a_cost_with_two_humps_keeps_them() {
        let mut costs: Vec<f64> = (0..30).map(|replay| 7.0 + 0.05 * f64::from(replay)).collect();
        costs.extend((0..15).map(|replay| 48.0 + 0.2 * f64::from(replay)));
        let mean = costs.iter().sum::<f64>() / 45.0;
        let figures = Quantiles { expected: mean, p50: costs[22], p90: costs[40] };
        assert_eq!(Shape::fit(Quantiles { expected: 12.0, p50: 7.76, p90: 53.95 }), None, "a plan with a fallback");
        let shape = Shape::replayed(&costs, figures).unwrap();
        let (found, median, ninety) = drawn(&shape);
        assert!((found - 1.0).abs() < 0.01, "mean {found}");
        assert!((median * mean / costs[22] - 1.0).abs() < 0.05, "median {median}");
        assert!((ninety * mean / figures.p90 - 1.0).abs() < 0.02, "p90 {ninety}");
        // Hardly a run costs what lies between the humps.
        let mut draws = Draws::new(11, 0);
        let between = (0..10_000).filter(|_| (12.0..40.0).contains(&(shape.ratio_at(draws.normal()) * mean))).count();
        assert!(between < 300, "{between} of 10,000");
        for bad in [&[][..], &[1.0], &[2.0, 1.0], &[0.0, 1.0], &[1.0, f64::NAN]] {
            assert_eq!(Shape::replayed(bad, figures), None, "{bad:?}");
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
