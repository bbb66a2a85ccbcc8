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

impl Policy {
    /// Whether it goes by what was paid so far.
    pub fn counts_cost(&self) -> bool {
        matches!(self, Self::SemiMarkov(_))
    }
}

/// Decides the coming tick: what the rule wants, as far as there is money for it.
#[inline]
pub fn decide(policy: &Policy, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    nothing_new(policy, state, observation, limits).unwrap_or_else(|| asked(policy, state, observation, limits))
}

/// Kept out of the loops that call `decide`, so that most of their ticks are a few comparisons.
#[inline(never)]
fn asked(policy: &Policy, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    within_budget(wish(policy, state, observation, limits), state, limits)
}

/// Whether spot in the one pool of a job runs on for as long as there is slack to spare, whatever else is known.
#[inline]
pub fn goes_on_with_slack(policy: &Policy, limits: &Limits) -> bool {
    limits.budget.is_none() && matches!(policy, Policy::SemiMarkov(_) | Policy::SlackReserve)
}

/// Most ticks change nothing on the one pool of a job: spot runs on with slack to spare, on-demand while spot is down. What `asked` would say.
#[inline]
fn nothing_new(policy: &Policy, state: &State, observation: &Observation, limits: &Limits) -> Option<Decision> {
    let [pool] = observation.pools else { return None };
    let reason = match state.running {
        _ if !goes_on_with_slack(policy, limits) => return None,
        Action::Spot(_) if state.pending_worst <= 0.0 && safety::has_slack(state, limits) => Reason::StayOnSpot,
        Action::OnDemand(_) if !pool.up => Reason::StayOnDemand,
        _ => return None,
    };
    Some(Decision { action: state.running, reason })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::availability::AvailabilityModel;
    use crate::simulation::hindsight;

    const HOUR: f64 = 3600.0;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn what_is_not_asked_would_have_been_answered_so(
            (work, slack, changeover) in (0.2_f64..40.0, -1.0_f64..20.0, 0.02_f64..1.5),
            states in prop::collection::vec(
                (0.0_f64..60.0, 0.0_f64..1.2, 0_usize..3, prop_oneof![Just(0.0), 0.0_f64..1.0], any::<bool>(), 0.0_f64..30.0, 0.0_f64..1.0),
                1..40,
            ),
            on_demand in any::<bool>(),
        ) {
            let limits = hindsight::tests::limits(work * HOUR, (work + slack) * HOUR, changeover * HOUR, 3.0);
            let tables = Arc::new(Tables::new(&AvailabilityModel::prior(), &limits));
            let mut quick = 0;
            for (elapsed, left, running, pending, up, age, availability) in states {
                let state = State {
                    elapsed: elapsed * HOUR,
                    left: left * limits.work,
                    running: [Action::Idle, Action::Spot(0), Action::OnDemand(None)][running],
                    last_pool: (running > 0).then_some(0),
                    pending: pending * limits.changeover,
                    pending_worst: pending * limits.worst_changeover,
                    ..State::default()
                };
                let pools = [PoolView { up, age: age * HOUR, availability, frailty: 1.0 }];
                let seen = Observation { pools: &pools, on_demand };
                for policy in [Policy::SlackReserve, Policy::SemiMarkov(tables.clone())] {
                    if let Some(decision) = nothing_new(&policy, &state, &seen, &limits) {
                        quick += 1;
                        prop_assert_eq!(decision, asked(&policy, &state, &seen, &limits));
                    }
                }
            }
            prop_assume!(quick > 0);
        }
    }
}
