//! What to run in the coming tick: one pure `decide`, called by the replay, the forecast and the controller alike.
//!
//! It sees what a controller can see: its own job, and each pool as the last probe left it. It never sees the future.

pub mod pools;
pub mod reason;
pub mod rules;
pub mod safety;
pub mod semi_markov;
pub mod slack_reserve;

use std::sync::Arc;

use crate::policy::reason::Reason;
use crate::policy::semi_markov::Tables;
use gpuplan_units::{Usd, UsdPerHour};

/// Of the expected changeover, where nothing worse is declared: the 99th percentile of set-ups of which one in ten takes three
/// times as long.
pub const WORST_CHANGEOVER_RATIO: f64 = 3.0;

/// What runs during a tick, and so also what to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    #[default]
    Idle,
    /// Spot capacity of the pool with this index.
    Spot(usize),
    /// On-demand capacity: of a pool that names a rate of its own, or at the job's rate.
    OnDemand(Option<usize>),
}

impl Action {
    pub fn is_on_demand(self) -> bool {
        matches!(self, Self::OnDemand(_))
    }

    /// The pool it runs in, if that is one of the job's.
    pub fn pool(self) -> Option<usize> {
        match self {
            Self::Spot(pool) => Some(pool),
            Self::OnDemand(pool) => pool,
            Self::Idle => None,
        }
    }
}

/// The job and its terms, which do not change while it runs. Times in seconds, rates for all machines together.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Undisturbed run time.
    pub work: f64,
    /// From the start.
    pub deadline: f64,
    /// Between two decisions.
    pub tick: f64,
    /// Expected time from the decision to start until work goes on.
    pub changeover: f64,
    /// What the same may take at worst; the deadline is kept as long as no changeover takes longer.
    pub worst_changeover: f64,
    pub on_demand: UsdPerHour,
    pub pools: Vec<PoolTerms>,
    /// Nothing is started or kept running that would cost more than what is left of it.
    pub budget: Option<Usd>,
}

/// What a pool costs and what it costs to move there.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolTerms {
    pub spot: UsdPerHour,
    /// Rate of on-demand machines there, where it differs from the job's.
    pub on_demand: Option<UsdPerHour>,
    /// Paid once by a start that follows a run in another pool: egress of the checkpoint.
    pub switch_cost: Usd,
    /// Changeover of such a start.
    pub switch_changeover: f64,
}

impl Limits {
    /// Expected changeover of a start there when `last` ran before.
    pub fn changeover_to(&self, action: Action, last: Option<usize>) -> f64 {
        self.switched_to(action, last).map_or(self.changeover, |terms| terms.switch_changeover)
    }

    /// The longest that a start may take: a move to another pool is stretched like any changeover.
    pub fn worst_changeover_to(&self, action: Action, last: Option<usize>) -> f64 {
        self.switched_to(action, last)
            .map_or(self.worst_changeover, |terms| terms.switch_changeover + (self.worst_changeover - self.changeover))
    }

    /// The terms of the pool that a start moves to, if it does.
    pub fn switched_to(&self, action: Action, last: Option<usize>) -> Option<&PoolTerms> {
        let pool = action.pool()?;
        if last.is_none_or(|last| last == pool) { None } else { self.pools.get(pool) }
    }

    pub fn rate(&self, action: Action) -> UsdPerHour {
        match action {
            Action::Idle => UsdPerHour::default(),
            Action::Spot(pool) => self.pools.get(pool).map_or(self.on_demand, |terms| terms.spot),
            Action::OnDemand(pool) => pool.and_then(|pool| self.pools.get(pool)?.on_demand).unwrap_or(self.on_demand),
        }
    }

    /// What the next tick of it costs, with the move there.
    pub fn cost(&self, action: Action, last: Option<usize>) -> Option<Usd> {
        let moves = self.switched_to(action, last).map_or(Usd::ZERO, |terms| terms.switch_cost);
        Some(self.rate(action).for_hours(1, self.tick / 3600.0)? + moves)
    }

    /// On-demand capacity at the lowest rate.
    pub fn cheapest_on_demand(&self) -> Action {
        let own = (0..self.pools.len())
            .filter(|pool| self.pools[*pool].on_demand.is_some())
            .map(|pool| Action::OnDemand(Some(pool)));
        own.chain([Action::OnDemand(None)]).min_by_key(|action| self.rate(*action)).unwrap_or(Action::OnDemand(None))
    }
}

/// Where the job stands at the start of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    pub elapsed: f64,
    /// Work not yet done.
    pub left: f64,
    /// Paid so far; counted only where there is a budget.
    pub spent: Usd,
    /// What ran during the last tick and can go on; a machine that was taken away no longer runs.
    pub running: Action,
    /// The pool that ran last, whose storage holds the checkpoint.
    pub last_pool: Option<usize>,
    /// What is left of the changeover under way if it takes the expected time; 0 once work goes on.
    pub pending: f64,
    /// The same if it takes the longest. Above 0 until work goes on.
    pub pending_worst: f64,
}

impl State {
    pub fn until(&self, limits: &Limits) -> f64 {
        limits.deadline - self.elapsed
    }
}

/// A pool as far as the controller knows it. Times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolView {
    /// What the last probe found.
    pub up: bool,
    /// How long probes have found the same.
    pub age: f64,
    /// Share of time that it was up lately: exponentially weighted, half-life one day.
    pub availability: f64,
    /// Age of the last probe.
    pub probed: f64,
}

/// The world as far as the controller knows it.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    pub pools: &'a [PoolView],
    /// On-demand capacity can be had, as far as the last attempt says.
    pub on_demand: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    pub action: Action,
    pub reason: Reason,
}

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

/// Decides the coming tick: what the rule wants, as far as there is money for it.
pub fn decide(policy: &Policy, state: &State, observation: &Observation, limits: &Limits) -> Decision {
    within_budget(wish(policy, state, observation, limits), state, limits)
}

/// Lets a decision pass if there is money for its next tick.
pub fn within_budget(decision: Decision, state: &State, limits: &Limits) -> Decision {
    let Some(budget) = limits.budget.filter(|_| decision.action != Action::Idle) else { return decision };
    let last = state.last_pool.filter(|_| decision.action != state.running);
    let is_affordable = limits.cost(decision.action, last).is_some_and(|cost| state.spent + cost <= budget);
    if is_affordable { decision } else { Decision { action: Action::Idle, reason: Reason::BudgetReached } }
}

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
