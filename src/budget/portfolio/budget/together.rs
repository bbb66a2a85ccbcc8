//! How many machines of every pool to commit to, chosen at once with the runs that take them and what is rented on spot and on demand.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::portfolio::Portfolio;
use crate::portfolio::assignment::{Choice, assign, choose};
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::pool_lines::paid_in;
use gpuplan_market::capacity::pool::Pool;
use gpuplan_units::{Usd, UsdPerHour};

/// The numbers of machines that save most beyond what they cost, of up to twice as many as there are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BestCommitment {
    /// Machines, in the order of `pools`; own machines are as many as they are.
    pub nodes: Vec<u32>,
    /// Cash for committed machines, used or not.
    pub paid_usd: Usd,
    /// Of rent, against holding none at all.
    pub saved_usd: Usd,
    /// What is saved beyond what is paid; negative: renting everything is cheaper, and own machines do not make up for it.
    pub net_usd: Usd,
    /// The same with the machines as they are now.
    pub net_usd_now: Usd,
    /// No numbers save more than this.
    pub most_net_usd: Usd,
    /// What is rented beside them on spot and on demand.
    pub rented_on_spot_usd: Usd,
    pub rented_on_demand_usd: Usd,
}

/// With every run needing `work` times its hours. `None`: beyond counting, or nothing is committed to.
pub fn best_commitment(portfolio: &Portfolio, costed: &[CostedPhase], work: f64) -> Option<BestCommitment> {
    let now: Vec<u32> = portfolio.pools.iter().map(|pool| pool.nodes).collect();
    let of_nodes = |nodes: &[u32]| -> Vec<Pool> {
        portfolio.pools.iter().zip(nodes).map(|(pool, nodes)| Pool { nodes: *nodes, ..pool.clone() }).collect()
    };
    let paid = |pool: &Pool| -> Usd { portfolio.all_months().map(|month| paid_in(pool, month)).sum() };
    let is_committed = |pool: &Pool| pool.paid > UsdPerHour::default() && pool.nodes > 0;
    let choice = |pool: &Pool| Choice {
        most: pool.nodes.saturating_mul(2),
        paid: paid(&Pool { nodes: 1, ..pool.clone() }).dollars(),
    };
    let chosen: BTreeMap<usize, Choice> = portfolio
        .pools
        .iter()
        .enumerate()
        .filter(|(_, pool)| is_committed(pool))
        .map(|(at, pool)| (at, choice(pool)))
        .collect();
    if chosen.is_empty() {
        return None;
    }
    let most: Vec<u32> =
        now.iter().enumerate().map(|(at, nodes)| chosen.get(&at).map_or(*nodes, |choice| choice.most)).collect();
    let sizing = choose(portfolio, &of_nodes(&most), &chosen, costed, work)?;
    // The solver is right to within its tolerance: what counts is what the runs can be given.
    let outcome = |nodes: &[u32]| {
        let pools = of_nodes(nodes);
        let assignment = assign(portfolio, &pools, costed, work);
        (pools.iter().map(paid).sum::<Usd>(), assignment)
    };
    let cents = |dollars: f64| Usd::from_dollars((dollars * 100.0).round() / 100.0);
    let (paid_now, assigned_now) = outcome(&now);
    let net_usd_now = cents(assigned_now.saved_usd)? - paid_now;
    let (paid_best, assigned_best) = outcome(&sizing.nodes);
    let best_net = cents(assigned_best.saved_usd)? - paid_best;
    let (nodes, paid_usd, assigned) =
        if best_net > net_usd_now { (sizing.nodes, paid_best, assigned_best) } else { (now, paid_now, assigned_now) };
    let rented = |is_spot: bool| {
        let of_phase = |(costed, placed): (&CostedPhase, &Vec<_>)| {
            let left = CostedPhase { placed, ..*costed }.rented();
            if costed.once.is_spot() == is_spot {
                work * f64::from(left) * costed.once.cost.expected.dollars()
            } else {
                0.0
            }
        };
        cents(costed.iter().zip(&assigned.placed).map(of_phase).sum())
    };
    let saved_usd = cents(assigned.saved_usd)?;
    let net_usd = saved_usd - paid_usd;
    Some(BestCommitment {
        nodes,
        paid_usd,
        saved_usd,
        net_usd,
        net_usd_now,
        most_net_usd: cents(sizing.bound_usd)?.max(net_usd),
        rented_on_spot_usd: rented(true)?,
        rented_on_demand_usd: rented(false)?,
    })
}
