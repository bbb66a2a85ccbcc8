//! Whether forecasts hold: constants from the first half of the traces, forecasts and outcomes from the second.

use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::availability::AvailabilityModel;
use crate::availability::watch::Watch;
use crate::evaluate::field::{Field, JobShape, TracePart};
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
            let world = World::of(pools);
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

fn pinball(happened: f64, said: f64) -> f64 {
    if happened > said { NINETY * (happened - said) } else { (1.0 - NINETY) * (said - happened) }
}
