//! How many draws there are, and what they come to: percentiles, and the chance to stay within a budget.

use gpuplan_units::{Quantiles, Usd};

pub const DRAWS: usize = 10_000;

/// Cost of a figure under risk, from draws, of which there are some. `None`: beyond counting.
pub fn quantiles(draws: &mut [f64], expected: Usd) -> Option<Quantiles<Usd>> {
    draws.sort_by(f64::total_cmp);
    let percentile = |share: f64| Usd::from_dollars(draws[((share * draws.len() as f64).ceil() as usize).max(1) - 1]);
    Some(Quantiles { expected, p50: percentile(0.5)?, p90: percentile(0.9)? })
}

/// Mean and percentiles of draws that need not keep their order. `None`: beyond counting.
pub fn spread(mut draws: Vec<f64>) -> Option<Quantiles<f64>> {
    let expected = draws.iter().sum::<f64>() / draws.len() as f64;
    let found = quantiles(&mut draws, Usd::from_dollars(expected)?)?;
    Some(Quantiles { expected, p50: found.p50.dollars(), p90: found.p90.dollars() })
}

/// Share of the draws that cost no more.
pub fn chance_within(draws: &[f64], budget: Usd) -> f64 {
    draws.iter().filter(|cost| **cost <= budget.dollars()).count() as f64 / draws.len().max(1) as f64
}
