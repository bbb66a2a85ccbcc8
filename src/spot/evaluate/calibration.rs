//! Whether forecasts hold: constants from the first half of the traces, forecasts and outcomes from the second.

use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::availability::AvailabilityModel;
use crate::availability::history::{Alike, Saw, Sighting, learned_availability, seen, still_says};
use crate::availability::watch::{FIRST_PAUSE, PRIOR_AVAILABILITY, Watch, pause_after};
use crate::evaluate::field::{Field, JobShape, Pool, TracePart};
use crate::policy::Policy;
use crate::policy::semi_markov::Tables;
use crate::simulation::forecast::forecast;
use crate::simulation::replay::{World, look_back, replay};

/// Windows of a trace.
const WINDOWS: usize = 40;
const NINETY: f64 = 0.9;

/// Forecasts of one shape against what happened.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Calibration {
    pub shape: String,
    pub windows: usize,
    /// Shares of windows that cost no more than the forecast's percentile.
    pub under_p50: f64,
    pub under_p75: f64,
    pub under_p90: f64,
    /// Pinball loss of the 90th percentile over that of the best single amount for all windows, found in hindsight.
    pub pinball_over_constant: f64,
}

struct ForecastOutcome {
    cost: f64,
    p50: f64,
    p75: f64,
    p90: f64,
}

/// Each pool alone.
pub fn calibrate_pools(field: &Field, shape: &JobShape, seed: u64) -> Option<Calibration> {
    let alone: Vec<Vec<usize>> = (0..field.pools.len()).map(|pool| vec![pool]).collect();
    calibrate(field, shape, &alone, seed)
}

/// Two zones of one type together.
pub fn calibrate_pairs(field: &Field, shape: &JobShape, seed: u64) -> Option<Calibration> {
    let pairs: Vec<Vec<usize>> = field.pairs().into_iter().map(|(a, b)| vec![a, b]).collect();
    calibrate(field, shape, &pairs, seed)
}

/// Jobs on these pools; `None` where no window fits.
fn calibrate(field: &Field, shape: &JobShape, jobs: &[Vec<usize>], seed: u64) -> Option<Calibration> {
    let together = jobs.first()?.len();
    let halves: Vec<(&[bool], f64)> =
        field.pools.iter().map(|pool| (&pool.up[..pool.up.len() / 2], field.tick)).collect();
    let model = AvailabilityModel::fit(&halves);
    let limits = shape.limits(field.tick, together);
    let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits)));
    let needed = (limits.deadline / field.tick).ceil() as usize;
    let windows_of = |job: &Vec<usize>| -> Vec<(Vec<&[bool]>, usize)> {
        let pools: Vec<&[bool]> = job.iter().map(|pool| field.pools[*pool].up.as_slice()).collect();
        TracePart::Late
            .starts(pools[0].len(), field.tick, needed, WINDOWS)
            .into_iter()
            .map(|start| (pools.clone(), start))
            .collect()
    };
    let windows: Vec<(Vec<&[bool]>, usize)> = jobs.iter().flat_map(windows_of).collect();
    let pairs: Vec<ForecastOutcome> = windows
        .par_iter()
        .enumerate()
        .filter_map(|(index, (pools, start))| {
            let world = World::from_pools(pools);
            let mut watch = Watch::full(together, field.tick);
            look_back(&mut watch, &world, *start);
            // Draws of its own for each window, so that the chance of one set of draws averages out.
            let said =
                forecast(&policy, &limits, &model, watch.clone(), seed.wrapping_add(index as u64)).ok()?.cost_usd;
            let cost = replay(&policy, &limits, &world, *start, watch, false).ok()?.cost.dollars();
            Some(ForecastOutcome { cost, p50: said.p50.dollars(), p75: said.p75.dollars(), p90: said.p90.dollars() })
        })
        .collect();
    let count = pairs.len() as f64;
    let under = |said: fn(&ForecastOutcome) -> f64| {
        pairs.iter().filter(|pair| pair.cost <= said(pair) + 1e-6).count() as f64 / count
    };
    let loss =
        |said: &dyn Fn(&ForecastOutcome) -> f64| pairs.iter().map(|pair| pinball(pair.cost, said(pair))).sum::<f64>();
    let constant = pairs.iter().map(|best| loss(&|_| best.cost)).fold(f64::INFINITY, f64::min);
    (!pairs.is_empty()).then(|| Calibration {
        shape: format!("{shape}, {}tick {} s", if together > 1 { "two zones, " } else { "" }, field.tick),
        windows: pairs.len(),
        under_p50: under(|pair| pair.p50),
        under_p75: under(|pair| pair.p75),
        under_p90: under(|pair| pair.p90),
        pinball_over_constant: loss(&|pair| pair.p90) / constant,
    })
}

/// Forecasts as a plan makes them, seen by attempts, of a pool of which so much is known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanCalibration {
    pub shape: String,
    /// What is known of the pool before the start.
    pub knows: &'static str,
    pub windows: usize,
    pub under_p50: f64,
    pub under_p90: f64,
    /// Mean pinball losses, over the cost of the work on on-demand machines.
    pub pinball_p50: f64,
    pub pinball_p90: f64,
}

/// Hours of a pool's history.
const HISTORY: f64 = 24.0;

/// What a run that takes spot machines whenever they are there saw in the day that ended `lag` hours before the start.
fn a_day_of_launches(up: &[bool], start: usize, tick: f64, lag: f64) -> Vec<Sighting> {
    let ticks = |hours: f64| (hours * 3600.0 / tick).round() as usize;
    let end = start.saturating_sub(ticks(lag));
    let (mut row, mut runs, mut refusals, mut next) = (Vec::new(), false, 0, 0);
    let begin = end.saturating_sub(ticks(HISTORY));
    for (at, up) in up.iter().enumerate().take(end).skip(begin) {
        let saw = match (runs, *up) {
            (true, true) => None,
            (true, false) => Some(Saw::Lost),
            (false, _) if at < next => None,
            (false, true) => Some(Saw::Gave),
            (false, false) => Some(Saw::Refused),
        };
        runs = runs && *up || saw == Some(Saw::Gave);
        refusals = if runs { 0 } else { refusals };
        if matches!(saw, Some(Saw::Lost | Saw::Refused)) {
            next = at + (pause_after(refusals, FIRST_PAUSE) / tick).ceil() as usize;
            refusals += 1;
        }
        row.extend(saw.map(|saw| Sighting { hours_ago: (start - at) as f64 * tick / 3600.0, saw }));
    }
    if runs {
        row.push(Sighting { hours_ago: (start - end) as f64 * tick / 3600.0, saw: Saw::Left });
    }
    row
}

/// With nothing known, after a day of the user's own launches that has just ended, and after one that ended two days ago. The shipped rule
/// and constants, so that nothing is fitted to these pools where their constants are of others.
pub fn calibrate_plans(field: &Field, shape: &JobShape, seed: u64) -> Vec<PlanCalibration> {
    let limits = shape.limits(field.tick, 1);
    let needed = (limits.deadline / field.tick).ceil() as usize;
    let first = ((HISTORY + 48.0) * 3600.0 / field.tick).ceil() as usize;
    let knowledge = [("nothing", None), ("a day of own launches", Some(0.0)), ("such a day, two days ago", Some(48.0))];
    let row = |(knows, lag): (&'static str, Option<f64>)| {
        let of_pool = |(index, pool): (usize, &Pool)| -> Vec<ForecastOutcome> {
            // Constants of other zones where there are any, as for every held-out figure.
            let model = pool.others.clone().unwrap_or_else(AvailabilityModel::prior);
            let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits)));
            let starts = TracePart::Whole.starts(pool.up.len().saturating_sub(first), field.tick, needed, WINDOWS / 2);
            let pools = [pool.up.as_slice()];
            let at = |start: usize| {
                let start = start + first;
                let known = lag.map(|lag| seen(&a_day_of_launches(&pool.up, start, field.tick, lag)));
                let alike: Vec<Alike> = known.iter().map(|seen| Alike { seen, machines: 1, is_same: true }).collect();
                let availability = learned_availability(PRIOR_AVAILABILITY, 1, &alike);
                let last = known.and_then(|seen| seen.last).and_then(still_says);
                let watch = Watch::attempts(1, field.tick, FIRST_PAUSE).assuming(availability).last_seen(last);
                let seed = seed.wrapping_add((index * WINDOWS + start) as u64);
                let said = forecast(&policy, &limits, &model, watch.clone(), seed).ok()?.cost_usd;
                let cost =
                    replay(&policy, &limits, &World::from_pools(&pools), start, watch, false).ok()?.cost.dollars();
                Some(ForecastOutcome {
                    cost,
                    p50: said.p50.dollars(),
                    p75: said.p75.dollars(),
                    p90: said.p90.dollars(),
                })
            };
            starts.into_iter().filter_map(at).collect()
        };
        let pairs: Vec<ForecastOutcome> = field.pools.par_iter().enumerate().flat_map_iter(of_pool).collect();
        let count = pairs.len() as f64;
        let mean = |value: &dyn Fn(&ForecastOutcome) -> f64| pairs.iter().map(value).sum::<f64>() / count;
        let under = |is: bool| f64::from(u8::from(is));
        (!pairs.is_empty()).then(|| PlanCalibration {
            shape: format!("{shape}, tick {} s", field.tick),
            knows,
            windows: pairs.len(),
            under_p50: mean(&|pair| under(pair.cost <= pair.p50 + 1e-6)),
            under_p90: mean(&|pair| under(pair.cost <= pair.p90 + 1e-6)),
            pinball_p50: mean(&|pair| (pair.cost - pair.p50).abs() / 2.0) / shape.on_demand_dollars(),
            pinball_p90: mean(&|pair| pinball(pair.cost, pair.p90)) / shape.on_demand_dollars(),
        })
    };
    knowledge.into_iter().filter_map(row).collect()
}

fn pinball(happened: f64, said: f64) -> f64 {
    if happened > said { NINETY * (happened - said) } else { (1.0 - NINETY) * (said - happened) }
}
