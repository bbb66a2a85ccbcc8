//! Semi-Markov policy: the least expected cost to the end, by time left, slack and what the pool does and has done.

use std::sync::Arc;

use crate::availability::AvailabilityModel;
use crate::availability::chain::phase;
use crate::policy::reason::Reason;
use crate::policy::safety::{has_room, keep_deadline};
use crate::policy::{Action, Decision, Limits, Observation, State, pools};
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
        let table = |rate: UsdPerHour| {
            let terms = Terms {
                horizon: Terms::horizon_of(limits.work, limits.deadline, limits.tick),
                tick: limits.tick,
                changeover: limits.changeover,
                worst_changeover: limits.worst_changeover,
                price_ratio: on_demand.dollars() / rate.dollars(),
            };
            (rate, Arc::new(Table::new(model, &terms)))
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
    let best = pools::best(state, observation, limits);
    if let Action::Spot(running) = state.running {
        return match best {
            Some(pool) if pools::is_worth_the_move(running, pool, state, observation, limits) => {
                say(Action::Spot(pool), Reason::CheaperPool)
            }
            _ => say(state.running, Reason::StayOnSpot),
        };
    }
    let pool = best.unwrap_or_else(|| pools::likeliest(observation));
    let Some(table) = tables.table(limits, pool) else { return say(on_demand, Reason::AlwaysOnDemand) };
    let slack = state.until(limits) - state.left - state.pending;
    let (start, leave) = table.best(state.left + state.pending, slack, phase(&observation.pools[pool]));
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
