//! Semi-Markov policy: the least expected cost to the end, by time left, slack and what the pool does and has done.

use std::sync::Arc;

use crate::availability::AvailabilityModel;
use crate::availability::chain::phase;
use crate::policy::reason::Reason;
use crate::policy::safety::{has_room, keep_deadline};
use crate::policy::{Action, Decision, Limits, Observation, State, pools};
use crate::simulation::elsewhere::Elsewhere;
use crate::simulation::expected_cost::{Start, Table, Terms};
use gpuplan_units::UsdPerHour;

/// Rates that are less than this factor apart share a table, where prices move.
const SHARED: f64 = 1.1;

/// A table for each spot rate among the pools of a job.
#[derive(Clone, Debug)]
pub struct Tables {
    by_rate: Vec<(UsdPerHour, Arc<Table>)>,
}

impl Tables {
    pub fn new(model: &AvailabilityModel, limits: &Limits) -> Self {
        let mut rates: Vec<UsdPerHour> = limits.pools.iter().map(|terms| terms.spot).collect();
        rates.sort();
        rates.dedup();
        Self::of_rates(model, limits, rates)
    }

    /// Where spot rates move over all of these.
    pub fn moving(model: &AvailabilityModel, limits: &Limits, rates: impl Iterator<Item = UsdPerHour>) -> Self {
        let mut rates: Vec<UsdPerHour> = rates.collect();
        rates.sort();
        let mut kept: Vec<UsdPerHour> = Vec::new();
        for rate in rates {
            if kept.last().is_none_or(|last| rate.dollars() >= SHARED * last.dollars()) {
                kept.push(rate);
            }
        }
        Self::of_rates(model, limits, kept)
    }

    fn of_rates(model: &AvailabilityModel, limits: &Limits, rates: Vec<UsdPerHour>) -> Self {
        let on_demand = limits.rate(limits.cheapest_on_demand());
        let others = limits.pools.len().saturating_sub(1);
        let table = |rate: UsdPerHour| {
            let terms = Terms {
                horizon: Terms::horizon_of(limits.work, limits.deadline, limits.tick),
                tick: limits.tick,
                changeover: limits.changeover,
                worst_changeover: limits.worst_changeover,
                price_ratio: on_demand.dollars() / rate.dollars(),
            };
            let moves = limits.hours_of_a_move(rate).map(|hours| Elsewhere::new(model, others, hours));
            (rate, Arc::new(Table::beside(model, &terms, moves)))
        };
        Self { by_rate: rates.into_iter().map(table).collect() }
    }

    /// For a job on one pool, with a table that others use too.
    pub fn of_one(spot: UsdPerHour, table: Arc<Table>) -> Self {
        Self { by_rate: vec![(spot, table)] }
    }

    fn table(&self, limits: &Limits, pool: usize) -> Option<&Table> {
        let rate = limits.pools.get(pool)?.spot;
        let exact = self.by_rate.iter().find(|(of, _)| *of == rate);
        let distance = |of: UsdPerHour| (of.dollars() / rate.dollars()).ln().abs();
        let nearest = || self.by_rate.iter().min_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)));
        exact.or_else(nearest).map(|(_, table)| &**table)
    }
}

pub fn decide(tables: &Tables, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    keep_deadline(wish(tables, state, observation, limits), state, limits)
}

fn wish(tables: &Tables, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let say = |action, reason| Decision { action, reason };
    let on_demand = limits.cheapest_on_demand();
    if let Action::Spot(running) = state.running {
        return match pools::best(state, observation, limits) {
            Some(pool) if pools::is_worth_the_move(running, pool, state, observation, limits) => {
                say(Action::Spot(pool), Reason::CheaperPool)
            }
            _ => say(state.running, Reason::StayOnSpot),
        };
    }
    let going = |pool: usize| going_on(tables, pool, state, observation, limits);
    let by_rate = || pools::best(state, observation, limits).unwrap_or_else(|| pools::likeliest(observation));
    let Some(on) = least_cost(tables, state, observation, limits).or_else(|| going(by_rate())) else {
        return say(on_demand, Reason::AlwaysOnDemand);
    };
    let GoingOn { pool, start, leave, .. } = on;
    let best = observation.pools[pool].up.then_some(pool);
    // The table looks up the nearest cell, and the net counts whole ticks.
    let has_room = || has_room(Action::Spot(pool), state, limits);
    match (state.running, best) {
        (Action::OnDemand(_), Some(pool)) if leave && has_room() => say(Action::Spot(pool), Reason::SpotHasLasted),
        (Action::OnDemand(_), _) => say(state.running, Reason::StayOnDemand),
        (_, Some(pool)) if start == Start::Spot && has_room() => say(Action::Spot(pool), Reason::SpotIsUp),
        (_, Some(_)) if start == Start::Spot => say(on_demand, Reason::KeepDeadline),
        (_, Some(_)) if start == Start::OnDemand => say(on_demand, Reason::SpotTooShort),
        (_, None) if start == Start::OnDemand => say(on_demand, Reason::NoTimeToWait),
        (_, Some(_)) => say(Action::Idle, Reason::WaitForSteadySpot),
        (_, None) => say(Action::Idle, Reason::WaitForSpot),
    }
}

/// What the table of a pool says of going on with it.
struct GoingOn {
    pool: usize,
    start: Start,
    leave: bool,
    /// Left to pay, with the move; known where moves cost something.
    dollars: Option<f64>,
}

fn going_on(
    tables: &Tables,
    pool: usize,
    state: &State,
    observation: &Observation,
    limits: &Limits,
) -> Option<GoingOn> {
    let spot = Action::Spot(pool);
    let is_move = limits.switched_to(spot, state.last_pool).is_some();
    // The table knows the usual changeover.
    let longer = limits.changeover_to(spot, state.last_pool) - limits.changeover;
    let work = state.left + state.pending;
    let slack = state.until(limits) - work - longer;
    let (table, phase) = (tables.table(limits, pool)?, phase(&observation.pools[pool]));
    let (start, leave) = table.best(work, slack, phase);
    let stays_on_demand = state.running.is_on_demand() && !is_move;
    let starts = if start == Start::OnDemand && !is_move { limits.cheapest_on_demand() } else { spot };
    let moves = limits.switched_to(starts, state.last_pool).filter(|_| !stays_on_demand);
    let moving = moves.map_or(0.0, |terms| terms.switch_cost.dollars());
    let hours = table.cost(stays_on_demand, work, slack, phase);
    let dollars = hours.map(|hours| limits.rate(spot).dollars() * (hours + longer / 3600.0) + moving);
    Some(GoingOn { pool, start, leave, dollars })
}

/// Where moves cost something: the pool with which the least is left to pay. Either the one that holds the checkpoint, whether to start there, to
/// wait for it or to go on without, or one that is up, with the move. `None`: moves are free, or nothing has run and nothing is up.
fn least_cost(tables: &Tables, state: &State, observation: &Observation, limits: &Limits) -> Option<GoingOn> {
    if !tables.by_rate.iter().any(|(_, table)| table.has_costs()) {
        return None;
    }
    let can_be = |on: &GoingOn| {
        state.last_pool == Some(on.pool)
            || (observation.pools[on.pool].up
                && on.start == Start::Spot
                && has_room(Action::Spot(on.pool), state, limits))
    };
    (0..observation.pools.len())
        .filter_map(|pool| going_on(tables, pool, state, observation, limits).filter(can_be))
        .filter_map(|on| Some((on.dollars?, on)))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, on)| on)
}
