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

    /// On-demand capacity where `last` is, if that pool has a rate of its own.
    pub fn on_demand_in(&self, last: Option<usize>) -> Option<Action> {
        let there = last.filter(|last| self.pools.get(*last).is_some_and(|terms| terms.on_demand.is_some()));
        there.map(|last| Action::OnDemand(Some(last)))
    }

    /// On-demand capacity for so many hours after a run in `last`: where that one is, unless the lowest rate elsewhere pays for the move there.
    pub fn on_demand_after(&self, last: Option<usize>, hours: f64) -> Action {
        let cheapest = self.cheapest_on_demand();
        let Some(there) = self.on_demand_in(last) else { return cheapest };
        let moving = self.switched_to(cheapest, last).map_or(0.0, |terms| {
            let longer = (terms.switch_changeover - self.changeover) / 3600.0;
            terms.switch_cost.dollars() + longer * self.rate(cheapest).dollars()
        });
        let saves = (self.rate(there).dollars() - self.rate(cheapest).dollars()) * hours;
        if saves > moving { cheapest } else { there }
    }

    /// On-demand capacity at the lowest rate.
    pub fn cheapest_on_demand(&self) -> Action {
        let own = self.pools.iter().enumerate().filter_map(|(pool, terms)| Some((terms.on_demand?, pool)));
        let own = own.min_by_key(|(rate, _)| *rate).filter(|(rate, _)| *rate <= self.on_demand);
        Action::OnDemand(own.map(|(_, pool)| pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pools with on-demand machines at these rates, a move between which costs four dollars; a job's own rate that none of them asks.
    fn limits(rates: [f64; 2]) -> Limits {
        let dollars = |rate: f64| UsdPerHour::from_nanos((rate * 1e9) as i64);
        let terms = |rate: f64| PoolTerms {
            spot: dollars(1.0),
            on_demand: Some(dollars(rate)),
            switch_cost: Usd::from_dollars(4.0).unwrap(),
            switch_changeover: 720.0,
        };
        Limits {
            work: 36_000.0,
            deadline: 50_000.0,
            tick: 600.0,
            changeover: 720.0,
            worst_changeover: 720.0,
            on_demand: dollars(20.0),
            pools: rates.map(terms).to_vec(),
            budget: None,
        }
    }

    #[test]
    fn on_demand_stays_with_the_checkpoint_unless_a_move_pays() {
        let after = |rates: [f64; 2], last: Option<usize>, hours: f64| {
            limits(rates).on_demand_after(last, hours).pool().unwrap()
        };
        assert_eq!(after([4.0, 4.0], Some(1), 100.0), 1, "as cheap");
        assert_eq!(after([4.0, 5.0], Some(1), 3.9), 1, "$3.90 saved with a move of $4");
        assert_eq!(after([4.0, 5.0], Some(1), 4.1), 0);
        assert_eq!(after([4.0, 5.0], None, 0.0), 0, "nothing has run yet");
        let mut longer = limits([4.0, 5.0]);
        longer.pools[0].switch_changeover += 3600.0;
        assert_eq!(longer.on_demand_after(Some(1), 7.9).pool(), Some(1), "an hour more of a start costs another $4");
        longer.pools[1].on_demand = None;
        assert_eq!(longer.on_demand_after(Some(1), 0.0).pool(), Some(0), "there is none where the checkpoint is");
    }
}
