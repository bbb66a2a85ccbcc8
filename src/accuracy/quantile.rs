//! Quantiles and shares.

/// Weighted quantile.
pub fn quantile(mut points: Vec<(f64, f64)>, share: f64) -> f64 {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = points.iter().map(|(_, weight)| weight).sum();
    let mut passed = 0.0;
    for (value, weight) in &points {
        passed += weight;
        if passed >= share * total {
            return *value;
        }
    }
    points.last().map_or(0.0, |(value, _)| *value)
}

/// 0 of nothing.
pub fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_weighs_its_points() {
        let points = vec![(3.0, 1.0), (1.0, 1.0), (2.0, 8.0)];
        assert!((quantile(points.clone(), 0.8) - 2.0).abs() < 1e-12 && (quantile(points, 1.0) - 3.0).abs() < 1e-12);
        assert!(quantile(Vec::new(), 0.5).abs() < 1e-12);
    }
}
