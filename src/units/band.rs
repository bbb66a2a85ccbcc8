//! `Band`: a prediction with its 10th and 90th percentile. `Quantiles`: a figure under risk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A prediction: 10th percentile, best guess, 90th percentile, in the unit that the field's name says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Band {
    pub low: f64,
    pub expected: f64,
    pub high: f64,
}

/// A figure under risk: mean, median and 90th percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles<T> {
    pub expected: T,
    pub p50: T,
    pub p90: T,
}

impl Band {
    /// `expected` with relative limits, such as 0.85 and 1.16.
    pub fn around(expected: f64, low_ratio: f64, high_ratio: f64) -> Self {
        Self { low: expected * low_ratio, expected, high: expected * high_ratio }
    }

    /// Every point through an increasing function.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.low), expected: f(self.expected), high: f(self.high) }
    }

    /// Every point through a decreasing function, such as time to rate: the ends change places.
    pub fn map_decreasing(self, f: impl Fn(f64) -> f64) -> Self {
        Self { low: f(self.high), expected: f(self.expected), high: f(self.low) }
    }

    /// A product of figures whose errors have nothing in common: the logarithms of their relative limits add up as the sides of a right
    /// angle do (independent log-normal errors).
    pub fn times(self, other: Self) -> Self {
        let expected = self.expected * other.expected;
        let ratio = |one: f64, of: f64| (one / of).ln();
        let low = ratio(self.low, self.expected).hypot(ratio(other.low, other.expected));
        let high = ratio(self.high, self.expected).hypot(ratio(other.high, other.expected));
        Self { low: expected * (-low).exp(), expected, high: expected * high.exp() }
    }

    /// A sum of figures whose errors are one error: each limit adds up.
    pub fn plus(self, other: Self) -> Self {
        Self { low: self.low + other.low, expected: self.expected + other.expected, high: self.high + other.high }
    }

    pub fn is_finite(self) -> bool {
        self.low.is_finite() && self.expected.is_finite() && self.high.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_less_uncertain_than_its_limits_multiplied() {
        let product = Band::around(2.0, 0.5, 2.0).times(Band::around(3.0, 0.5, 2.0));
        assert_eq!(product.expected, 6.0);
        let ratio = (2.0_f64.ln() * 2.0_f64.sqrt()).exp();
        assert!((product.high / 6.0 - ratio).abs() < 1e-12 && (6.0 / product.low - ratio).abs() < 1e-12);
        let exact = Band::around(2.0, 0.5, 2.0).times(Band::around(3.0, 1.0, 1.0));
        assert!((exact.low - 3.0).abs() < 1e-12 && (exact.high - 12.0).abs() < 1e-12);
    }

    #[test]
    fn a_rate_from_a_time_keeps_low_below_high() {
        let rate = Band::around(2.0, 0.5, 2.0).map_decreasing(|seconds| 1.0 / seconds);
        assert!(rate.low < rate.expected && rate.expected < rate.high);
    }
}
