//! Robust statistics of repeated measurements: median, spread from the median deviation, outliers told apart.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Median absolute deviation times this is the standard deviation of normal noise (Rousseeuw and Croux 1993, section 1).
const MAD_TO_DEVIATION: f64 = 1.482_602_218_505_602;
/// A sample further from the median than this many such deviations is an outlier (Iglewicz and Hoaglin 1993 advise 3.5).
const OUTLIER: f64 = 3.5;
/// Clocks tick and drivers queue: a deviation below this share of the median is no reason to call a sample an outlier.
const LEAST_DEVIATION: f64 = 0.002;

/// A set of samples in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    pub median_seconds: f64,
    /// Robust standard deviation over the median.
    pub spread: f64,
    pub samples: u32,
    /// Samples far from the median; they are told, and the median does not need them removed.
    pub outliers: u32,
}

impl Statistics {
    /// `None` without a sample, and for what no clock gives: negative, zero or not finite.
    pub fn from_samples(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|sample| !sample.is_finite() || *sample <= 0.0) {
            return None;
        }
        let median = median_of(samples.to_vec());
        let deviations: Vec<f64> = samples.iter().map(|sample| (sample - median).abs()).collect();
        let deviation = median_of(deviations.clone()) * MAD_TO_DEVIATION;
        let limit = OUTLIER * deviation.max(LEAST_DEVIATION * median);
        let outliers = deviations.iter().filter(|distance| **distance > limit).count();
        Some(Self {
            median_seconds: six_figures(median),
            spread: six_figures(deviation / median),
            samples: samples.len() as u32,
            outliers: outliers as u32,
        })
    }

    /// Read from a file: what a clock could have given.
    pub fn is_sane(&self) -> bool {
        self.median_seconds.is_finite()
            && self.median_seconds > 0.0
            && (0.0..1e3).contains(&self.spread)
            && self.samples > 0
    }
}

/// No clock knows more figures, and a file with so many reads back the same.
pub fn six_figures(number: f64) -> f64 {
    format!("{number:.5e}").parse().expect("a number is read as it was written")
}

/// Of at least one number.
fn median_of(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len().is_multiple_of(2) { f64::midpoint(numbers[middle - 1], numbers[middle]) } else { numbers[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_disturbed_sample_changes_little_and_is_told() {
        let quiet = Statistics::from_samples(&[1.00, 1.01, 0.99, 1.02, 0.98]).unwrap();
        let disturbed = Statistics::from_samples(&[1.00, 1.01, 0.99, 1.02, 0.98, 9.0]).unwrap();
        assert_eq!((quiet.median_seconds, quiet.outliers, disturbed.outliers), (1.0, 0, 1));
        assert!(disturbed.median_seconds < 1.01 && (disturbed.spread - quiet.spread).abs() < 0.02);
        // Identical samples but one: the tick of the clock, not an outlier.
        assert_eq!(Statistics::from_samples(&[1.0, 1.0, 1.0, 1.005]).unwrap().outliers, 0);
    }

    #[test]
    fn what_no_clock_gives_is_no_measurement() {
        for samples in [&[][..], &[0.0], &[-1.0], &[f64::NAN, 1.0], &[f64::INFINITY]] {
            assert_eq!(Statistics::from_samples(samples), None);
        }
    }

    proptest! {
        #[test]
        fn six_figures_are_near_any_number(number in prop_oneof![any::<f64>(), Just(f64::NAN), Just(f64::INFINITY), 1e-9..1e9_f64]) {
            let near = six_figures(number);
            prop_assert!(near == number || (near - number).abs() <= 1e-5 * number.abs() + f64::MIN_POSITIVE || number.is_nan(), "{near}");
            prop_assert!(near.is_nan() == number.is_nan() && six_figures(near).to_bits() == near.to_bits());
        }

        #[test]
        fn scaling_every_sample_scales_the_median_alone(samples in prop::collection::vec(1e-6..1e3_f64, 1..40), scale in 0.1..10.0_f64) {
            let (plain, scaled) = (Statistics::from_samples(&samples).unwrap(), samples.iter().map(|s| s * scale).collect::<Vec<_>>());
            let scaled = Statistics::from_samples(&scaled).unwrap();
            prop_assert!((scaled.median_seconds / plain.median_seconds / scale - 1.0).abs() < 2e-5);
            prop_assert!((scaled.spread - plain.spread).abs() <= 2e-5 * plain.spread + 1e-12);
            prop_assert!(plain.is_sane());
        }
    }
}
