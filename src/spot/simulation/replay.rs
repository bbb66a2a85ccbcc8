//! Replays a policy on traces, tick by tick: a tick is paid in full, a start makes no progress while it changes over.

use std::borrow::Cow;

use crate::availability::watch::Watch;
use crate::policy::reason::Reason;
use crate::policy::safety::has_slack;
use crate::policy::{Action, Decision, Limits, Observation, Policy, State, decide, goes_on_with_slack};
use gpuplan_units::{Usd, UsdPerHour};

/// Work below this is done.
pub const DONE: f64 = 1e-6;

/// What the pools really do. The policy sees it only through its probes.
#[derive(Clone, Copy, Debug, Default)]
pub struct World<'a> {
    /// For each pool, whether it is up at each tick.
    pub pools: &'a [&'a [bool]],
    /// For each pool, its spot rate at each tick, where prices move; empty: those of the limits. The policy sees those of the moment.
    pub rates: &'a [&'a [UsdPerHour]],
    /// Ticks at which no on-demand machine can be started, as (first, count).
    pub outages: &'a [(usize, usize)],
    /// What the starts really take, one after the other and again from the first; empty: what was expected.
    pub changeovers: &'a [f64],
    /// Progress between two saves: what a machine that is taken without notice loses of it has to be done again. Seconds; 0: the
    /// work of every tick is kept.
    pub save_every: f64,
    /// How far the policy's clock runs ahead of the true one. Seconds.
    pub clock_ahead: f64,
}

impl<'a> World<'a> {
    pub fn from_pools(pools: &'a [&'a [bool]]) -> Self {
        Self { pools, ..Self::default() }
    }

    fn ticks(&self) -> usize {
        self.pools.iter().map(|pool| pool.len()).min().unwrap_or(0)
    }

    /// The terms at a tick: the prices of the moment.
    pub fn terms<'l>(&self, limits: &'l Limits, tick: usize) -> Cow<'l, Limits> {
        if self.rates.is_empty() {
            return Cow::Borrowed(limits);
        }
        let mut now = limits.clone();
        for (terms, rates) in now.pools.iter_mut().zip(self.rates) {
            terms.spot = rates.get(tick).copied().unwrap_or(terms.spot);
        }
        Cow::Owned(now)
    }

    pub fn on_demand(&self, tick: usize) -> bool {
        !self.outages.iter().any(|(first, count)| tick >= *first && tick - first < *count)
    }
}

/// The same action for several ticks, and why it was first taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub action: Action,
    pub ticks: u32,
    pub reason: Reason,
}

/// What a replay came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub cost: Usd,
    pub ticks: usize,
    pub finish_hours: f64,
    /// Until the first machine was started.
    pub wait_hours: f64,
    /// Part of the last tick after the work was done; paid for like the rest of it.
    pub spare_hours: f64,
    pub starts: u32,
    /// Spot machines taken away.
    pub interruptions: u32,
    pub on_demand_hours: f64,
    pub spot_hours: f64,
    pub met_deadline: bool,
    /// The budget ended the run before the work was done.
    pub out_of_budget: bool,
    /// What ran in the last tick.
    pub last: Action,
    pub decisions: Vec<Stretch>,
}

impl Outcome {
    /// The same where machines are billed by the second: without the spare part of the last tick.
    #[must_use]
    pub fn to_the_second(mut self, limits: &Limits) -> Self {
        let spare = std::mem::take(&mut self.spare_hours);
        let spared =
            limits.rate(self.last).for_hours(1, spare).expect("it is a part of the last tick, whose cost was counted");
        self.cost = self.cost - spared;
        self.finish_hours -= spare;
        let hours = if self.last.is_on_demand() { &mut self.on_demand_hours } else { &mut self.spot_hours };
        *hours -= spare;
        self.met_deadline = self.finish_hours * 3600.0 <= limits.deadline + 1e-6;
        self
    }
}

/// Why a replay has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("the trace ends before the work does")]
    TraceEnds,
    #[error("the cost is not an amount of money")]
    Uncountable,
    #[error("a forecast over more than {0} ticks")]
    TooLong(usize),
}

/// Lets `watch` see the ticks before `start`, as probes before the job began. Whoever knows attempts alone has made none yet.
pub fn look_back(watch: &mut Watch, world: &World, start: usize) {
    if watch.pause().is_some() {
        return;
    }
    for tick in 0..start.min(world.ticks()) {
        watch.advance(None, |pool| world.pools[pool][tick]);
    }
}

/// What the policy knows after a tick of `action`, of whose true changeover `changing` is left.
fn after_a_tick(state: State, action: Action, changing: f64, tick: f64) -> State {
    let known = |pending: f64| if changing < 1e-3 { 0.0 } else { (pending - tick).max(1e-3) };
    let (pending, pending_worst) = (known(state.pending), known(state.pending_worst));
    State { pending, pending_worst, last_pool: action.pool().or(state.last_pool), ..state }
}

/// Runs the job from tick `start` on. `log` keeps every decision.
pub fn replay(
    policy: &Policy,
    limits: &Limits,
    world: &World,
    start: usize,
    mut watch: Watch,
    log: bool,
) -> Result<Outcome, ReplayError> {
    let mut meter = Meter::new(limits.pools.len(), world);
    let mut state = State { left: limits.work, ..State::default() };
    let mut outcome = Outcome::default();
    // True changeover left, of which the policy sees only how long it takes already, and progress since the last save.
    let (mut changing, mut unsaved) = (0.0_f64, 0.0);
    let (mut tick, ticks, is_plain) = (start, world.ticks(), is_plain(policy, limits, world));
    let counts_cost = limits.budget.is_some() || policy.counts_cost();
    while state.left > DONE {
        let ran = if is_plain && changing <= 0.0 { run_on(&mut state, limits, world, tick, &mut watch) } else { 0 };
        if ran > 0 {
            meter.spot[0] += ran;
            pay(&mut state, Action::Spot(0), ran, limits, counts_cost)?;
            outcome.decisions.last_mut().into_iter().for_each(|last| last.ticks += ran);
            tick += ran as usize;
            continue;
        }
        if tick >= ticks {
            return Err(ReplayError::TraceEnds);
        }
        watch.advance(state.running.pool().filter(|_| !state.running.is_on_demand()), |pool| world.pools[pool][tick]);
        if let Action::Spot(pool) = state.running
            && !world.pools[pool][tick]
        {
            outcome.interruptions += 1;
            let left = state.left + std::mem::take(&mut unsaved);
            state = State { running: Action::Idle, pending: 0.0, pending_worst: 0.0, left, ..state };
        }
        let seen = State { elapsed: state.elapsed + world.clock_ahead, ..state };
        let moved = (!world.rates.is_empty()).then(|| world.terms(limits, tick));
        let terms = moved.as_deref().unwrap_or(limits);
        let decision = try_to_run(policy, &seen, terms, world, tick, &mut watch);
        let action = decision.action;
        if decision.reason == Reason::BudgetReached {
            outcome.out_of_budget = true;
            break;
        }
        if action != Action::Idle && action != state.running {
            changing = start_machines(action, &mut state, &mut outcome, limits, world);
            meter.moves = meter.moves + switch_cost(action, &state, limits);
            // Who leaves a machine saves first.
            unsaved = 0.0;
        }
        pay(&mut state, action, 1, terms, counts_cost)?;
        if action != Action::Idle {
            let progress = (limits.tick - changing).max(0.0);
            state.left -= progress;
            unsaved = if unsaved + progress >= world.save_every { 0.0 } else { unsaved + progress };
            changing = (changing - limits.tick).max(0.0);
            state = after_a_tick(state, action, changing, limits.tick);
        }
        meter.run(action, terms).ok_or(ReplayError::Uncountable)?;
        state.running = action;
        if log {
            note(&mut outcome.decisions, decision);
        }
        tick += 1;
        state.elapsed += limits.tick;
    }
    outcome.ticks = tick - start;
    meter.settle(limits, ended(outcome, &state, limits)).ok_or(ReplayError::Uncountable)
}

/// So many ticks of it, with the move there, where what was paid is asked for.
fn pay(state: &mut State, action: Action, ticks: u32, terms: &Limits, counts: bool) -> Result<(), ReplayError> {
    if counts && action != Action::Idle {
        let moves = if action == state.running { Usd::ZERO } else { switch_cost(action, state, terms) };
        let time = terms.rate(action).for_hours(1, f64::from(ticks) * terms.tick / 3600.0);
        state.spent = state.spent + time.ok_or(ReplayError::Uncountable)? + moves;
    }
    Ok(())
}

fn switch_cost(action: Action, state: &State, limits: &Limits) -> Usd {
    limits.switched_to(action, state.last_pool).map_or(Usd::ZERO, |terms| terms.switch_cost)
}

/// The true changeover to what is started now, of which the policy sees what it expects.
fn start_machines(action: Action, state: &mut State, outcome: &mut Outcome, limits: &Limits, world: &World) -> f64 {
    let changing = changeover(action, state, limits, world, outcome.starts);
    state.pending = limits.changeover_to(action, state.last_pool);
    state.pending_worst = limits.worst_changeover_to(action, state.last_pool);
    if outcome.starts == 0 {
        outcome.wait_hours = state.elapsed / 3600.0;
    }
    outcome.starts += 1;
    changing
}

/// Whether ticks on spot change nothing but sums as long as there is slack.
fn is_plain(policy: &Policy, limits: &Limits, world: &World) -> bool {
    let is_exact = world.rates.is_empty() && world.save_every <= 0.0 && world.clock_ahead == 0.0;
    is_exact && limits.pools.len() == 1 && world.pools.len() == 1 && goes_on_with_slack(policy, limits)
}

/// Spot that runs, stays up and has slack to spare, which most ticks of most replays are. For how many ticks.
fn run_on(state: &mut State, limits: &Limits, world: &World, tick: usize, watch: &mut Watch) -> u32 {
    if state.running != Action::Spot(0) || state.pending_worst > 0.0 {
        return 0;
    }
    let mut ran = 0;
    let mut ticks = world.pools[0][tick..].iter();
    watch.run_on(|| {
        let goes_on = state.left > DONE && ticks.next().is_some_and(|is_up| *is_up) && has_slack(state, limits);
        if goes_on {
            state.left -= limits.tick;
            state.elapsed += limits.tick;
            ran += 1;
        }
        goes_on
    });
    ran
}

fn ended(outcome: Outcome, state: &State, limits: &Limits) -> Outcome {
    Outcome {
        finish_hours: state.elapsed / 3600.0,
        spare_hours: -state.left.min(0.0) / 3600.0,
        last: state.running,
        met_deadline: !outcome.out_of_budget && state.elapsed <= limits.deadline + 1e-6,
        ..outcome
    }
}

/// What this start really takes.
fn changeover(action: Action, state: &State, limits: &Limits, world: &World, starts: u32) -> f64 {
    let sampled = world.changeovers.get(starts as usize % world.changeovers.len().max(1)).copied();
    let expected = limits.changeover_to(action, state.last_pool);
    if expected == limits.changeover { sampled.unwrap_or(expected) } else { expected }
}

/// The first decision that the world allows: a refused start is an answer, and the policy is asked again at once.
fn try_to_run(
    policy: &Policy,
    state: &State,
    limits: &Limits,
    world: &World,
    tick: usize,
    watch: &mut Watch,
) -> Decision {
    let mut on_demand = true;
    loop {
        let decision = decide(policy, state, &Observation { pools: watch.views(), on_demand }, limits);
        match decision.action {
            Action::Spot(pool) if !world.pools[pool][tick] && watch.views()[pool].up => watch.refused(pool),
            Action::Spot(pool) if !world.pools[pool][tick] => return Decision { action: Action::Idle, ..decision },
            Action::OnDemand(_) if !state.running.is_on_demand() && !world.on_demand(tick) => {
                if !on_demand {
                    return Decision { action: Action::Idle, reason: Reason::SoldOut };
                }
                on_demand = false;
            }
            _ => return decision,
        }
    }
}

fn note(decisions: &mut Vec<Stretch>, decision: Decision) {
    match decisions.last_mut() {
        Some(last) if last.action == decision.action => last.ticks += 1,
        _ => decisions.push(Stretch { action: decision.action, ticks: 1, reason: decision.reason }),
    }
}

/// Ticks by place, so that money is multiplied and rounded once.
struct Meter {
    spot: Vec<u32>,
    /// Paid for spot where its price moves.
    moving: Option<Usd>,
    own_on_demand: Vec<u32>,
    on_demand: u32,
    moves: Usd,
}

impl Meter {
    fn new(pools: usize, world: &World) -> Self {
        let moving = (!world.rates.is_empty()).then_some(Usd::ZERO);
        Self { spot: vec![0; pools], moving, own_on_demand: vec![0; pools], on_demand: 0, moves: Usd::ZERO }
    }

    /// `None`: beyond counting.
    fn run(&mut self, action: Action, terms: &Limits) -> Option<()> {
        match action {
            Action::Idle => {}
            Action::Spot(pool) => {
                self.spot[pool] += 1;
                if let Some(paid) = &mut self.moving {
                    *paid = *paid + terms.rate(action).for_hours(1, terms.tick / 3600.0)?;
                }
            }
            Action::OnDemand(Some(pool)) => self.own_on_demand[pool] += 1,
            Action::OnDemand(None) => self.on_demand += 1,
        }
        Some(())
    }

    fn settle(self, limits: &Limits, mut outcome: Outcome) -> Option<Outcome> {
        let hours = |ticks: u32| f64::from(ticks) * limits.tick / 3600.0;
        let spot = (0..self.spot.len()).map(|pool| (Action::Spot(pool), self.spot[pool]));
        let own = (0..self.spot.len()).map(|pool| (Action::OnDemand(Some(pool)), self.own_on_demand[pool]));
        let lines: Vec<(Action, u32)> = spot.chain(own).chain([(Action::OnDemand(None), self.on_demand)]).collect();
        outcome.cost = self.moves + self.moving.unwrap_or(Usd::ZERO);
        let is_paid = |action: Action| self.moving.is_some() && matches!(action, Action::Spot(_));
        for (action, ticks) in lines.iter().filter(|(action, _)| !is_paid(*action)) {
            outcome.cost = outcome.cost + limits.rate(*action).for_hours(1, hours(*ticks))?;
        }
        let of = |on_demand: bool| {
            lines.iter().filter(move |(action, _)| action.is_on_demand() == on_demand).map(|(_, ticks)| hours(*ticks))
        };
        outcome.spot_hours = of(false).sum();
        outcome.on_demand_hours = of(true).sum();
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::availability::AvailabilityModel;
    use crate::availability::watch::FIRST_PAUSE;
    use crate::policy::semi_markov::Tables;
    use crate::simulation::hindsight;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// A save at every tick keeps all the work, as saving all the time does, and is gone through tick by tick.
        #[test]
        fn ticks_at_once_come_to_the_same_as_one_by_one(
            spells in prop::collection::vec(1_usize..60, 1..40),
            (work, slack, changeover) in (0.2_f64..60.0, 0.0_f64..40.0, 0.02_f64..1.5),
            is_seen in any::<bool>(),
        ) {
            let limits = hindsight::tests::limits(work * 3600.0, (work + slack) * 3600.0, changeover * 3600.0, 3.0);
            let states = spells.iter().enumerate().flat_map(|(at, ticks)| std::iter::repeat_n(at % 2 == 0, *ticks));
            let up: Vec<bool> = states.chain(std::iter::repeat_n(false, 1000)).collect();
            let watch = || if is_seen { Watch::full(1, 600.0) } else { Watch::attempts(1, 600.0, FIRST_PAUSE) };
            let tables = Arc::new(Tables::new(&AvailabilityModel::prior(), &limits));
            for policy in [Policy::SemiMarkov(tables), Policy::SlackReserve] {
                let pools = [&up[..]];
                let at_once = World::from_pools(&pools);
                let one_by_one = World { save_every: 1e-9, ..at_once };
                prop_assert!(is_plain(&policy, &limits, &at_once) && !is_plain(&policy, &limits, &one_by_one));
                let run = |world: &World| replay(&policy, &limits, world, 0, watch(), true);
                prop_assert_eq!(run(&at_once), run(&one_by_one));
            }
        }
    }
}
