//! Semi-Markov policy: the least expected cost to the end, by time left, slack and what the pool does and has done.

use std::sync::Arc;

use crate::availability::AvailabilityModel;
use crate::availability::chain::phase;
use crate::policy::reason::Reason;
use crate::policy::safety::{has_room, is_safe, keep_cost, keep_deadline};
use crate::policy::{Action, Decision, Limits, Observation, PoolView, State, pools};
use crate::simulation::elsewhere::Elsewhere;
use crate::simulation::expected_cost::{Start, Table, Terms, WAITING};
use gpuplan_units::UsdPerHour;

/// Rates that are less than this factor apart share a table, where prices move.
const SHARED: f64 = 1.1;

/// How far a wait for the checkpoint is looked ahead, in steps of the tables: an hour, mostly. With two or twelve of them few decisions differ.
const STEPS_AHEAD: usize = 6;

/// A table for each spot rate among the pools of a job.
#[derive(Clone, Debug)]
pub struct Tables {
    by_rate: Vec<(UsdPerHour, Arc<Table>)>,
    model: AvailabilityModel,
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
        Self { by_rate: rates.into_iter().map(table).collect(), model: model.clone() }
    }

    /// For a job on one pool, with a table that others use too. It weighs no other one, so the model is not asked.
    pub fn of_one(spot: UsdPerHour, table: Arc<Table>) -> Self {
        Self { by_rate: vec![(spot, table)], model: AvailabilityModel::prior() }
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
    keep_deadline(keep_cost(wish(tables, state, observation, limits), state, limits), state, limits)
}

fn wish(tables: &Tables, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    let say = |action, reason| Decision { action, reason };
    if let Action::Spot(running) = state.running {
        let others = if observation.pools.len() > 1 { pools::best(state, observation, limits) } else { None };
        return match others {
            Some(pool) if pools::is_worth_the_move(running, pool, state, observation, limits) => {
                say(Action::Spot(pool), Reason::CheaperPool)
            }
            _ => say(state.running, Reason::StayOnSpot),
        };
    }
    let least = least_cost(tables, state, observation, limits);
    if least.is_some_and(|(cost, pool)| is_worth_the_wait(cost, pool, tables, state, observation, limits)) {
        return say(Action::Idle, Reason::WaitForSpot);
    }
    let pool = (least.map(|(_, pool)| pool))
        .or_else(|| pools::best(state, observation, limits))
        .unwrap_or_else(|| pools::likeliest(observation));
    let best = observation.pools[pool].up.then_some(pool);
    if best.is_none() && state.running.is_on_demand() {
        return say(state.running, Reason::StayOnDemand);
    }
    let on_demand = || limits.on_demand_after(state.last_pool, state.left / 3600.0);
    let Some(table) = tables.table(limits, pool) else { return say(on_demand(), Reason::AlwaysOnDemand) };
    let (work, slack) = left(pool, state, limits);
    let (start, leave) = table.best(work, slack, phase(&observation.pools[pool]));
    // The table looks up the nearest cell, and the net counts whole ticks.
    let has_room = || has_room(Action::Spot(pool), state, limits);
    match (state.running, best) {
        (Action::OnDemand(_), Some(pool)) if leave && has_room() => say(Action::Spot(pool), Reason::SpotHasLasted),
        (Action::OnDemand(_), _) => say(state.running, Reason::StayOnDemand),
        (_, Some(pool)) if start == Start::Spot && has_room() => say(Action::Spot(pool), Reason::SpotIsUp),
        (_, Some(_)) if start == Start::Spot => say(on_demand(), Reason::KeepDeadline),
        (_, Some(_)) if start == Start::OnDemand => say(on_demand(), Reason::SpotTooShort),
        (_, None) if start == Start::OnDemand => say(on_demand(), Reason::NoTimeToWait),
        (_, Some(_)) => say(Action::Idle, Reason::WaitForSteadySpot),
        (_, None) => say(Action::Idle, Reason::WaitForSpot),
    }
}

/// Work, and slack where one goes on with this pool. Seconds.
fn left(pool: usize, state: &State, limits: &Limits) -> (f64, f64) {
    let work = state.left + state.pending;
    (work, state.until(limits) - work - longer(pool, state, limits))
}

/// By how much a start there takes longer than the usual one, which tables know. Seconds.
fn longer(pool: usize, state: &State, limits: &Limits) -> f64 {
    limits.changeover_to(Action::Spot(pool), state.last_pool) - limits.changeover
}

/// Where moves cost something: the pool with which the least is left to pay. Either the one that holds the checkpoint, whether to start there, to
/// wait for it or to go on without, or one that is up, with the move. Dollars first. `None`: moves are free, or there is no such pool.
fn least_cost(tables: &Tables, state: &State, observation: &Observation, limits: &Limits) -> Option<(f64, usize)> {
    if limits.pools.len() < 2 || !tables.by_rate.iter().any(|(_, table)| table.has_costs()) {
        return None;
    }
    let start = |pool: usize| {
        let (work, slack) = left(pool, state, limits);
        Some(tables.table(limits, pool)?.best(work, slack, phase(&observation.pools[pool])).0)
    };
    let can_be = |pool: &usize| match state.last_pool {
        Some(last) if last == *pool => true,
        // Nothing has run yet: a better pool may be waited for, too.
        None if !observation.pools[*pool].up => start(*pool) == Some(Start::Wait),
        _ => {
            let has_room = || has_room(Action::Spot(*pool), state, limits);
            observation.pools[*pool].up && start(*pool) == Some(Start::Spot) && has_room()
        }
    };
    let dollars = |pool: usize| dollars(tables, pool, start(pool)?, state, &observation.pools[pool], limits);
    let costs = (0..observation.pools.len()).filter(can_be).filter_map(|pool| Some((dollars(pool)?, pool)));
    costs.min_by(|(a, _), (b, _)| a.total_cmp(b))
}

/// Whether to wait a step for the pool that holds the checkpoint, and then decide again, rather than to move to another one for so many dollars. The table
/// counts on some other pool that comes up now and then; here it is one that is up, and mostly still will be.
fn is_worth_the_wait(
    cost: f64,
    other: usize,
    tables: &Tables,
    state: &State,
    observation: &Observation,
    limits: &Limits,
) -> bool {
    let home = state.last_pool.filter(|home| *home != other && !observation.pools[*home].up);
    let Some(home) = home.filter(|_| state.running == Action::Idle && is_safe(Action::Idle, state, limits)) else {
        return false;
    };
    let wait = Wait { home, other, tables, state, observation, limits };
    wait.cost().is_some_and(|waiting| waiting < cost)
}

/// For the pool that holds the checkpoint, while another one is up.
struct Wait<'a> {
    home: usize,
    other: usize,
    tables: &'a Tables,
    state: &'a State,
    observation: &'a Observation<'a>,
    limits: &'a Limits,
}

impl Wait<'_> {
    /// What is left to pay where one waits a step, and from then on does what costs the least.
    fn cost(&self) -> Option<f64> {
        let step = self.tables.table(self.limits, self.home)?.step();
        let on_demand = self.limits.rate(self.limits.cheapest_on_demand()).dollars();
        let waiting = WAITING * on_demand * step / 3600.0;
        let leaves = |view: &PoolView| -(-self.tables.model.rate(view) * step / 3600.0).exp_m1();
        let at = |steps: usize| f64::from(steps as u32) * step;
        let mut then = self.at_home(false, at(STEPS_AHEAD))?.min(self.elsewhere(at(STEPS_AHEAD))?);
        for steps in (0..STEPS_AHEAD).rev() {
            let (now, later) = (at(steps), at(steps + 1));
            let comes_back = leaves(&self.view(self.home, now));
            let stays = 1.0 - leaves(&self.view(self.other, now));
            let alone = self.at_home(false, later)?;
            let down = stays * then + (1.0 - stays) * alone;
            let waited = waiting + comes_back * self.at_home(true, later)? + (1.0 - comes_back) * down;
            if steps == 0 {
                return Some(waited);
            }
            let may_wait = is_safe(Action::Idle, &self.after(now), self.limits);
            let least = self.elsewhere(now)?.min(self.at_home(false, now)?);
            then = if may_wait { waited.min(least) } else { least };
        }
        None
    }

    /// After so many seconds without a machine.
    fn after(&self, seconds: f64) -> State {
        State { elapsed: self.state.elapsed + seconds, ..*self.state }
    }

    fn view(&self, pool: usize, seconds: f64) -> PoolView {
        let view = self.observation.pools[pool];
        PoolView { age: view.age + seconds, ..view }
    }

    /// Dollars that are left then, with the pool just come up or still down.
    fn at_home(&self, up: bool, seconds: f64) -> Option<f64> {
        let view = self.view(self.home, seconds);
        let view = if up { PoolView { up, age: 0.0, ..view } } else { view };
        let (work, slack) = left(self.home, &self.after(seconds), self.limits);
        let hours = self.tables.table(self.limits, self.home)?.cost(false, work, slack, phase(&view))?;
        Some(self.limits.rate(Action::Spot(self.home)).dollars() * hours)
    }

    /// Dollars of a move then; endless where there is no slack for it.
    fn elsewhere(&self, seconds: f64) -> Option<f64> {
        let (state, view) = (self.after(seconds), self.view(self.other, seconds));
        let (work, slack) = left(self.other, &state, self.limits);
        let start = self.tables.table(self.limits, self.other)?.best(work, slack, phase(&view)).0;
        if start != Start::Spot || !has_room(Action::Spot(self.other), &state, self.limits) {
            return Some(f64::INFINITY);
        }
        dollars(self.tables, self.other, start, &state, &view, self.limits)
    }
}

/// What is left to pay where one goes on with this pool, with the move there.
fn dollars(tables: &Tables, pool: usize, start: Start, state: &State, view: &PoolView, limits: &Limits) -> Option<f64> {
    let (work, slack) = left(pool, state, limits);
    let rate = |pool: usize| limits.rate(Action::Spot(pool)).dollars();
    let moving = |action: Action| limits.switched_to(action, state.last_pool).map(|terms| terms.switch_cost.dollars());
    // To the end in a pool like that one, at its own rate.
    let in_one_like = |of: usize, on_demand: bool| {
        Some(rate(of) * tables.table(limits, of)?.cost(on_demand, work, slack, phase(view))?)
    };
    if let (Some(moving), Some(last)) = (moving(Action::Spot(pool)), state.last_pool) {
        // A dearer pool is paid for as long as it is likely to last: then one may move back.
        let dearer = rate(pool) - rate(last);
        let back = limits.pools[last].switch_cost.dollars() + dearer * pools::useful(view, state);
        let (there, back) = (in_one_like(pool, false)?, in_one_like(last, false)? + back);
        let least = if dearer > 0.0 { there.min(back) } else { there };
        return Some(least + moving + rate(pool) * longer(pool, state, limits) / 3600.0);
    }
    let runs_on_demand = state.running.is_on_demand();
    let starts_on_demand = start == Start::OnDemand && !runs_on_demand;
    let moving =
        if starts_on_demand { moving(limits.on_demand_after(state.last_pool, state.left / 3600.0)) } else { None };
    Some(in_one_like(pool, runs_on_demand)? + moving.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::availability::watch::{FIRST_PAUSE, Watch};
    use crate::policy::{Policy, PoolTerms};
    use crate::simulation::replay::{World, replay};
    use gpuplan_units::Usd;

    const HOUR: f64 = 3600.0;

    /// A day of work; a dollar an hour, four on demand.
    fn limits(pools: usize, move_dollars: f64, deadline: f64) -> Limits {
        let terms = PoolTerms {
            spot: UsdPerHour::from_nanos(1_000_000_000),
            on_demand: None,
            switch_cost: Usd::from_dollars(move_dollars).unwrap(),
            switch_changeover: 720.0,
        };
        Limits {
            work: 24.0 * HOUR,
            deadline: deadline * HOUR,
            tick: 600.0,
            changeover: 720.0,
            worst_changeover: 720.0,
            on_demand: UsdPerHour::from_nanos(4_000_000_000),
            pools: vec![terms; pools],
            budget: None,
        }
    }

    /// The first of two pools, which held the job, has been down for so many hours; the other one is up.
    fn after_a_loss(down: f64, limits: &Limits) -> Action {
        let tables = Tables::new(&AvailabilityModel::prior(), limits);
        let view = |up: bool, hours: f64| PoolView { up, age: hours * HOUR, availability: 0.7, frailty: 1.0 };
        let pools = [view(false, down), view(true, 3.0)];
        let state = State { elapsed: 6.0 * HOUR, left: 18.0 * HOUR, last_pool: Some(0), ..State::default() };
        decide(&tables, &state, &Observation { pools: &pools, on_demand: true }, limits).action
    }

    #[test]
    fn whoever_would_pay_for_a_move_waits_for_the_checkpoint_first() {
        assert_eq!(after_a_loss(0.0, &limits(2, 0.0, 48.0)), Action::Spot(1), "a move is free");
        assert_eq!(after_a_loss(0.0, &limits(2, 4.0, 48.0)), Action::Idle, "it often comes back at once");
        assert_eq!(after_a_loss(10.0, &limits(2, 4.0, 30.0)), Action::Spot(1), "it is not expected back soon");
        assert_eq!(after_a_loss(0.0, &limits(2, 4.0, 25.0)), Action::Spot(1), "there is no slack to wait with");
        assert_eq!(after_a_loss(10.0, &limits(2, 1000.0, 48.0)), Action::Idle, "no move pays");
    }

    /// The table counts on another pool now and then, and would move at once; but the one that is up now will mostly be up a step later, too.
    #[test]
    fn a_move_that_can_be_made_later_is_waited_with() {
        for (dollars, deadline, down) in [(4.0, 30.0, 0.2), (3.0, 29.0, 0.0), (2.0, 32.0, 0.5)] {
            let limits = limits(2, dollars, deadline);
            assert_eq!(after_a_loss(down, &limits), Action::Idle, "{dollars} {deadline} {down}");
            let tight = Limits { deadline: limits.deadline - 4.0 * HOUR, ..limits };
            assert_eq!(after_a_loss(down, &tight), Action::Spot(1), "{dollars} {deadline} {down}: no slack to spare");
        }
    }

    /// On-demand beside the checkpoint was taken for 7 hours, since all of the work was weighed at the dearer rate.
    #[test]
    fn a_dearer_pool_is_weighed_for_as_long_as_it_lasts() {
        let mut limits = limits(2, 0.5, 26.5);
        limits.pools[1].spot = UsdPerHour::from_nanos(1_300_000_000);
        assert_eq!(after_a_loss(0.3, &limits), Action::Spot(1));
    }

    proptest! {
        /// Whatever moves cost and take, and whatever the pools do.
        #[test]
        fn the_deadline_holds_where_moves_cost_something(
            up in proptest::collection::vec(proptest::collection::vec(proptest::bool::weighted(0.6), 400), 3),
            spells in 1_usize..12,
            (dollars, hours) in (0.0..20.0_f64, 0.05..1.0_f64),
            (slack, worst) in (0.2..30.0_f64, 1.0..3.0_f64),
            rates in proptest::collection::vec(proptest::option::of(2.0..6.0_f64), 3),
            sees_all in proptest::bool::ANY,
        ) {
            let mut limits = limits(3, dollars, 0.0);
            limits.worst_changeover *= worst;
            limits.deadline = limits.work + limits.worst_changeover + limits.tick + slack * HOUR;
            limits.pools[1].switch_changeover = hours * HOUR;
            for (terms, rate) in limits.pools.iter_mut().zip(rates) {
                terms.on_demand = rate.map(|rate| UsdPerHour::from_nanos((rate * 1e9) as i64));
            }
            let pools: Vec<Vec<bool>> =
                up.iter().map(|up| (0..400).map(|tick| up[tick / spells]).collect()).collect();
            let pools: Vec<&[bool]> = pools.iter().map(Vec::as_slice).collect();
            let policy = Policy::SemiMarkov(Arc::new(Tables::new(&AvailabilityModel::prior(), &limits)));
            let watch = if sees_all { Watch::full(3, limits.tick) } else { Watch::attempts(3, limits.tick, FIRST_PAUSE) };
            let done = replay(&policy, &limits, &World::from_pools(&pools), 0, watch, false).unwrap();
            prop_assert!(done.met_deadline, "{done:?}");
        }
    }
}
