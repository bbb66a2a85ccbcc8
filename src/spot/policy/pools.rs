//! Which of several pools to start in: the cheapest for the hours it is likely to last, then the one that has been up longest; and
//! when to move to another one.

use std::sync::LazyLock;

use crate::availability::AvailabilityModel;
use crate::availability::chain::{PHASES, phase, views};
use crate::policy::{Action, Limits, Observation, PoolView, State};

/// Steps of a factor of two in which it is told how often a pool takes machines away, and the most of them up and down.
const STEPS_OF_TWO: f64 = 2.0;
const MOST_STEPS: i32 = 4;

/// Hours that a spell goes on, by how often its pool takes machines away, then by its phase.
static LIVES: LazyLock<Vec<[f64; PHASES]>> = LazyLock::new(|| {
    let lives = |steps: i32| {
        let model = AvailabilityModel::prior().frail(2_f64.powf(f64::from(steps) / STEPS_OF_TWO));
        views().map(|view| model.residual_life(&view).0)
    };
    (-MOST_STEPS..=MOST_STEPS).map(lives).collect()
});

/// Hours of useful work that a machine there is expected to do, started now: it lasts as long as the pool, and no longer than the work.
pub fn useful(view: &PoolView, state: &State) -> f64 {
    let most = f64::from(MOST_STEPS);
    let steps = (view.frailty.log2() * STEPS_OF_TWO).round().clamp(-most, most);
    LIVES[(steps + most) as usize][phase(view)].min(state.left / 3600.0).max(f64::MIN_POSITIVE)
}

/// Dollars an hour of useful work in a pool: its rate, stretched by the changeover, and the cost of moving there.
fn effective_rate(pool: usize, state: &State, observation: &Observation, limits: &Limits) -> f64 {
    let action = Action::Spot(pool);
    let moving = limits.switched_to(action, state.last_pool).map_or(0.0, |terms| terms.switch_cost.dollars());
    let lost = limits.changeover_to(action, state.last_pool) / 3600.0;
    let useful = useful(&observation.pools[pool], state);
    (limits.rate(action).dollars() * (useful + lost) + moving) / useful
}

/// The best pool to start in among those that are up.
pub fn best(state: &State, observation: &Observation, limits: &Limits) -> Option<usize> {
    if let [only] = observation.pools {
        return only.up.then_some(0);
    }
    let up = (0..observation.pools.len()).filter(|pool| observation.pools[*pool].up);
    up.map(|pool| (pool, effective_rate(pool, state, observation, limits)))
        .min_by(|(a, rate_a), (b, rate_b)| {
            rate_a.total_cmp(rate_b).then(observation.pools[*b].age.total_cmp(&observation.pools[*a].age))
        })
        .map(|(pool, _)| pool)
}

/// Whether spot that runs should move to a pool that is up: only if what its lower rate saves, for as long as it is likely to last, pays the move and two
/// changeovers (there, and from there once it is gone), each with the slack that it takes, at what slack saves at most: the difference to on-demand.
pub fn is_worth_the_move(running: usize, to: usize, state: &State, observation: &Observation, limits: &Limits) -> bool {
    if running == to {
        return false;
    }
    let action = Action::Spot(to);
    let (from, rate) = (limits.rate(Action::Spot(running)).dollars(), limits.rate(action).dollars());
    let moving = limits.switched_to(action, Some(running)).map_or(0.0, |terms| terms.switch_cost.dollars());
    let changeover = limits.changeover_to(action, Some(running)) / 3600.0;
    let slack = (limits.rate(limits.cheapest_on_demand()).dollars() - rate).max(0.0);
    let saves = (from - rate) * useful(&observation.pools[to], state);
    saves > moving + 2.0 * changeover * (rate + slack)
}

/// While none is up: the pool that has been up most lately.
pub fn likeliest(observation: &Observation) -> usize {
    let pools = 0..observation.pools.len();
    pools.max_by(|a, b| observation.pools[*a].availability.total_cmp(&observation.pools[*b].availability)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PoolTerms;
    use gpuplan_units::{Usd, UsdPerHour};

    /// Both were up for as long; the cheaper one loses its machines.
    #[test]
    fn a_pool_that_takes_machines_away_is_worth_less() {
        let terms = |cents: i64| PoolTerms {
            spot: UsdPerHour::from_nanos(cents * 10_000_000),
            on_demand: None,
            switch_cost: Usd::ZERO,
            switch_changeover: 720.0,
        };
        let limits = Limits {
            work: 86_400.0,
            deadline: 172_800.0,
            tick: 600.0,
            changeover: 720.0,
            worst_changeover: 720.0,
            on_demand: UsdPerHour::from_nanos(4_000_000_000),
            pools: vec![terms(100), terms(95)],
            budget: None,
        };
        let state = State { left: limits.work, ..State::default() };
        let chosen = |frailty: f64| {
            let view = PoolView { up: true, age: 900.0, availability: 0.7, frailty: 1.0 };
            let pools = [view, PoolView { frailty, ..view }];
            best(&state, &Observation { pools: &pools, on_demand: true }, &limits)
        };
        assert_eq!((chosen(1.0), chosen(0.5)), (Some(1), Some(1)));
        assert_eq!((chosen(2.0), chosen(1e9)), (Some(0), Some(0)));
    }
}
