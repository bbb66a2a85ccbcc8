//! Which of several pools to start in: the cheapest for the hours it may last, then the one that has been up longest.

use crate::policy::{Action, Limits, Observation, State};

/// Mean hours that a spot machine is held, over which the costs of moving are spread: mean up-spell of the eight AWS pools
/// probed in October 2022 (1.78 h).
const HELD_HOURS: f64 = 1.8;

/// Dollars an hour of useful work in a pool: its rate, stretched by the changeover, and the cost of moving there.
fn effective_rate(pool: usize, state: &State, limits: &Limits) -> f64 {
    let action = Action::Spot(pool);
    let moving = limits.switched_to(action, state.last_pool).map_or(0.0, |terms| terms.switch_cost.dollars());
    let lost = limits.changeover_to(action, state.last_pool) / 3600.0;
    (limits.rate(action).dollars() * (HELD_HOURS + lost) + moving) / HELD_HOURS
}

/// The best pool to start in among those that are up.
pub fn best(state: &State, observation: &Observation, limits: &Limits) -> Option<usize> {
    if let [only] = observation.pools {
        return only.up.then_some(0);
    }
    let up = (0..observation.pools.len()).filter(|pool| observation.pools[*pool].up);
    up.min_by(|a, b| {
        let by_rate = effective_rate(*a, state, limits).total_cmp(&effective_rate(*b, state, limits));
        by_rate.then(observation.pools[*b].age.total_cmp(&observation.pools[*a].age))
    })
}

/// Whether spot that runs should move to a pool that is up: only if it is cheaper with the changeover and the move paid.
pub fn is_worth_the_move(running: usize, to: usize, state: &State, limits: &Limits) -> bool {
    running != to && effective_rate(to, state, limits) < limits.rate(Action::Spot(running)).dollars()
}

/// While none is up: the pool that has been up most lately.
pub fn likeliest(observation: &Observation) -> usize {
    let pools = 0..observation.pools.len();
    pools.max_by(|a, b| observation.pools[*a].availability.total_cmp(&observation.pools[*b].availability)).unwrap_or(0)
}
