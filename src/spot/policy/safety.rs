//! Whether the deadline still holds after a tick if everything that may go wrong does, and whether the cost stays bounded.

use crate::policy::reason::Reason;
use crate::policy::{Action, Decision, Limits, Observation, State};

/// Rounding errors of sums of seconds stay far below this.
pub const EPSILON: f64 = 1e-6;

/// Up to whole ticks, since a tick is paid and used in full.
pub fn whole_ticks_up(seconds: f64, tick: f64) -> f64 {
    (seconds / tick - 1e-9).ceil() * tick
}

pub fn whole_ticks_down(seconds: f64, tick: f64) -> f64 {
    (seconds / tick + 1e-9).floor() * tick
}

/// After `action` for one tick, on-demand that starts at the next one, with the longest changeover, still meets the deadline.
#[inline]
pub fn is_safe(action: Action, state: &State, limits: &Limits) -> bool {
    let left = match action {
        Action::OnDemand(_) => return true,
        Action::Idle => state.left,
        Action::Spot(_) => {
            let pending = if action == state.running {
                state.pending_worst
            } else {
                limits.worst_changeover_to(action, state.last_pool)
            };
            state.left - (limits.tick - pending).max(0.0)
        }
    };
    if action != Action::Idle && left <= EPSILON {
        return true;
    }
    let after = state.until(limits) - limits.tick;
    let needed = left + longest_fallback(action.pool().or(state.last_pool), limits);
    // With a tick to spare it need not be rounded up to whole ones.
    needed + limits.tick <= after || (needed / limits.tick - EPSILON).ceil() * limits.tick <= after + EPSILON
}

/// Whether machines that do work now are safe for a tick more, with another one to spare.
#[inline]
pub fn has_slack(state: &State, limits: &Limits) -> bool {
    state.until(limits) - state.left >= longest_fallback(state.running.pool(), limits) + 2.0 * limits.tick
}

/// The longest changeover to on-demand machines after a run in `last`. Seconds.
#[inline]
fn longest_fallback(last: Option<usize>, limits: &Limits) -> f64 {
    if limits.pools.len() < 2 {
        return limits.worst_changeover;
    }
    // Where it would fall back to depends on the work that is left by then: the longer way of the two.
    let there = limits.on_demand_in(last).map_or(0.0, |there| limits.worst_changeover_to(there, last));
    limits.worst_changeover_to(limits.cheapest_on_demand(), last).max(there)
}

/// Whether a machine that is started now could do work, if its changeover takes the time that is expected: `keep_deadline` looks at every tick of it, and
/// would end it there. The last two are the tightest: before the last one no work is done.
pub fn has_room(action: Action, state: &State, limits: &Limits) -> bool {
    let worst = limits.worst_changeover_to(action, state.last_pool);
    let ticks = (limits.changeover_to(action, state.last_pool) / limits.tick - 1e-9).ceil().max(1.0);
    [ticks - 2.0, ticks - 1.0].into_iter().filter(|tick| *tick >= 0.0).all(|tick| {
        let passed = tick * limits.tick;
        let then = State { running: action, elapsed: state.elapsed + passed, pending_worst: worst - passed, ..*state };
        is_safe(action, &then, limits)
    })
}

/// Lets a decision pass if the deadline holds after it; else spot that runs already and is safe, else on-demand.
pub fn keep_deadline(wish: Decision, state: &State, limits: &Limits) -> Decision {
    if is_safe(wish.action, state, limits) {
        return wish;
    }
    match state.running {
        Action::Spot(_) if is_safe(state.running, state, limits) => {
            Decision { action: state.running, reason: Reason::KeepDeadline }
        }
        Action::OnDemand(_) => Decision { action: state.running, reason: Reason::KeepDeadline },
        _ => {
            let action = limits.on_demand_after(state.last_pool, state.left / 3600.0);
            Decision { action, reason: Reason::KeepDeadline }
        }
    }
}

/// What a run may cost at most, over one on on-demand machines with its one changeover, as long as no changeover takes longer than expected. Judged: pools
/// that take each machine away before it has done any work cost up to 1.21 times as much on the traces, by every rule (docs/risk.md, "Matrix").
const MOST_OVER_ON_DEMAND: f64 = 1.2;
/// Starts that a run may lose whole, where they cost more than that fifth. A fifth of an hour on on-demand machines pays for one, and a job that short which
/// turns to them after its first lost start costs 12 % more than one that tries again (56 minutes of work on AWS traces, within a day: 1.02 instead of .91;
/// two starts .92, four .91; docs/risk.md, "The cost"). Where a changeover takes a fifteenth of the work or less the fifth is the larger. Judged.
const STARTS_TO_LOSE: f64 = 3.0;

/// Whether the cost stays within its bound if spot that is started now does no work: what was paid, its whole changeover, and then on-demand machines for
/// the rest. Once they do work, machines that cost less than on-demand ones take nothing from what is left of the bound.
fn can_be_lost(action: Action, state: &State, limits: &Limits) -> bool {
    let dollars = |action: Action, last: Option<usize>, seconds: f64| {
        let moving = limits.switched_to(action, last).map_or(0.0, |terms| terms.switch_cost.dollars());
        limits.rate(action).dollars() * seconds / 3600.0 + moving
    };
    let lost = whole_ticks_up(limits.changeover_to(action, state.last_pool), limits.tick);
    let there = action.pool().or(state.last_pool);
    let fallback = limits.on_demand_after(there, state.left / 3600.0);
    let rest = dollars(fallback, there, state.left + limits.changeover_to(fallback, there));
    let alone = dollars(limits.cheapest_on_demand(), None, limits.work + limits.changeover);
    let start = dollars(action, state.last_pool, lost);
    let most_lost = f64::max((MOST_OVER_ON_DEMAND - 1.0) * alone, STARTS_TO_LOSE * start);
    // Money is in whole billionths: a bound that is reached exactly is kept.
    state.spent.dollars() + start + rest <= alone + most_lost + EPSILON * alone
}

/// Lets a decision pass unless it starts spot machines whose loss would be too dear; else what runs goes on, or on-demand machines are started.
pub fn keep_cost(wish: Decision, state: &State, limits: &Limits) -> Decision {
    let starts_spot = matches!(wish.action, Action::Spot(_)) && wish.action != state.running;
    if !starts_spot || can_be_lost(wish.action, state, limits) {
        return wish;
    }
    let action = match state.running {
        Action::Idle => limits.on_demand_after(state.last_pool, state.left / 3600.0),
        running => running,
    };
    Decision { action, reason: Reason::KeepCost }
}

/// The net of the published rules (NSDI'24, as its public code has it): on-demand while two changeovers still fit.
pub fn published_net(wish: Decision, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let need = |changeovers: f64| whole_ticks_up(state.left + changeovers * limits.changeover, limits.tick);
    let remaining = whole_ticks_down(state.until(limits), limits.tick);
    let on_spot = matches!(state.running, Action::Spot(_));
    let last_call = need(1.0) >= remaining;
    if !last_call && (on_spot || need(2.0) < remaining) {
        return wish;
    }
    if last_call
        && on_spot
        && state.pending_worst <= 0.0
        && state.running.pool().is_some_and(|pool| observation.pools[pool].up)
    {
        return Decision { action: state.running, reason: Reason::KeepDeadline };
    }
    let action = if state.running.is_on_demand() { state.running } else { limits.cheapest_on_demand() };
    Decision { action, reason: Reason::KeepDeadline }
}
