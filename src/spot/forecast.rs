//! What a job will cost and when it will end: the shipped policy, run on availability drawn from the fitted model.

use serde::Serialize;

use crate::spot::availability::AvailabilityModel;
use crate::spot::draw::Draws;
use crate::spot::policy::{Limits, Policy};
use crate::spot::replay::{Outcome, ReplayError, World, replay};
use crate::spot::watch::Watch;
use crate::units::Usd;

/// Futures drawn for one forecast: the 90th percentile then rests on thirty draws above it.
const DRAWS: u64 = 300;

/// Ticks of one future; ten weeks of 32-second ticks.
const MOST_TICKS: usize = 200_000;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub cost_usd: CostQuantiles,
    pub finish_hours: FinishQuantiles,
    pub chance_by_deadline: f64,
    /// Mean hours on on-demand machines.
    pub on_demand_hours: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostQuantiles {
    pub expected: Usd,
    pub p50: Usd,
    pub p75: Usd,
    pub p90: Usd,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FinishQuantiles {
    pub p50: f64,
    pub p90: f64,
}

/// Forecast from what `watch` knows before the start.
pub fn forecast(policy: &Policy, limits: &Limits, model: &AvailabilityModel, watch: Watch, seed: u64) -> Result<Forecast, ReplayError> {
    // Room for a policy that ignores the deadline, and for what is late.
    let changeovers = 10.0 * limits.worst_changeover;
    let ticks = ((limits.deadline.max(limits.work) * 1.5 + changeovers) / limits.tick).ceil() as usize + 10;
    if ticks > MOST_TICKS {
        return Err(ReplayError::TooLong(MOST_TICKS));
    }
    let mut outcomes = Vec::with_capacity(DRAWS as usize);
    for stream in 0..DRAWS {
        let mut draws = Draws::new(seed, stream);
        let futures: Vec<Vec<bool>> =
            (0..limits.pools.len()).map(|pool| model.draw(&watch, pool, ticks, limits.tick, &mut draws)).collect();
        let pools: Vec<&[bool]> = futures.iter().map(Vec::as_slice).collect();
        let world = World { pools: &pools, outages: &[], changeovers: &[] };
        outcomes.push(replay(policy, limits, &world, 0, watch.clone(), false)?);
    }
    Ok(summary(outcomes))
}

fn summary(mut outcomes: Vec<Outcome>) -> Forecast {
    let count = outcomes.len().max(1);
    let at = |share: f64| ((share * count as f64).ceil() as usize).clamp(1, count) - 1;
    let mean = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / count as f64;
    let chance_by_deadline = mean(|outcome| f64::from(u8::from(outcome.met_deadline)));
    let on_demand_hours = mean(|outcome| outcome.on_demand_hours);
    let expected = Usd::from_dollars(mean(|outcome| outcome.cost.dollars())).unwrap_or_default();
    outcomes.sort_by_key(|outcome| outcome.cost);
    let cost = |share: f64| outcomes[at(share)].cost;
    let cost_usd = CostQuantiles { expected, p50: cost(0.5), p75: cost(0.75), p90: cost(0.9) };
    let mut finish: Vec<f64> = outcomes.iter().map(|outcome| outcome.finish_hours).collect();
    finish.sort_by(f64::total_cmp);
    let finish_hours = FinishQuantiles { p50: finish[at(0.5)], p90: finish[at(0.9)] };
    Forecast { cost_usd, finish_hours, chance_by_deadline, on_demand_hours }
}
