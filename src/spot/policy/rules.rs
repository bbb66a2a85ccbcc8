//! The published rules, exactly as their public code has them: baselines, and references for the golden vectors.

use crate::policy::reason::Reason;
use crate::policy::safety::{is_safe, published_net, whole_ticks_down, whole_ticks_up};
use crate::policy::{Action, Decision, Limits, Observation, PoolView, State, pools};

pub fn on_demand(limits: &Limits) -> Decision {
    Decision { action: limits.cheapest_on_demand(), reason: Reason::AlwaysOnDemand }
}

/// Spot where it runs already, else the best pool that is up, else nothing.
pub fn spot_only(state: &State, observation: &Observation, limits: &Limits) -> Decision {
    match (state.running, pools::best(state, observation, limits)) {
        (Action::Spot(_), _) => Decision { action: state.running, reason: Reason::StayOnSpot },
        (_, Some(pool)) => Decision { action: Action::Spot(pool), reason: Reason::SpotIsUp },
        _ => Decision { action: Action::Idle, reason: Reason::WaitForSpot },
    }
}

/// Spot whenever it is up, idle otherwise, until the net catches it.
pub fn greedy(state: &State, observation: &Observation, limits: &Limits) -> Decision {
    published_net(spot_only(state, observation, limits), state, observation, limits)
}

/// Uniform progress (Wu et al., NSDI'24): on-demand whenever less is done than an even pace asks. It never idles from on-demand.
pub fn uniform_progress(state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let done = limits.work - state.left;
    let pace = limits.work / limits.deadline;
    let wish = match state.running {
        Action::Spot(_) => Decision { action: state.running, reason: Reason::StayOnSpot },
        Action::Idle => match pools::best(state, observation, limits) {
            Some(pool) => Decision { action: Action::Spot(pool), reason: Reason::SpotIsUp },
            None if done < state.elapsed * pace => {
                Decision { action: limits.cheapest_on_demand(), reason: Reason::BehindSchedule }
            }
            None => Decision { action: Action::Idle, reason: Reason::WaitForSpot },
        },
        Action::OnDemand(_) => match pools::best(state, observation, limits) {
            Some(pool) if done > (state.elapsed + 2.0 * limits.changeover) * limits.work / limits.deadline => {
                Decision { action: Action::Spot(pool), reason: Reason::AheadOfSchedule }
            }
            _ => Decision { action: state.running, reason: Reason::StayOnDemand },
        },
    };
    published_net(wish, state, observation, limits)
}

/// Uniform progress that starts spot where it will last long enough to pay for its changeovers, and only there (NSDI'24, "next
/// spot lifetime oracle"). `lasts` are the seconds that the one pool stays up from each tick on.
pub fn uniform_progress_oracle(lasts: &[f64], state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let usual = || uniform_progress(state, observation, limits);
    let changeovers = match state.running {
        Action::Idle => 1.0,
        Action::OnDemand(_) => 2.0,
        Action::Spot(_) => return usual(),
    };
    let Some(pool) = pools::best(state, observation, limits) else { return usual() };
    let ratio = limits.on_demand.dollars() / limits.rate(Action::Spot(pool)).dollars();
    let tick = (state.elapsed / limits.tick).round() as usize;
    let pays = changeovers * ratio * limits.changeover / (ratio - 1.0);
    if ratio > 1.0 && lasts.get(tick).is_some_and(|lasts| *lasts > pays) {
        return published_net(
            Decision { action: Action::Spot(pool), reason: Reason::SpotIsUp },
            state,
            observation,
            limits,
        );
    }
    let down: Vec<PoolView> = observation.pools.iter().map(|view| PoolView { up: false, ..*view }).collect();
    uniform_progress(state, &Observation { pools: &down, ..*observation }, limits)
}

/// Equal slices of the time, each with its share of the work (NSDI'24, the deterministic form).
pub fn time_sliced(slices: u32, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let slice = limits.deadline / f64::from(slices);
    let index = (state.elapsed / slice + 1e-9).floor() + 1.0;
    let behind = index * limits.work / f64::from(slices) - (limits.work - state.left);
    let time = index * slice - state.elapsed;
    let spot = spot_only(state, observation, limits);
    let need = whole_ticks_up(state.left + 2.0 * limits.changeover, limits.tick);
    let trigger = whole_ticks_down(state.until(limits), limits.tick) < need || !is_safe(spot.action, state, limits);
    match state.running {
        Action::Spot(_) => spot,
        Action::OnDemand(_) if trigger || behind > 0.0 => {
            Decision { action: state.running, reason: Reason::BehindSchedule }
        }
        Action::Idle if trigger => Decision { action: limits.cheapest_on_demand(), reason: Reason::KeepDeadline },
        Action::Idle if behind > 0.0 && time < behind + 2.0 * limits.changeover => {
            Decision { action: limits.cheapest_on_demand(), reason: Reason::BehindSchedule }
        }
        _ => spot,
    }
}
