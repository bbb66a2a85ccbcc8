//! `Shape`: how the cost of a run spreads, as its plan has it: by its replays, or through its median and the 80 % band of its estimate.

use std::f64::consts::PI;

use gpuplan_plan::normal::{NORMAL_90, deviations};
use gpuplan_units::{Band, Quantiles};

/// No replays are spread by a higher power than this; their 90th percentile stays below the plan's then.
const WIDEST: f64 = 8.0;

/// Halvings until a spread is found.
const HALVINGS: usize = 60;

/// How a cost or a time spreads, as a ratio to what is expected: the bill of its plan, which draws need not have for a mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Banded(Halves),
    Replayed(Replays),
}

/// A log-normal in two halves, each by itself: what is likely below the median, and what above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Halves {
    /// Over what is expected.
    median: f64,
    /// Standard deviations of the logarithm.
    below: f64,
    above: f64,
}

/// Costs of replays as ratios to their mean, at equal steps of probability: on spot they have two humps, where no log-normal fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Replays {
    /// Standard deviations from the median, and the ratio there.
    points: Vec<(f64, f64)>,
}

impl Shape {
    /// Through the median and the 90th percentile of `figures`. The 10th lies as far below the median as the low end of what was `estimated`
    /// lies below its best guess, or nearer where a part of the cost does not depend on the estimate. `None`: they are no costs.
    pub fn banded(figures: Quantiles<f64>, estimated: Band) -> Option<Self> {
        Halves::new(figures, estimated).map(Self::Banded)
    }

    /// From costs at equal steps of probability, cheapest first, spread until the 90th percentile is that of `figures`, which knows of
    /// uncertain prices too. `None`: they are no costs.
    pub fn replayed(costs: &[f64], figures: Quantiles<f64>) -> Option<Self> {
        Replays::new(costs, figures.p90 / figures.expected).map(Self::Replayed)
    }

    /// Ratio to what is expected at so many standard deviations.
    pub fn ratio_at(&self, deviations: f64) -> f64 {
        match self {
            Self::Banded(halves) => halves.ratio_at(deviations),
            Self::Replayed(replays) => replays.ratio_at(deviations),
        }
    }

    /// Standard deviation of the logarithm above the median.
    pub fn spread(&self) -> f64 {
        match self {
            Self::Banded(halves) => halves.above,
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

impl Halves {
    fn new(figures: Quantiles<f64>, estimated: Band) -> Option<Self> {
        let Quantiles { expected, p50, p90 } = figures;
        if expected == 0.0 && p50 == 0.0 {
            return Some(Self { median: 1.0, below: 0.0, above: 0.0 });
        }
        let up = (p90 / p50).ln();
        let (down, most_up) = ((estimated.expected / estimated.low).ln(), (estimated.high / estimated.expected).ln());
        let is_cost = expected > 0.0 && p50 > 0.0 && expected.is_finite() && up.is_finite() && up >= 0.0;
        let is_band = down.is_finite() && down >= 0.0 && most_up.is_finite() && most_up >= 0.0;
        // What is dearer by less than the estimate may be off is cheaper by less too.
        let share = if up < most_up { up / most_up } else { 1.0 };
        (is_cost && is_band).then(|| Self {
            median: p50 / expected,
            below: share * down / NORMAL_90,
            above: up / NORMAL_90,
        })
    }

    fn ratio_at(&self, deviations: f64) -> f64 {
        let half = if deviations < 0.0 { self.below } else { self.above };
        self.median * (half * deviations).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::draw::Draws;

    const DRAWN: usize = 200_000;

    /// Sorted.
    fn drawn(shape: &Shape) -> Vec<f64> {
        let mut draws = Draws::new(7, 0);
        let mut all: Vec<f64> = (0..DRAWN).map(|_| shape.ratio_at(draws.normal())).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Whose band is as wide below as above.
    fn even(figures: Quantiles<f64>) -> Option<Shape> {
        Shape::banded(figures, Band { low: figures.p50 / figures.p90, expected: 1.0, high: figures.p90 / figures.p50 })
    }

    #[test]
    fn the_median_and_the_band_of_an_estimate_come_back() {
        // A run that is like many, one whose band is wider above, and one like no other, whose band is a factor of 2.55 either way.
        for (low, high) in [(0.9, 1.1), (0.7, 1.8), (1.0 / 2.55, 2.55)] {
            let figures = Quantiles { expected: 20.0, p50: 20.0, p90: 20.0 * high };
            let all = drawn(&Shape::banded(figures, Band { low, expected: 1.0, high }).unwrap());
            for (share, ratio) in [(0.1, low), (0.5, 1.0), (0.9, high)] {
                let found = all[(share * DRAWN as f64) as usize];
                assert!((found / ratio - 1.0).abs() < 0.02, "{share}: {found} where {ratio} is meant");
            }
        }
    }

    /// A log-normal of this median and band has 17.1 % of its draws under half of the median, and .08 % under a tenth.
    #[test]
    fn hardly_a_draw_of_a_wide_band_lies_under_a_tenth_of_its_median() {
        let all = drawn(&even(Quantiles { expected: 20.986, p50: 20.986, p90: 53.588 }).unwrap());
        let under = |ratio: f64| all.partition_point(|cost| *cost < ratio) as f64 / DRAWN as f64;
        assert!(under(0.1) < 0.002, "{} under a tenth of the median", under(0.1));
        assert!((under(0.5) - 0.171).abs() < 0.005, "{} under half of the median", under(0.5));
        assert!((1.0 - under(2.0) - 0.171).abs() < 0.005, "{} over twice the median", 1.0 - under(2.0));
    }

    #[test]
    fn what_does_not_depend_on_the_estimate_narrows_both_sides() {
        // Half of the cost is stored data: twice as slow a run costs half as much again.
        let figures = Quantiles { expected: 100.0, p50: 100.0, p90: 150.0 };
        let all = drawn(&Shape::banded(figures, Band { low: 0.5, expected: 1.0, high: 2.0 }).unwrap());
        assert!((all[DRAWN / 10] - 1.0 / 1.5).abs() < 0.01, "{}", all[DRAWN / 10]);
    }

    /// Two of three replays stay on spot, the third falls back: no log-normal has such a mean.
    #[test]
    fn a_cost_with_two_humps_keeps_them() {
        let mut costs: Vec<f64> = (0..30).map(|replay| 7.0 + 0.05 * f64::from(replay)).collect();
        costs.extend((0..15).map(|replay| 48.0 + 0.2 * f64::from(replay)));
        let mean = costs.iter().sum::<f64>() / 45.0;
        let figures = Quantiles { expected: mean, p50: costs[22], p90: costs[40] };
        let shape = Shape::replayed(&costs, figures).unwrap();
        let all = drawn(&shape);
        let (found, median, ninety) = (all.iter().sum::<f64>() / DRAWN as f64, all[DRAWN / 2], all[DRAWN / 10 * 9]);
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
    fn what_costs_nothing_never_spreads_and_what_is_no_cost_is_refused() {
        for (expected, p50, p90) in
            [(1.0, 0.0, 3.0), (1.0, 2.0, 1.0), (0.0, 1.0, 2.0), (f64::NAN, 1.0, 2.0), (1.0, 1.0, f64::INFINITY)]
        {
            assert_eq!(even(Quantiles { expected, p50, p90 }), None, "{expected} {p50} {p90}");
        }
        let figures = Quantiles { expected: 1.0, p50: 1.0, p90: 2.0 };
        for (low, high) in [(0.0, 2.0), (2.0, 2.0), (0.5, 0.9), (f64::NAN, 2.0)] {
            assert_eq!(Shape::banded(figures, Band { low, expected: 1.0, high }), None, "{low} {high}");
        }
        assert_eq!(even(Quantiles::default()).unwrap().ratio_at(1.0), 1.0);
    }
}
