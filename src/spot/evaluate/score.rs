//! Scores of policies on windows: cost over on-demand, misses, starts, with intervals by resampling whole pools.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::availability::watch::Watch;
use crate::evaluate::field::{Entrant, Field, JobShape, Pool, TracePart};
use crate::policy::{Limits, Policy};
use crate::simulation::omniscient::least_cost;
use crate::simulation::replay::{World, look_back, replay};
use gpuplan_units::draw::Draws;

/// Samples of an interval.
const SAMPLES: usize = 1000;
/// The optimum of finer ticks takes minutes and is left out.
const FINEST_OPTIMUM: f64 = 300.0;

/// How windows are run. Times in seconds.
#[derive(Clone, Debug, Default)]
pub struct Protocol {
    pub windows: usize,
    pub part: TracePart,
    /// As a controller, which knows attempts alone: the first pause after a refusal. `None`: every pool is seen at every tick.
    pub pause: Option<f64>,
    /// What starts really take; empty: what is expected.
    pub changeovers: Vec<f64>,
}

/// One policy. Costs are over those of the work on on-demand machines.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PolicyScore {
    pub policy: &'static str,
    pub windows: usize,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    /// Of the mean, 95 %.
    pub interval: (f64, f64),
    /// Mean saving under uniform progress, as a share of its cost, and 95 % of it.
    pub saving: Option<(f64, f64, f64)>,
    /// Share of the way from uniform progress to the optimum; none for who does not keep the deadline.
    pub gap_closed: Option<f64>,
    pub missed: usize,
    pub starts: f64,
    pub interruptions: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Score {
    cost: f64,
    missed: bool,
    starts: f64,
    interruptions: f64,
}

/// Scores by pool; the same windows for every entrant.
type Scores = Vec<Vec<Score>>;

pub fn rows(field: &Field, shape: &JobShape, run: &Protocol, entrants: &[Entrant], seed: u64) -> Vec<PolicyScore> {
    let all: Vec<(Entrant, Scores)> =
        entrants.iter().filter_map(|entrant| Some((*entrant, scores(field, shape, run, *entrant)?))).collect();
    let of = |entrant: Entrant| all.iter().find(|(other, _)| *other == entrant).map(|(_, scores)| scores);
    let (uniform, optimum) = (of(Entrant::UniformProgress), of(Entrant::Omniscient));
    all.iter()
        .map(|(entrant, scores)| {
            let flat: Vec<Score> = scores.iter().flatten().copied().collect();
            let average = |value: fn(&Score) -> f64| flat.iter().map(value).sum::<f64>() / flat.len() as f64;
            let mean = average(|score| score.cost);
            let mut costs: Vec<f64> = flat.iter().map(|score| score.cost).collect();
            costs.sort_by(f64::total_cmp);
            let at = |share: f64| costs[((share * costs.len() as f64).ceil() as usize).clamp(1, costs.len()) - 1];
            let saving = |own: &Scores, base: &Scores| 1.0 - cost(own) / cost(base);
            PolicyScore {
                policy: entrant.name(),
                windows: flat.len(),
                mean,
                p50: at(0.5),
                p90: at(0.9),
                interval: resampled(scores.len(), seed, |pools| cost(&pick(scores, pools))),
                saving: uniform.filter(|_| *entrant != Entrant::UniformProgress).map(|base| {
                    let (low, high) =
                        resampled(scores.len(), seed, |pools| saving(&pick(scores, pools), &pick(base, pools)));
                    (saving(scores, base), low, high)
                }),
                gap_closed: uniform
                    .zip(optimum)
                    .filter(|_| *entrant != Entrant::SpotOnly)
                    .map(|(base, best)| (cost(base) - mean) / (cost(base) - cost(best))),
                missed: flat.iter().filter(|score| score.missed).count(),
                starts: average(|score| score.starts),
                interruptions: average(|score| score.interruptions),
            }
        })
        .collect()
}

fn cost(scores: &Scores) -> f64 {
    scores.iter().flatten().map(|score| score.cost).sum::<f64>() / scores.iter().map(Vec::len).sum::<usize>() as f64
}

fn pick(scores: &Scores, pools: &[usize]) -> Scores {
    pools.iter().map(|pool| scores[*pool].clone()).collect()
}

/// 2.5th and 97.5th percentile over samples of pools: windows of one pool overlap and say much the same.
fn resampled(pools: usize, seed: u64, figure: impl Fn(&[usize]) -> f64) -> (f64, f64) {
    let mut draws = Draws::new(seed, 0);
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let picked: Vec<usize> = (0..pools).map(|_| draws.below(pools)).collect();
            figure(&picked)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    (samples[SAMPLES / 40], samples[SAMPLES - 1 - SAMPLES / 40])
}

/// `None` where the entrant does not run on every pool, or no window fits.
fn scores(field: &Field, shape: &JobShape, run: &Protocol, entrant: Entrant) -> Option<Scores> {
    if entrant == Entrant::Omniscient && field.tick < FINEST_OPTIMUM {
        return None;
    }
    let limits = shape.limits(field.tick, 1);
    let needed = (limits.deadline / field.tick).ceil() as usize;
    let by_pool: Option<Scores> = field
        .pools
        .par_iter()
        .map(|pool| {
            let usual = entrant.policy(pool, &limits, 0);
            if usual.is_none() && entrant != Entrant::Omniscient {
                return None;
            }
            let starts = run.part.starts(pool.up.len(), field.tick, needed, run.windows);
            let at = |start| {
                let policy =
                    if entrant == Entrant::Oracle { entrant.policy(pool, &limits, start) } else { usual.clone() };
                score(&[pool], policy.as_ref(), &limits, shape, run, start)
            };
            Some(starts.into_iter().filter_map(at).collect())
        })
        .collect();
    by_pool.filter(|scores| scores.iter().all(|windows| !windows.is_empty()))
}

/// Without a policy, the optimum.
fn score(
    pools: &[&Pool],
    policy: Option<&Policy>,
    limits: &Limits,
    shape: &JobShape,
    run: &Protocol,
    start: usize,
) -> Option<Score> {
    let pools: Vec<&[bool]> = pools.iter().map(|pool| pool.up.as_slice()).collect();
    let world = World { changeovers: &run.changeovers, ..World::from_pools(&pools) };
    let Some(policy) = policy else {
        let cost = least_cost(limits, &world, start)?.dollars() / shape.on_demand_dollars();
        return Some(Score { cost, ..Score::default() });
    };
    let mut watch = match run.pause {
        None => Watch::full(pools.len(), limits.tick),
        Some(pause) => Watch::attempts(pools.len(), limits.tick, pause),
    };
    look_back(&mut watch, &world, start);
    let outcome = replay(policy, limits, &world, start, watch, false).ok()?;
    Some(Score {
        cost: outcome.cost.dollars() / shape.on_demand_dollars(),
        missed: !outcome.met_deadline,
        starts: f64::from(outcome.starts),
        interruptions: f64::from(outcome.interruptions),
    })
}

/// Mean cost of two pools alone and of both together, over windows of the whole traces.
pub fn pair(
    field: &Field,
    (a, b): (usize, usize),
    shape: &JobShape,
    entrant: Entrant,
    windows: usize,
) -> Option<(f64, f64)> {
    if entrant == Entrant::Omniscient && field.tick < FINEST_OPTIMUM {
        return None;
    }
    let (a, b) = (&field.pools[a], &field.pools[b]);
    let needed = (shape.deadline * 3600.0 / field.tick).ceil() as usize;
    let starts = TracePart::Whole.starts(a.up.len(), field.tick, needed, windows);
    let run = Protocol::default();
    let mean = |pools: &[&Pool]| -> Option<f64> {
        let limits = shape.limits(field.tick, pools.len());
        let policy = entrant.policy(a, &limits, 0);
        let cost = |start: &usize| score(pools, policy.as_ref(), &limits, shape, &run, *start).map(|score| score.cost);
        let sum: Option<f64> = starts.par_iter().map(cost).sum();
        sum.filter(|_| !starts.is_empty()).map(|sum| sum / starts.len() as f64)
    };
    Some((f64::midpoint(mean(&[a])?, mean(&[b])?), mean(&[a, b])?))
}
