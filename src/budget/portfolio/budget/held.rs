//! Own and committed machines in a budget: what they cost, what the runs use of them, and what one more would be worth.

use schemars::JsonSchema;
use serde::Serialize;

use crate::portfolio::Portfolio;
use crate::portfolio::assignment::{Assignment, RULE, machine_hours_in};
use crate::portfolio::budget::sizes::{PoolSize, best_nodes, pool_sizes};
use crate::portfolio::budget::together::{BestCommitment, best_commitment};
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::pool_lines::paid_in;
use gpuplan_market::capacity::pool::Pool;
use gpuplan_units::Usd;

/// What the runs of a portfolio use of the machines that are held, before tax but for `full_cost_usd`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeldMachines {
    pub pools: Vec<PoolFigures>,
    /// The expected total, which is cash, and what own machines lose in value in these months, used or not.
    pub full_cost_usd: Usd,
    /// Work of one of ten outcomes, as part of what is expected: `net_usd_with_less_work` rests on it.
    pub less_work: f64,
    /// Against renting everything, beside what is paid anyway.
    pub saved_usd: Usd,
    /// No assignment of runs to these machines saves more than this.
    pub most_saved_usd: Usd,
    /// How many machines of all committed pools together save most; absent: nothing is committed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<BestCommitment>,
    /// The same where every run needs only as much as in one of ten outcomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_with_less_work: Option<BestCommitment>,
    /// How runs and machines were brought together.
    pub rule: &'static str,
}

/// Machines of one `[[own]]` or `[[committed]]`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PoolFigures {
    pub name: String,
    pub cloud: String,
    pub instance_type: String,
    pub nodes: u32,
    /// Machine-hours in the months of the portfolio, and those that runs are expected to use.
    pub held_hours: f64,
    pub used_hours: f64,
    /// Cash for the machines, used or not.
    pub paid_usd: Usd,
    /// What they lose in value, used or not, which is not cash.
    pub depreciation_usd: Usd,
    /// That one machine more would save over these months, beside what it is paid for.
    pub one_more_saves_usd: Usd,
    /// The number of machines among `sizes` that saves most beyond what it costs; as many as now where none is looked at.
    pub best_nodes: u32,
    /// What other numbers of machines would save; none where the machines are not there in these months.
    pub sizes: Vec<PoolSize>,
}

/// `None`: beyond counting.
pub fn held_machines(
    portfolio: &Portfolio,
    costed: &[CostedPhase],
    assignment: &Assignment,
    used_hours: &[f64],
    total: Usd,
    less_work: f64,
) -> Option<HeldMachines> {
    let cents = |dollars: f64| Usd::from_dollars((dollars * 100.0).round() / 100.0);
    let figures = |((at, pool), used): ((usize, &Pool), &f64)| {
        let sizes = pool_sizes(portfolio, costed, at, less_work)?;
        let saved = |nodes| sizes.iter().find(|size| size.nodes == nodes).map_or(Usd::ZERO, |size| size.saved_usd);
        let held_hours: f64 = portfolio.all_months().map(|month| machine_hours_in(pool, month)).sum();
        Some(PoolFigures {
            name: pool.name.clone(),
            cloud: pool.cloud.clone(),
            instance_type: pool.instance_type.clone(),
            nodes: pool.nodes,
            held_hours,
            used_hours: *used,
            paid_usd: portfolio.all_months().map(|month| paid_in(pool, month)).sum(),
            depreciation_usd: pool.depreciation.for_hours(1, held_hours)?,
            one_more_saves_usd: saved(pool.nodes.saturating_add(1)) - saved(pool.nodes),
            best_nodes: best_nodes(&sizes).unwrap_or(pool.nodes),
            sizes,
        })
    };
    let pools: Vec<PoolFigures> =
        portfolio.pools.iter().enumerate().zip(used_hours).map(figures).collect::<Option<_>>()?;
    let depreciation: Usd = pools.iter().map(|pool| pool.depreciation_usd).sum();
    Some(HeldMachines {
        full_cost_usd: total + depreciation,
        less_work,
        best: best_commitment(portfolio, costed, 1.0),
        best_with_less_work: best_commitment(portfolio, costed, less_work),
        saved_usd: cents(assignment.saved_usd)?,
        most_saved_usd: cents(assignment.bound_usd.max(assignment.saved_usd))?,
        rule: RULE,
        pools,
    })
}
