//! `Limits`: the job, its terms and those of its pools.

use crate::policy::decision::Action;
use gpuplan_units::{Usd, UsdPerHour};

/// Of the expected changeover, where nothing worse is declared: the 99th percentile of set-ups of which one in ten takes three
/// times as long.
pub const WORST_CHANGEOVER_RATIO: f64 = 3.0;

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

    /// Hours of spot at this rate that a move to another pool costs on average. `None`: moves cost nothing that another start does not.
    pub fn hours_of_a_move(&self, rate: UsdPerHour) -> Option<f64> {
        let hours = |terms: &PoolTerms| {
            terms.switch_cost.dollars() / rate.dollars() + (terms.switch_changeover - self.changeover) / 3600.0
        };
        let mean = self.pools.iter().map(hours).sum::<f64>() / self.pools.len() as f64;
        (self.pools.len() > 1 && mean > 0.0).then_some(mean)
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
