//! The normal distribution, counted in units of its 90th percentile, as bands and percentiles are given.

use gpuplan_units::Band;

/// 90th percentile of the standard normal distribution.
pub const NORMAL_90: f64 = 1.281_551_6;

/// Deviations of the standard normal distribution at `share`, in units of its 90th percentile, by halving.
pub fn deviations(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if normal_distribution(middle) < share { low = middle } else { high = middle }
    }
    low / NORMAL_90
}

/// A point of a band as a split log-normal: -1 is its 10th percentile, 0 the best guess, 1 its 90th percentile.
pub fn point(band: Band, deviations: f64) -> f64 {
    let ratio = if deviations >= 0.0 { band.high / band.expected } else { band.expected / band.low };
    band.expected * ratio.powf(deviations)
}

/// Abramowitz and Stegun 1964, formula 26.2.17; absolute error below 7.5e-8.
pub fn normal_distribution(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let series =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series;
    if x >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certainty_is_counted_in_ninetieth_percentiles() {
        assert!(
            (deviations(0.9) - 1.0).abs() < 1e-6
                && deviations(0.5).abs() < 1e-6
                && (deviations(0.1) + 1.0).abs() < 1e-6
        );
        let band = Band { low: 8.0, expected: 10.0, high: 15.0 };
        assert!((point(band, 1.0) - 15.0).abs() < 1e-9 && (point(band, -1.0) - 8.0).abs() < 1e-9);
    }

    #[test]
    fn the_normal_distribution_is_the_table_s() {
        for (x, p) in [(0.0, 0.5), (1.281_551_6, 0.9), (-1.281_551_6, 0.1), (3.0, 0.998_650)] {
            assert!((normal_distribution(x) - p).abs() < 1e-6, "{x}");
        }
    }
}
