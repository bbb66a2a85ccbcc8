//! What to run in the coming tick: one pure `decide`, called by the replay, the forecast and the controller alike.
//!
//! It sees what a controller can see: its own job, and each pool as the last probe left it. It never sees the future.

mod decision;
mod limits;
mod observation;
pub mod pools;
pub mod reason;
pub mod rules;
pub mod safety;
pub mod semi_markov;
pub mod slack_reserve;
mod state;

pub use decision::{Action, Decision};
pub use limits::{Limits, PoolTerms, WORST_CHANGEOVER_RATIO};
pub use observation::{Observation, PoolView};
pub use state::State;

use std::sync::Arc;

use crate::policy::reason::Reason;
use crate::policy::semi_markov::Tables;

/// A rule for what to run.
#[derive(Clone, Debug)]
pub enum Policy {
    OnDemand,
    /// Spot whenever it is up, without a thought for the deadline.
    SpotOnly,
    Greedy,
    /// Equal shares of the work in equal shares of the time.
    TimeSliced {
        slices: u32,
    },
    UniformProgress,
    /// A reference that no controller can run: it knows how long spot will last.
    UniformProgressOracle(Arc<[f64]>),
    SlackReserve,
    SemiMarkov(Arc<Tables>),
}

/// Decides the coming tick: what the rule wants, as far as there is money for it.
#[inline]
pub fn decide(policy: &Policy, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    within_budget(wish(policy, state, observation, limits), state, limits)
}

/// Lets a decision pass if there is money for its next tick.
#[inline]
pub fn within_budget(decision: Decision, state: &State, limits: &Limits) -> Decision {
    let Some(budget) = limits.budget.filter(|_| decision.action != Action::Idle) else { return decision };
    let last = state.last_pool.filter(|_| decision.action != state.running);
    let is_affordable = limits.cost(decision.action, last).is_some_and(|cost| state.spent + cost <= budget);
    if is_affordable { decision } else { Decision { action: Action::Idle, reason: Reason::BudgetReached } }
}

#[inline]
fn wish(policy: &Policy, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let decision = match policy {
        Policy::OnDemand => rules::on_demand(limits),
        Policy::SpotOnly => rules::spot_only(state, observation, limits),
        Policy::Greedy => rules::greedy(state, observation, limits),
        Policy::TimeSliced { slices } => rules::time_sliced(*slices, state, observation, limits),
        Policy::UniformProgress => rules::uniform_progress(state, observation, limits),
        Policy::UniformProgressOracle(lasts) => rules::uniform_progress_oracle(lasts, state, observation, limits),
        Policy::SlackReserve => slack_reserve::decide(state, observation, limits),
        Policy::SemiMarkov(tables) => semi_markov::decide(tables, state, observation, limits),
    };
    if !decision.action.is_on_demand() || state.running.is_on_demand() || observation.on_demand {
        return decision;
    }
    // On-demand machines are sold out: spot is better than waiting, and the next tick asks again.
    match (state.running, pools::best(state, observation, limits)) {
        (Action::Spot(_), _) => Decision { action: state.running, reason: Reason::SoldOutTakeSpot },
        (_, Some(pool)) => Decision { action: Action::Spot(pool), reason: Reason::SoldOutTakeSpot },
        _ => Decision { action: Action::Idle, reason: Reason::SoldOut },
    }
}
