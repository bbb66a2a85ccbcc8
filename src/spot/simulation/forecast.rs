//! What a job will cost and when it will end: the shipped policy, run on availability drawn from the fitted model.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::availability::spells::spot_only;
use crate::availability::watch::Watch;
use crate::availability::{AvailabilityModel, Future};
use crate::policy::{Limits, Policy};
use crate::simulation::hindsight::{self, Fallback, Least};
use crate::simulation::replay::{Outcome, ReplayError, World, replay};
use gpuplan_units::draw::Draws;
use gpuplan_units::{Quantiles, Usd};

/// Futures drawn for one forecast: the 90th percentile then rests on thirty draws above it.
pub const DRAWS: usize = 300;

/// Ticks of one future; ten weeks of 32-second ticks.
const MOST_TICKS: usize = 200_000;

/// Keys as scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Of machines alone.
    pub cost_usd: CostQuantiles,
    pub finish_hours: Quantiles<f64>,
    /// Until the first machine runs.
    pub wait_hours: Quantiles<f64>,
    pub chance_by_deadline: f64,
    /// Mean hours on on-demand machines.
    pub on_demand_hours: f64,
    /// Mean hours on spot machines.
    pub spot_hours: f64,
    /// Mean number of spot machines taken away.
    pub interruptions: f64,
    /// The cost of every draw, cheapest first.
    #[serde(skip)]
    pub costs: Vec<Usd>,
    /// The finish of every draw, soonest first. Hours.
    #[serde(skip)]
    pub finishes: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostQuantiles {
    pub expected: Usd,
    pub p50: Usd,
    pub p75: Usd,
    pub p90: Usd,
}

impl Forecast {
    /// Of all machine hours.
    pub fn on_demand_share(&self) -> f64 {
        self.on_demand_hours / (self.on_demand_hours + self.spot_hours).max(f64::MIN_POSITIVE)
    }
}

/// What pools may do from now on: drawn once, and then the same for every job that is compared on them, from however many threads.
#[derive(Debug)]
pub struct Futures {
    model: AvailabilityModel,
    watch: Watch,
    /// Seconds.
    tick: f64,
    seed: u64,
    /// By draw, then pool; each is made by the first who asks for it. No lock is held while others are waited for.
    by_draw: Vec<OnceLock<Mutex<Vec<Future>>>>,
}

impl Futures {
    /// From what `watch` knows before the start. `tick` in seconds.
    pub fn new(model: &AvailabilityModel, watch: Watch, tick: f64, seed: u64) -> Self {
        let by_draw = (0..DRAWS).map(|_| OnceLock::new()).collect();
        Self { model: model.clone(), watch, tick, seed, by_draw }
    }

    /// One draw, of `DRAWS` at most.
    fn draw(&self, draw: usize) -> MutexGuard<'_, Vec<Future>> {
        let Self { model, watch, tick, seed, by_draw } = self;
        let pools = watch.views().len();
        let future = |pool: usize| {
            let alone = Future::new(model, watch, pool, *tick, Draws::new(*seed, (draw * pools + pool) as u64));
            if pools == 1 { alone } else { alone.together(Draws::new(!*seed, draw as u64)) }
        };
        let drawn = by_draw[draw].get_or_init(|| Mutex::new((0..pools).map(future).collect()));
        // Whoever panicked has drawn too little, never wrongly.
        drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the job on the first `draws` futures, of `DRAWS` at most, each with the work of that draw, in seconds. `limits` must have their tick.
    pub fn run(
        &self,
        policy: &Policy,
        limits: &Limits,
        draws: usize,
        work: impl Fn(usize) -> f64 + Sync,
    ) -> Result<Vec<Outcome>, ReplayError> {
        let first = (limits.deadline.max(limits.work) / limits.tick).ceil();
        if first > MOST_TICKS as f64 {
            return Err(ReplayError::TooLong(MOST_TICKS));
        }
        let run = |limits: &mut Limits, draw: usize| {
            limits.work = work(draw);
            run_to_the_end(policy, limits, &mut self.draw(draw), &self.watch, first as usize + 10)
        };
        (0..draws.min(DRAWS)).into_par_iter().map_init(|| limits.clone(), run).collect()
    }

    /// What no policy undercuts on average over the same futures, of one pool; at which value of an hour.
    pub fn least(
        &self,
        limits: &Limits,
        fallback: Fallback,
        draws: usize,
        work: impl Fn(usize) -> f64 + Sync,
        value_of_hour: f64,
    ) -> Result<Least, ReplayError> {
        let ticks = (limits.deadline.max(limits.work) / limits.tick).ceil();
        if ticks > MOST_TICKS as f64 {
            return Err(ReplayError::TooLong(MOST_TICKS));
        }
        let of_one = |limits: &mut Limits, draw: usize| {
            limits.work = work(draw);
            let mut futures = self.draw(draw);
            hindsight::least(limits, fallback, futures[0].spells(ticks as usize + 10), value_of_hour)
        };
        let of_each: Vec<Least> = (0..draws.min(DRAWS)).into_par_iter().map_init(|| limits.clone(), of_one).collect();
        let mean = |value: fn(&Least) -> f64| of_each.iter().map(value).sum::<f64>() / of_each.len().max(1) as f64;
        Ok(Least { dollars: mean(|least| least.dollars), hours: mean(|least| least.hours) })
    }
}

/// Draws on until the work is done.
fn run_to_the_end(
    policy: &Policy,
    limits: &Limits,
    futures: &mut [Future],
    watch: &Watch,
    first: usize,
) -> Result<Outcome, ReplayError> {
    if let ([pool], true) = (&mut *futures, is_spot_alone(policy, limits)) {
        return spot_only(limits, pool.spells(MOST_TICKS), watch.pause()).map_err(|error| match error {
            ReplayError::TraceEnds => ReplayError::TooLong(MOST_TICKS),
            other => other,
        });
    }
    let mut ticks = first.min(MOST_TICKS);
    loop {
        for future in futures.iter_mut() {
            future.reach(ticks);
        }
        let pools: Vec<&[bool]> = futures.iter().map(Future::up).collect();
        let outcome = replay(policy, limits, &World::from_pools(&pools), 0, watch.clone(), false);
        match outcome {
            Err(ReplayError::TraceEnds) if ticks < MOST_TICKS => ticks = (2 * ticks).min(MOST_TICKS),
            Err(ReplayError::TraceEnds) => return Err(ReplayError::TooLong(MOST_TICKS)),
            other => return other,
        }
    }
}

/// Nothing can happen but spells.
fn is_spot_alone(policy: &Policy, limits: &Limits) -> bool {
    matches!(policy, Policy::SpotOnly) && limits.budget.is_none()
}

/// Forecast from what `watch` knows before the start, in whole ticks.
pub fn forecast(
    policy: &Policy,
    limits: &Limits,
    model: &AvailabilityModel,
    watch: Watch,
    seed: u64,
) -> Result<Forecast, ReplayError> {
    let futures = Futures::new(model, watch, limits.tick, seed);
    futures.run(policy, limits, DRAWS, |_| limits.work).map(|outcomes| summary(&outcomes))
}

/// Means and percentiles of the outcomes of one job, of at least one draw.
pub fn summary(outcomes: &[Outcome]) -> Forecast {
    let count = outcomes.len();
    let at = |share: f64| ((share * count as f64).ceil() as usize).clamp(1, count) - 1;
    let mean = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / count as f64;
    let quantiles = |value: fn(&Outcome) -> f64| {
        let mut sorted: Vec<f64> = outcomes.iter().map(value).collect();
        sorted.sort_by(f64::total_cmp);
        Quantiles { expected: mean(value), p50: sorted[at(0.5)], p90: sorted[at(0.9)] }
    };
    let mut costs: Vec<Usd> = outcomes.iter().map(|outcome| outcome.cost).collect();
    costs.sort();
    let mut finishes: Vec<f64> = outcomes.iter().map(|outcome| outcome.finish_hours).collect();
    finishes.sort_by(f64::total_cmp);
    // Where a floating point of dollars is beyond counting, the exact mean is not.
    let expected = Usd::from_dollars(mean(|outcome| outcome.cost.dollars()));
    let expected = expected.unwrap_or_else(|| costs.iter().copied().sum::<Usd>().share(1, count as i128));
    Forecast {
        cost_usd: CostQuantiles { expected, p50: costs[at(0.5)], p75: costs[at(0.75)], p90: costs[at(0.9)] },
        finish_hours: quantiles(|outcome| outcome.finish_hours),
        wait_hours: quantiles(|outcome| outcome.wait_hours),
        chance_by_deadline: mean(|outcome| f64::from(u8::from(outcome.met_deadline))),
        on_demand_hours: mean(|outcome| outcome.on_demand_hours),
        spot_hours: mean(|outcome| outcome.spot_hours),
        interruptions: mean(|outcome| f64::from(outcome.interruptions)),
        costs,
        finishes,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::availability::watch::FIRST_PAUSE;
    use crate::policy::semi_markov::Tables;

    /// What drawing 300 futures anew, and decisions at whole ticks, may change of a mean cost.
    const SAME: f64 = 1.02;

    /// Work and deadline in hours, the changeover in seconds.
    fn limits(work: f64, deadline: f64, changeover: f64, price_ratio: f64) -> Limits {
        hindsight::tests::limits(work * 3600.0, deadline * 3600.0, changeover, price_ratio)
    }

    /// Whoever has more time has every choice that others have. The same futures for both. Of 2,000 cases the worst cost 1.4 % more.
    #[test]
    fn a_later_deadline_costs_no_more() {
        const CASES: u64 = 200;
        let model = AvailabilityModel::prior();
        let dearer = |case: u64| {
            let mut draws = Draws::new(20, case);
            let mut between = |least: f64, most: f64| least + (most - least) * draws.uniform();
            let (work, slack, more) = (between(0.5, 30.0), between(1.0, 40.0), between(1.1, 8.0));
            let (changeover, ratio, availability) =
                (between(0.05, 0.6) * 3600.0, between(1.3, 5.0), between(0.1, 0.95));
            let cost = |slack: f64| {
                let limits = limits(work, work + slack + 3.0 * changeover / 3600.0, changeover, ratio);
                let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits)));
                let watch = Watch::attempts(1, 600.0, FIRST_PAUSE).assuming(availability);
                forecast(&policy, &limits, &model, watch, 1).unwrap().cost_usd.expected.dollars()
            };
            cost(slack * more) / cost(slack)
        };
        let worst = (0..CASES).into_par_iter().map(dearer).reduce(|| 0.0, f64::max);
        assert!(worst <= SAME, "{worst}");
    }

    /// The same where a move between three pools costs something, so that waiting for the checkpoint is weighed. Of 600 cases the worst cost .4 % more.
    #[test]
    fn a_later_deadline_costs_no_more_where_moves_do() {
        const CASES: u64 = 60;
        let model = AvailabilityModel::prior();
        let dearer = |case: u64| {
            let mut draws = Draws::new(21, case);
            let mut between = |least: f64, most: f64| least + (most - least) * draws.uniform();
            let (work, slack, more) = (between(2.0, 30.0), between(1.0, 40.0), between(1.1, 8.0));
            let (changeover, ratio, hours) = (between(0.05, 0.6) * 3600.0, between(1.3, 5.0), between(0.1, 6.0));
            let cost = |slack: f64| {
                let mut limits = limits(work, work + slack + 3.0 * changeover / 3600.0, changeover, ratio);
                limits.pools = vec![limits.pools[0].clone(); 3];
                for pool in &mut limits.pools {
                    pool.switch_cost = pool.spot.for_hours(1, hours).unwrap();
                }
                let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits)));
                let watch = Watch::attempts(3, 600.0, FIRST_PAUSE);
                forecast(&policy, &limits, &model, watch, 1).unwrap().cost_usd.expected.dollars()
            };
            cost(slack * more) / cost(slack)
        };
        let worst = (0..CASES).into_par_iter().map(dearer).reduce(|| 0.0, f64::max);
        assert!(worst <= SAME, "{worst}");
    }

    /// A cell of slack may be wider than a short job is long, and waiting seemed to do the job: four hours of work waited 9 h at 230 h, 17 at 236 and 10
    /// at 240.
    #[test]
    fn cost_and_wait_of_a_short_job_do_not_jump() {
        const DEADLINES: [f64; 11] = [24.0, 72.0, 168.0, 220.0, 230.0, 236.0, 240.0, 243.0, 250.0, 300.0, 720.0];
        let model = AvailabilityModel::prior();
        let of = |work: f64, deadline: f64| {
            let limits = limits(work, deadline, 720.0, 3.06 / 0.9731);
            let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits)));
            forecast(&policy, &limits, &model, Watch::attempts(1, 600.0, FIRST_PAUSE), 1).unwrap()
        };
        for work in [0.5, 1.0, 4.0] {
            let forecasts: Vec<Forecast> = DEADLINES.into_par_iter().map(|deadline| of(work, deadline)).collect();
            for (pair, later) in forecasts.windows(2).zip(&DEADLINES[1..]) {
                let [cost, wait] =
                    [|made: &Forecast| made.cost_usd.expected.dollars(), |made: &Forecast| made.wait_hours.expected]
                        .map(|of| (of(&pair[0]), of(&pair[1])));
                assert!(cost.1 <= SAME * cost.0, "{work} h in {later} h: {cost:?}");
                assert!(*later < 200.0 || (wait.1 - wait.0).abs() < 1.0, "{work} h in {later} h: {wait:?}");
            }
        }
    }

    #[test]
    fn a_cost_beyond_floating_point_is_not_zero() {
        // The largest amount that a machine may cost, and a move on top of it.
        let cost = Usd::from_dollars(7.9e19).unwrap() + Usd::from_dollars(7.9e19).unwrap();
        let outcomes =
            [Outcome { cost, ..Outcome::default() }, Outcome { cost, finish_hours: 2.0, ..Outcome::default() }];
        let summary = summary(&outcomes);
        assert_eq!((summary.cost_usd.expected, summary.cost_usd.p50, summary.finish_hours.p90), (cost, cost, 2.0));
    }
}
