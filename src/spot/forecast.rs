//! What a job will cost and when it will end: the shipped policy, run on availability drawn from the fitted model.

use serde::Serialize;

use crate::spot::availability::AvailabilityModel;
use crate::spot::draw::Draws;
use crate::spot::policy::{Limits, Policy};
use crate::spot::replay::{Outcome, ReplayError, World, replay};
use crate::spot::watch::Watch;
use crate::units::{Quantiles, Usd};

/// Futures drawn for one forecast: the 90th percentile then rests on thirty draws above it.
pub const DRAWS: usize = 300;

/// Ticks of one future; ten weeks of 32-second ticks.
const MOST_TICKS: usize = 200_000;

/// Keys as scripts read them.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// What pools may do from now on: drawn once, and then the same for every job that is compared on them.
#[derive(Clone, Debug)]
pub struct Futures {
    watch: Watch,
    /// By draw, then pool, then tick.
    up: Vec<Vec<Vec<bool>>>,
}

impl Futures {
    /// From what `watch` knows before the start. `tick` in seconds.
    pub fn draw(model: &AvailabilityModel, watch: Watch, tick: f64, ticks: usize, draws: usize, seed: u64) -> Self {
        let pools = watch.views().len();
        let future = |stream: usize| {
            let mut draws = Draws::new(seed, stream as u64);
            (0..pools).map(|pool| model.draw(&watch, pool, ticks, tick, &mut draws)).collect()
        };
        let up = (0..draws).map(future).collect();
        Self { watch, up }
    }

    /// Runs the job on every future, each time with the work of that draw, in seconds. `limits` must have the tick of the draws.
    pub fn run(&self, policy: &Policy, limits: &Limits, work: impl Fn(usize) -> f64) -> Result<Vec<Outcome>, ReplayError> {
        let mut limits = limits.clone();
        let mut outcomes = Vec::with_capacity(self.up.len());
        for (draw, futures) in self.up.iter().enumerate() {
            let pools: Vec<&[bool]> = futures.iter().map(Vec::as_slice).collect();
            let world = World { pools: &pools, outages: &[], changeovers: &[] };
            limits.work = work(draw);
            outcomes.push(replay(policy, &limits, &world, 0, self.watch.clone(), false)?);
        }
        Ok(outcomes)
    }
}

/// Forecast from what `watch` knows before the start, in whole ticks.
pub fn forecast(policy: &Policy, limits: &Limits, model: &AvailabilityModel, watch: Watch, seed: u64) -> Result<Forecast, ReplayError> {
    // Room for a policy that ignores the deadline, and for what is late.
    let changeovers = 10.0 * limits.worst_changeover;
    let ticks = ((limits.deadline.max(limits.work) * 1.5 + changeovers) / limits.tick).ceil() as usize + 10;
    if ticks > MOST_TICKS {
        return Err(ReplayError::TooLong(MOST_TICKS));
    }
    let futures = Futures::draw(model, watch, limits.tick, ticks, DRAWS, seed);
    futures.run(policy, limits, |_| limits.work).map(|outcomes| summary(&outcomes))
}

/// Means and percentiles of the outcomes of one job.
pub fn summary(outcomes: &[Outcome]) -> Forecast {
    let count = outcomes.len().max(1);
    let at = |share: f64| ((share * count as f64).ceil() as usize).clamp(1, count) - 1;
    let mean = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / count as f64;
    let quantiles = |value: fn(&Outcome) -> f64| {
        let mut sorted: Vec<f64> = outcomes.iter().map(value).collect();
        sorted.sort_by(f64::total_cmp);
        let of = |share: f64| sorted.get(at(share)).copied().unwrap_or_default();
        Quantiles { expected: mean(value), p50: of(0.5), p90: of(0.9) }
    };
    let mut costs: Vec<Usd> = outcomes.iter().map(|outcome| outcome.cost).collect();
    costs.sort();
    let mut finishes: Vec<f64> = outcomes.iter().map(|outcome| outcome.finish_hours).collect();
    finishes.sort_by(f64::total_cmp);
    let cost = |share: f64| costs.get(at(share)).copied().unwrap_or_default();
    let expected = Usd::from_dollars(mean(|outcome| outcome.cost.dollars())).unwrap_or_default();
    Forecast {
        cost_usd: CostQuantiles { expected, p50: cost(0.5), p75: cost(0.75), p90: cost(0.9) },
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
