//! Slack reserve with an age gate: wait while there is more slack than a reserve, leave on-demand only for spot that has lasted.

use crate::policy::reason::Reason;
use crate::policy::safety::{EPSILON, keep_deadline};
use crate::policy::{Action, Decision, Limits, Observation, State, pools};

/// The three tuned numbers, from a grid of 32 points over seven job shapes on the AWS probes of October 2022; the best four
/// points lay within 0.25 % of each other. Reserve: this many changeovers and this share of the work left.
const RESERVE_CHANGEOVERS: f64 = 5.0;
const RESERVE_OF_WORK: f64 = 0.10;
/// On-demand is left for spot that has been up for this many changeovers.
const GATE_CHANGEOVERS: f64 = 2.5;
/// And only while the slack pays for two changeovers, there and back.
const RETURN_CHANGEOVERS: f64 = 2.0;

pub fn decide(state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let slack = state.until(limits) - state.left;
    let best = pools::best(state, observation, limits);
    let wish = match (state.running, best) {
        (Action::Spot(_), _) => Decision { action: state.running, reason: Reason::StayOnSpot },
        (Action::Idle, Some(pool)) => Decision { action: Action::Spot(pool), reason: Reason::SpotIsUp },
        (Action::Idle, None)
            if slack > RESERVE_CHANGEOVERS * limits.changeover + RESERVE_OF_WORK * state.left + EPSILON =>
        {
            Decision { action: Action::Idle, reason: Reason::WaitForSpot }
        }
        (Action::Idle, None) => Decision { action: limits.cheapest_on_demand(), reason: Reason::NoTimeToWait },
        (Action::OnDemand(_), Some(pool))
            if slack > RETURN_CHANGEOVERS * limits.changeover + EPSILON
                && observation.pools[pool].age >= GATE_CHANGEOVERS * limits.changeover - 1e-6 =>
        {
            Decision { action: Action::Spot(pool), reason: Reason::SpotHasLasted }
        }
        (Action::OnDemand(_), _) => Decision { action: state.running, reason: Reason::StayOnDemand },
    };
    keep_deadline(wish, state, limits)
}
