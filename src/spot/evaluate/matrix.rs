//! The matrix: many shapes of job on gangs and pools, as a controller sees them, with what a plan that knows nothing of the pools promises.

use std::ops::RangeInclusive;
use std::sync::Arc;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::availability::AvailabilityModel;
use crate::availability::evidence::gang_factor;
use crate::availability::watch::{FIRST_PAUSE, PRIOR_AVAILABILITY, Watch};
use crate::evaluate::field::{Field, JobShape, TracePart};
use crate::policy::semi_markov::Tables;
use crate::policy::{Limits, Policy};
use crate::simulation::forecast::{DRAWS, Futures, summary};
use crate::simulation::replay::{Outcome, World, replay};
use crate::simulation::trace::Trace;

/// Machines of a gang, where the traces count so many.
const GANGS: [u32; 4] = [1, 4, 8, 16];
/// Hours of work, and deadlines over them, at the usual changeover and price.
const WORKS: [f64; 5] = [1.0, 6.0, 24.0, 48.0, 120.0];
const STRETCHES: [f64; 4] = [1.05, 1.25, 1.5, 3.0];
const CHANGEOVER: f64 = 0.2;
const USUAL_RATIO: f64 = 3.06 / 0.9731;
/// Other changeovers in hours, and other rates of spot over those of on-demand, for a day of work.
const CHANGEOVERS: [f64; 3] = [0.05, 0.5, 1.0];
const SPOT_RATES: [f64; 3] = [0.2, 0.6, 0.75];
/// Windows of a job, over all its pools.
const WINDOWS: usize = 20;
/// Forecasts of a row, each of which is drawn anew.
const SETS_OF_DRAWS: u64 = 8;
/// Finer ticks take minutes.
const FINEST: f64 = 300.0;
const EPSILON: f64 = 1e-9;

/// One shape of job. Costs are over those of the work on on-demand machines.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MatrixRow {
    pub shape: String,
    /// Machines of the gang.
    pub machines: u32,
    /// Pools that the job may use at once.
    pub pools: usize,
    pub windows: usize,
    pub default: f64,
    pub uniform_progress: f64,
    pub greedy: f64,
    pub missed: usize,
    /// Share of windows that cost at most 1.1 times a run on on-demand machines with its one changeover.
    pub within_a_tenth: f64,
    /// The dearest window over such a run.
    pub worst: f64,
    /// Share of windows under the 90th percentile that a plan promises which knows nothing of the pools; the mean of several such plans.
    pub under_p90: f64,
}

/// Windows from which on the share under a promise is held to `BAND`; with fewer, to what chance allows.
pub const MANY_WINDOWS: usize = 100;
const BAND: RangeInclusive<f64> = 0.85..=0.95;
/// Chance that a fair promise is taken for one above it, and as much below it.
const TAIL: f64 = 0.025;

impl MatrixRow {
    /// Whether as many windows are under the promised 90th percentile as should be: 85 to 95 % of them, or with few windows what 95 % of fair promises
    /// would have (binomial).
    pub fn is_as_promised(&self) -> bool {
        if self.windows >= MANY_WINDOWS {
            return BAND.contains(&self.under_p90);
        }
        let (fewest, most) = fair_counts(self.windows);
        let under = self.under_p90 * self.windows as f64;
        under >= fewest as f64 - EPSILON && under <= most as f64 + EPSILON
    }
}

/// The middle 95 % of the counts under a 90th percentile, of so many windows.
fn fair_counts(windows: usize) -> (usize, usize) {
    let (mut chance, mut below) = (0.1_f64.powi(windows as i32), 0.0);
    let mut fewest = None;
    for count in 0..=windows {
        below += chance;
        if below > TAIL && fewest.is_none() {
            fewest = Some(count);
        }
        if below >= 1.0 - TAIL {
            return (fewest.unwrap_or(count), count);
        }
        chance *= 9.0 * (windows - count) as f64 / (count + 1) as f64;
    }
    (fewest.unwrap_or(windows), windows)
}

/// All shapes on each pool alone, and the first ones on all pools together, with constants of other zones where there are any.
pub fn matrix(traces: &[Trace], seed: u64) -> Vec<MatrixRow> {
    let most = traces.iter().flat_map(|trace| trace.obtainable.iter().copied()).max().unwrap_or_default();
    let mut made = Vec::new();
    for machines in GANGS.into_iter().filter(|machines| *machines == 1 || *machines <= most) {
        let counted: Vec<Trace> = traces
            .iter()
            .filter(|trace| trace.gap >= FINEST && trace.obtainable.iter().any(|count| *count >= machines))
            .cloned()
            .collect();
        for field in Field::groups_of(&counted, machines) {
            let alone: Vec<Vec<usize>> = (0..field.pools.len()).map(|pool| vec![pool]).collect();
            let together = [(0..field.pools.len()).collect::<Vec<usize>>()];
            for shape in shapes() {
                made.extend(row(&field, &alone, machines, &shape, seed));
            }
            for stretch in STRETCHES.iter().filter(|_| field.pools.len() > 1) {
                made.extend(row(&field, &together, machines, &shape_of(24.0, *stretch), seed));
            }
        }
    }
    made
}

fn shape_of(work: f64, stretch: f64) -> JobShape {
    // The published rules reserve the expected changeover, and so does the default beside them.
    JobShape::new(work, work * stretch, CHANGEOVER, USUAL_RATIO)
}

fn shapes() -> Vec<JobShape> {
    let usual = WORKS.into_iter().flat_map(|work| STRETCHES.map(|stretch| shape_of(work, stretch)));
    let of_a_day = || [1.05, 1.25, 3.0].map(|stretch| shape_of(24.0, stretch));
    let changeovers =
        CHANGEOVERS.into_iter().flat_map(|changeover| of_a_day().map(|day| JobShape { changeover, ..day }));
    let rates =
        SPOT_RATES.into_iter().flat_map(|rate| of_a_day().map(|day| JobShape { price_ratio: 1.0 / rate, ..day }));
    // Whoever cannot keep the deadline on on-demand machines is told so, and not replayed.
    let has_time = |shape: &JobShape| shape.deadline >= shape.work + shape.worst * shape.changeover + 1.0 / 3.0;
    usual.chain(changeovers).chain(rates).filter(has_time).collect()
}

/// `None` where no window fits.
fn row(field: &Field, jobs: &[Vec<usize>], machines: u32, shape: &JobShape, seed: u64) -> Option<MatrixRow> {
    let pools = jobs.first()?.len();
    let limits = shape.limits(field.tick, pools);
    let needed = (limits.deadline / field.tick).ceil() as usize;
    let costs: Vec<Vec<[(f64, bool); 3]>> = jobs
        .par_iter()
        .map(|job| {
            let model = match job.as_slice() {
                [pool] => field.pools[*pool].others.clone(),
                _ => None,
            };
            let tables = Tables::new(&model.unwrap_or_else(AvailabilityModel::prior), &limits);
            let policies = [Policy::SemiMarkov(Arc::new(tables)), Policy::UniformProgress, Policy::Greedy];
            let ups: Vec<&[bool]> = job.iter().map(|pool| field.pools[*pool].up.as_slice()).collect();
            let ticks = ups.iter().map(|up| up.len()).min().unwrap_or_default();
            let count = WINDOWS * pools;
            let starts = TracePart::Whole.starts(ticks, field.tick, needed, count);
            starts.into_iter().filter_map(|start| window(&policies, &limits, shape, &ups, start)).collect()
        })
        .collect();
    let all: Vec<[(f64, bool); 3]> = costs.into_iter().flatten().collect();
    if all.is_empty() {
        return None;
    }
    let promises = promises(&limits, machines, seed)?;
    let count = all.len() as f64;
    let alone = (shape.work + shape.changeover) / shape.work;
    let mean = |of: usize| all.iter().map(|window| window[of].0).sum::<f64>() / count;
    let part = |is: &dyn Fn(f64) -> bool| all.iter().filter(|window| is(window[0].0)).count() as f64 / count;
    Some(MatrixRow {
        shape: format!("{shape}, price ratio {:.2}, tick {} s", shape.price_ratio, field.tick),
        machines,
        pools,
        windows: all.len(),
        default: mean(0),
        uniform_progress: mean(1),
        greedy: mean(2),
        missed: all.iter().filter(|window| !window[0].1).count(),
        within_a_tenth: part(&|cost| cost <= 1.1 * alone + EPSILON),
        worst: all.iter().map(|window| window[0].0 / alone).fold(0.0, f64::max),
        under_p90: promises
            .iter()
            .map(|promised| part(&|cost| cost <= promised / shape.on_demand_dollars() + EPSILON))
            .sum::<f64>()
            / promises.len() as f64,
    })
}

/// Cost of each policy, and whether it was in time; `None` where the trace ends before the work of one.
fn window(
    policies: &[Policy; 3],
    limits: &Limits,
    shape: &JobShape,
    ups: &[&[bool]],
    start: usize,
) -> Option<[(f64, bool); 3]> {
    let run = |policy: &Policy| {
        let watch = Watch::attempts(ups.len(), limits.tick, FIRST_PAUSE);
        let done = replay(policy, limits, &World::from_pools(ups), start, watch, false).ok()?;
        // Machines are billed by the second.
        let done = done.to_the_second(limits);
        Some((done.cost.dollars() / shape.on_demand_dollars(), done.met_deadline))
    };
    let [default, uniform, greedy] = policies;
    Some([run(default)?, run(uniform)?, run(greedy)?])
}

/// The 90th percentile that a plan says, from several sets of draws: with one of them the chance of its draws would be that of every window. Dollars.
fn promises(limits: &Limits, machines: u32, seed: u64) -> Option<Vec<f64>> {
    let model = AvailabilityModel::prior();
    let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, limits)));
    let watch = Watch::attempts(limits.pools.len(), limits.tick, FIRST_PAUSE)
        .assuming(PRIOR_AVAILABILITY * gang_factor(machines));
    let said =
        |set: u64| promise(&policy, limits, &Futures::new(&model, watch.clone(), limits.tick, seed.wrapping_add(set)));
    (0..SETS_OF_DRAWS).map(said).collect()
}

/// Of one set of draws, billed by the second as a plan and the windows are. By whole ticks it would be up to a tick dearer than they are.
fn promise(policy: &Policy, limits: &Limits, futures: &Futures) -> Option<f64> {
    let outcomes = futures.run(policy, limits, DRAWS, |_| limits.work).ok()?;
    let outcomes: Vec<Outcome> = outcomes.into_iter().map(|outcome| outcome.to_the_second(limits)).collect();
    Some(summary(&outcomes).cost_usd.p90.dollars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_counted_machines_keeps_its_deadlines() {
        let trace = |zone: &str, phase: usize| Trace {
            source: format!("{zone}_gpu"),
            gap: 1800.0,
            obtainable: (0..600).map(|tick: usize| 4 * u32::from((tick + phase) % 11 < 7)).collect(),
        };
        let rows = matrix(&[trace("a", 0), trace("b", 5)], 1);
        assert!(rows.iter().any(|row| row.machines == 4) && rows.iter().any(|row| row.pools == 2), "{rows:?}");
        for row in &rows {
            assert!(row.missed == 0 && row.windows > 0 && row.worst > 0.0, "{row:?}");
            assert!((0.0..=1.0).contains(&row.under_p90) && (0.0..=1.0).contains(&row.within_a_tenth), "{row:?}");
        }
    }

    #[test]
    fn few_windows_are_held_to_what_chance_allows() {
        // Tables of the binomial distribution at .9: of 10, 7 have .070 of the chance below or at them, 6 have .013; of 20, 15 have .043 and 14 .011.
        assert_eq!((fair_counts(10), fair_counts(20)), ((7, 10), (15, 20)));
        assert_eq!(fair_counts(99).1, 95);
        let row = |windows: usize, under_p90: f64| MatrixRow {
            shape: String::new(),
            machines: 1,
            pools: 1,
            windows,
            default: 1.0,
            uniform_progress: 1.0,
            greedy: 1.0,
            missed: 0,
            within_a_tenth: 1.0,
            worst: 1.0,
            under_p90,
        };
        assert!(row(10, 1.0).is_as_promised() && !row(100, 1.0).is_as_promised());
        assert!(row(10, 0.7).is_as_promised() && !row(10, 0.6).is_as_promised() && row(100, 0.85).is_as_promised());
    }

    /// Where there is no spot, a run costs its work and its changeover: 1.2 hours, which are not eight ticks.
    #[test]
    fn a_promise_is_billed_as_the_windows_are() {
        let shape = shape_of(1.0, 1.5);
        let limits = shape.limits(600.0, 1);
        let model = AvailabilityModel::prior();
        let policy = Policy::SemiMarkov(Arc::new(Tables::new(&model, &limits)));
        let futures =
            |share: f64| Futures::new(&model, Watch::attempts(1, 600.0, FIRST_PAUSE).assuming(share), 600.0, 1);
        let promised = promise(&policy, &limits, &futures(0.001)).unwrap();
        let alone = 1.2 * shape.on_demand_dollars();
        assert!((promised / alone - 1.0).abs() < 1e-6, "{promised} {alone}");
    }
}
