//! How many machines to hold: what a pool of another size would save, with as much work as is expected and with less.

use schemars::JsonSchema;
use serde::Serialize;

use crate::portfolio::assignment::{assign, machine_hours_in};
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::pool_lines::paid_in;
use crate::portfolio::simulation::{EstimateCorrelation, simulate};
use crate::portfolio::{Portfolio, Tax};
use gpuplan_market::capacity::pool::Pool;
use gpuplan_units::Usd;

/// A pool of so many machines, beside the other pools as they are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PoolSize {
    pub nodes: u32,
    /// Cash for the machines, used or not.
    pub paid_usd: Usd,
    /// Of rent, against holding none of them.
    pub saved_usd: Usd,
    /// What is saved beyond what is paid; negative: holding so many costs more than renting.
    pub net_usd: Usd,
    /// The same where every run needs only as much as in one of ten outcomes.
    pub net_usd_with_less_work: Usd,
}

/// Work of one of ten outcomes, as part of what is expected: the tenth percentile of what the runs would cost if all were rented.
pub fn less_work(portfolio: &Portfolio, costed: &[CostedPhase], now: Month, seed: u64) -> Option<f64> {
    let without = Portfolio { pools: Vec::new(), commitments: Vec::new(), tax: Tax::default(), ..portfolio.clone() };
    let rented: Vec<CostedPhase> = costed.iter().map(|costed| CostedPhase { placed: &[], ..*costed }).collect();
    let mut draws = simulate(&without, &rented, EstimateCorrelation::MEASURED, now, seed)?.groups.total;
    draws.sort_by(f64::total_cmp);
    let all = |costed: &CostedPhase| costed.once.cost.expected.dollars() * f64::from(costed.phase.repeats);
    let expected: f64 = costed.iter().map(all).sum();
    // Of runs that cost nothing there is no less.
    Some(
        draws
            .get(draws.len() / 10)
            .map(|low| low / expected)
            .filter(|share| share.is_finite())
            .map_or(1.0, |share| share.min(1.0)),
    )
}

/// None, half, three quarters, as many as now, one more, half as many more and twice as many.
fn sizes(nodes: u32) -> Vec<u32> {
    let mut sizes = vec![
        0,
        nodes / 2,
        nodes - nodes / 4,
        nodes,
        nodes.saturating_add(1),
        nodes.saturating_add(nodes / 2),
        nodes.saturating_mul(2),
    ];
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The fewest machines that save most.
pub fn best_nodes(sizes: &[PoolSize]) -> Option<u32> {
    // Of equals the last is the maximum.
    sizes.iter().rev().max_by_key(|size| size.net_usd).map(|size| size.nodes)
}

/// Of the pool with this number. `None`: beyond counting.
pub fn pool_sizes(portfolio: &Portfolio, costed: &[CostedPhase], at: usize, less_work: f64) -> Option<Vec<PoolSize>> {
    let saved = |nodes: u32, work: f64| {
        let mut pools = portfolio.pools.clone();
        pools[at].nodes = nodes;
        assign(portfolio, &pools, costed, work).saved_usd
    };
    let cents = |dollars: f64| Usd::from_dollars((dollars * 100.0).round() / 100.0);
    let (none, none_with_less) = (saved(0, 1.0), saved(0, less_work));
    let of_size = |nodes: u32| {
        let pool = Pool { nodes, ..portfolio.pools[at].clone() };
        let paid_usd: Usd = portfolio.all_months().map(|month| paid_in(&pool, month)).sum();
        // An assignment within a tolerance may save a little less with more machines.
        let saved_usd = cents((saved(nodes, 1.0) - none).max(0.0))?;
        let with_less = cents((saved(nodes, less_work) - none_with_less).max(0.0))?;
        Some(PoolSize {
            nodes,
            paid_usd,
            saved_usd,
            net_usd: saved_usd - paid_usd,
            net_usd_with_less_work: with_less - paid_usd,
        })
    };
    let is_there = portfolio.all_months().any(|month| machine_hours_in(&portfolio.pools[at], month) > 0.0);
    sizes(portfolio.pools[at].nodes).into_iter().filter(|_| is_there).map(of_size).collect()
}
