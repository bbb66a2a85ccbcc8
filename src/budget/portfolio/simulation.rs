//! Draws of a whole portfolio. What runs have in common moves together: the estimate of a workload, the spot market of a month.

pub mod draws;
pub mod groups;
mod pool_draws;
mod spot_market;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::charge::Item;
use crate::portfolio::Portfolio;
use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::Commitment;
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::pool_lines::gpu as gpu_of_pool;
use crate::portfolio::simulation::draws::{DRAWS, spread};
use crate::portfolio::simulation::groups::{GroupNames, GroupedDraws};
use crate::portfolio::simulation::pool_draws::PoolDraws;
pub use crate::portfolio::simulation::spot_market::{AVAILABILITY_IN_COMMON, SPOT_PRICE_IN_COMMON, SPOT_PRICE_STEP};
use gpuplan_units::Quantiles;
use gpuplan_units::draw::Draws;

/// Phases drawn at once, so that memory stays small and sums keep their order.
const AT_ONCE: usize = 16;

/// Kinds of streams, so that no two draw the same numbers.
const AVAILABILITY: u64 = 1 << 40;
const PRICE: u64 = 2 << 40;
const ESTIMATE: u64 = 3 << 40;
const POOL: u64 = 4 << 40;
const OWN: u64 = 5 << 40;
const ESTIMATES_OF_GPU: u64 = 6 << 40;
const ALL_ESTIMATES: u64 = 7 << 40;

pub struct Simulated {
    pub groups: GroupedDraws,
    /// By phase, then month of it: median and 90th percentile of what is left after commitments, with its mean.
    pub parts: Vec<Vec<Quantiles<f64>>>,
    /// By phase, all months together, after commitments.
    pub phases: Vec<Quantiles<f64>>,
    /// By commitment and month: of what is not used.
    pub unused: Vec<BTreeMap<Month, Quantiles<f64>>>,
    /// By pool and month: of what is paid for machines that are held and not used.
    pub unused_pools: Vec<BTreeMap<Month, Quantiles<f64>>>,
    /// By commitment: share of the draws in which it saves less than it costs.
    pub chances_of_loss: Vec<f64>,
}

/// How far the errors of the estimates of different workloads go together. Those of one workload on one GPU are one error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateCorrelation {
    /// Of any two.
    pub of_all: f64,
    /// In addition, of two on the same GPU.
    pub of_gpu: f64,
}

impl EstimateCorrelation {
    /// One-way intraclass correlations of the errors of 1,507 published runs, each predicted by constants that never saw its code base
    /// (`benchmarks/budget/correlation.py`, 2026-11-29): .30 within the 24 code bases, as the runs of one portfolio are, and .36 within code
    /// base and GPU together; within the 25 GPUs alone it is .08.
    pub const MEASURED: Self = Self { of_all: 0.30, of_gpu: 0.06 };
    pub const NONE: Self = Self { of_all: 0.0, of_gpu: 0.0 };
    pub const FULL: Self = Self { of_all: 1.0, of_gpu: 0.0 };
}

/// Normal numbers that several phases share.
struct Shared {
    seed: u64,
    now: Month,
    /// Of the spot market by month of the portfolio.
    availability: BTreeMap<Month, Vec<f64>>,
    /// Sums of steps of all spot prices since now.
    price: BTreeMap<Month, Vec<f64>>,
    /// The same for one pool's own.
    pools: BTreeMap<String, BTreeMap<Month, Vec<f64>>>,
    /// Errors of estimates, by workload and GPU.
    estimates: BTreeMap<(String, Option<String>), Vec<f64>>,
}

/// Workload and GPU of a phase.
fn estimate_of(costed: &CostedPhase) -> (String, Option<String>) {
    (costed.once.estimate.clone(), costed.once.machines.gpu.clone())
}

/// Errors of the estimates of each workload on each GPU.
fn estimate_errors(
    costed: &[CostedPhase],
    correlation: EstimateCorrelation,
    seed: u64,
) -> BTreeMap<(String, Option<String>), Vec<f64>> {
    let EstimateCorrelation { of_all, of_gpu } = correlation;
    let common = normals(seed, ALL_ESTIMATES);
    let gpus: BTreeSet<&Option<String>> = costed.iter().map(|costed| &costed.once.machines.gpu).collect();
    let gpus: BTreeMap<&Option<String>, Vec<f64>> =
        gpus.into_iter().zip(0..).map(|(gpu, at)| (gpu, normals(seed, ESTIMATES_OF_GPU + at))).collect();
    let keys: BTreeSet<_> = costed.iter().map(estimate_of).collect();
    let error = |(key, at): ((String, Option<String>), u64)| {
        let (own, gpu) = (normals(seed, ESTIMATE + at), &gpus[&key.1]);
        let alone = (1.0 - of_all - of_gpu).max(0.0).sqrt();
        let mixed = own
            .iter()
            .zip(gpu)
            .zip(&common)
            .map(|((own, gpu), common)| of_all.sqrt() * common + of_gpu.sqrt() * gpu + alone * own)
            .collect();
        (key, mixed)
    };
    keys.into_iter().zip(0..).map(error).collect()
}

fn normals(seed: u64, stream: u64) -> Vec<f64> {
    let mut draws = Draws::new(seed, stream);
    (0..DRAWS).map(|_| draws.normal()).collect()
}

/// Months that a price has to move until then.
pub fn months_ahead(month: Month, now: Month) -> u32 {
    month.since(now).max(0) as u32
}

/// Sums of steps up to each of the months.
fn walk(seed: u64, stream: u64, now: Month, months: &BTreeSet<Month>) -> BTreeMap<Month, Vec<f64>> {
    let mut draws = Draws::new(seed, stream);
    let (mut at, mut sums, mut found) = (0, vec![0.0; DRAWS], BTreeMap::new());
    for month in months {
        while at < months_ahead(*month, now) {
            for sum in &mut sums {
                *sum += draws.normal();
            }
            at += 1;
        }
        found.insert(*month, sums.clone());
    }
    found
}

impl Shared {
    fn new(
        portfolio: &Portfolio,
        costed: &[CostedPhase],
        correlation: EstimateCorrelation,
        now: Month,
        seed: u64,
    ) -> Self {
        let months: BTreeSet<Month> = costed.iter().flat_map(|costed| costed.phase.in_months()).collect();
        let availability = months
            .iter()
            .map(|month| (*month, normals(seed, AVAILABILITY + u64::from(months_ahead(*month, portfolio.start)))));
        let mut of_pools: BTreeMap<String, BTreeSet<Month>> = BTreeMap::new();
        for costed in costed.iter().filter(|costed| costed.once.spot_share > 0.0) {
            of_pools.entry(costed.once.pool()).or_default().extend(costed.phase.in_months());
        }
        Self {
            seed,
            now,
            availability: availability.collect(),
            price: walk(seed, PRICE, now, &months),
            pools: of_pools
                .into_iter()
                .zip(0..)
                .map(|((pool, months), at)| (pool, walk(seed, POOL + at, now, &months)))
                .collect(),
            estimates: estimate_errors(costed, correlation, seed),
        }
    }

    /// The mean over the repeats of what each costs, over what is expected, draw by draw.
    fn factors(&self, position: usize, costed: &CostedPhase) -> Vec<f64> {
        let (phase, once) = (costed.phase, costed.once);
        let (of_estimate, of_run) = (once.estimate_share.sqrt(), (1.0 - once.estimate_share).sqrt());
        let in_common = if once.is_spot() { AVAILABILITY_IN_COMMON } else { 0.0 };
        let (of_month, alone) = (in_common.sqrt(), (1.0 - in_common).sqrt());
        let months: Vec<&Vec<f64>> = phase.in_months().filter_map(|month| self.availability.get(&month)).collect();
        let even = (months.len() as f64).sqrt();
        let estimate = self.estimates.get(&estimate_of(costed));
        let mut own = Draws::new(self.seed, OWN + position as u64);
        (0..DRAWS)
            .map(|draw| {
                let estimate = estimate.map_or(0.0, |normals| normals[draw]) * of_estimate;
                if of_run == 0.0 {
                    return once.shape.ratio_at(estimate);
                }
                let month = months.iter().map(|normals| normals[draw]).sum::<f64>() / even;
                let cost = |own: f64| once.shape.ratio_at(estimate + of_run * (of_month * month + alone * own));
                (0..phase.repeats).map(|_| cost(own.normal())).sum::<f64>() / f64::from(phase.repeats)
            })
            .collect()
    }

    /// What moving spot prices make of the cost in this month; `None`: nothing.
    fn price_factors(&self, costed: &CostedPhase, month: Month) -> Option<Vec<f64>> {
        let (share, ahead) = (costed.once.spot_share, months_ahead(month, self.now));
        let (all, own) = (self.price.get(&month)?, self.pools.get(&costed.once.pool())?.get(&month)?);
        if share == 0.0 || ahead == 0 {
            return None;
        }
        let (common, alone) =
            (SPOT_PRICE_STEP * SPOT_PRICE_IN_COMMON.sqrt(), SPOT_PRICE_STEP * (1.0 - SPOT_PRICE_IN_COMMON).sqrt());
        // A mean of 1: that prices move is no reason to expect more or less.
        let level = SPOT_PRICE_STEP.powi(2) * f64::from(ahead) / 2.0;
        Some(
            all.iter()
                .zip(own)
                .map(|(all, own)| 1.0 - share + share * (common * all + alone * own - level).exp())
                .collect(),
        )
    }
}

/// What is left of the commitments, draw by draw.
struct CommitmentDraws<'a> {
    portfolio: &'a Portfolio,
    /// Of their capacity, by commitment and month.
    left: Vec<BTreeMap<Month, Vec<f64>>>,
    /// What the hours that each covers would have cost on demand.
    on_demand: Vec<Vec<f64>>,
}

impl<'a> CommitmentDraws<'a> {
    fn new(portfolio: &'a Portfolio) -> Self {
        let full = portfolio.commitments.iter().map(|commitment| {
            let months = portfolio.months_of(commitment);
            months.map(|month| (month, vec![commitment.capacity(month).dollars(); DRAWS])).collect()
        });
        Self { portfolio, left: full.collect(), on_demand: vec![vec![0.0; DRAWS]; portfolio.commitments.len()] }
    }

    /// Takes from `costs` what commitments cover, and puts in what that uses of them.
    fn cover(&mut self, costed: &CostedPhase, month: Month, factors: &[f64], costs: &mut [f64]) {
        let parts = f64::from(costed.rented()) / f64::from(costed.phase.months);
        for line in costed.once.lines.iter().filter(|line| matches!(line.item, Item::Machines | Item::LostWork)) {
            let mut open = vec![1.0; DRAWS];
            for (at, commitment) in self.portfolio.commitments.iter().enumerate() {
                let (Some(left), Some(coverage)) =
                    (self.left[at].get_mut(&month), commitment.coverage(costed.once, line))
                else {
                    continue;
                };
                let (unit, price) = (coverage.unit_price.dollars(), line.unit_price.dollars());
                let capacity = coverage.capacity.dollars();
                for (draw, cost) in costs.iter_mut().enumerate() {
                    let all = line.quantity * parts * factors[draw];
                    let hours = (coverage.share * all).min(open[draw] * all).min(left[draw] / capacity).max(0.0);
                    open[draw] -= if all > 0.0 { hours / all } else { 0.0 };
                    left[draw] -= hours * capacity;
                    self.on_demand[at][draw] += hours * price;
                    *cost -= hours * (price - unit);
                }
            }
        }
    }

    /// By commitment, the share of draws in which it costs more than it saves.
    fn chances_of_loss(&self) -> Vec<f64> {
        let one = |(commitment, on_demand): (&Commitment, &Vec<f64>)| {
            let months = self.portfolio.months_of(commitment);
            let paid: f64 = months.map(|month| commitment.in_month(month).dollars()).sum();
            on_demand.iter().filter(|saved| **saved < paid).count() as f64 / DRAWS as f64
        };
        self.portfolio.commitments.iter().zip(&self.on_demand).map(one).collect()
    }
}

/// All draws of a portfolio. The same seed gives the same. `None`: beyond counting.
pub fn simulate(
    portfolio: &Portfolio,
    costed: &[CostedPhase],
    correlation: EstimateCorrelation,
    now: Month,
    seed: u64,
) -> Option<Simulated> {
    let shared = Shared::new(portfolio, costed, correlation, now, seed);
    let (mut commitments, mut pools) = (CommitmentDraws::new(portfolio), PoolDraws::new(portfolio));
    let mut groups = GroupedDraws::new(portfolio.tax);
    let (mut parts, mut phases) = (Vec::with_capacity(costed.len()), Vec::with_capacity(costed.len()));
    for (first, chunk) in costed.chunks(AT_ONCE).enumerate().map(|(at, chunk)| (at * AT_ONCE, chunk)) {
        let drawn: Vec<Vec<f64>> =
            chunk.par_iter().enumerate().map(|(at, costed)| shared.factors(first + at, costed)).collect();
        let mut costs: Vec<Vec<(Month, Vec<f64>)>> = Vec::with_capacity(chunk.len());
        for (costed, factors) in chunk.iter().zip(&drawn) {
            let each =
                costed.once.cost.expected.dollars() * f64::from(costed.phase.repeats) / f64::from(costed.phase.months);
            let mut by_month = Vec::new();
            for month in costed.phase.in_months() {
                let mut costs: Vec<f64> = factors.iter().map(|factor| each * factor).collect();
                if let Some(prices) = shared.price_factors(costed, month) {
                    costs.iter_mut().zip(prices).for_each(|(cost, price)| *cost *= price);
                }
                let on_pools = pools.place(costed, month, shared.estimates.get(&estimate_of(costed)), &mut costs);
                commitments.cover(costed, month, factors, &mut costs);
                let gpu = costed.once.machines.gpu.as_deref();
                groups.add(
                    GroupNames { month, team: Some(&costed.phase.team), cloud: &costed.once.machines.cloud, gpu },
                    &costs,
                );
                for (held, held_costs) in on_pools {
                    let (cloud, gpu) = (&held.machines.cloud, held.machines.gpu.as_deref());
                    groups.add(GroupNames { month, team: Some(&costed.phase.team), cloud, gpu }, &held_costs);
                    costs.iter_mut().zip(held_costs).for_each(|(cost, held)| *cost += held);
                }
                by_month.push((month, costs));
            }
            costs.push(by_month);
        }
        let spreads: Option<Vec<_>> = costs.into_par_iter().map(spreads).collect();
        for (of_months, whole) in spreads? {
            parts.push(of_months);
            phases.push(whole);
        }
    }
    let chances_of_loss = commitments.chances_of_loss();
    let mut unused = Vec::new();
    for (commitment, mut months) in portfolio.commitments.iter().zip(commitments.left) {
        if commitment.is_free() {
            // What nobody uses of it costs nothing either.
            for costs in months.values_mut() {
                costs.fill(0.0);
            }
        }
        let gpu = commitment.gpu(costed.iter().map(|costed| costed.once));
        for (month, costs) in &months {
            groups.add(GroupNames { month: *month, team: None, cloud: &commitment.cloud, gpu }, costs);
        }
        unused.push(months.into_iter().map(|(month, costs)| Some((month, spread(costs)?))).collect::<Option<_>>()?);
    }
    let unused_pools = unused_of_pools(portfolio, costed, pools, &mut groups)?;
    Some(Simulated { groups, parts, phases, unused, unused_pools, chances_of_loss })
}

/// By pool and month, what is paid and not used, which belongs to no team. `None`: beyond counting.
fn unused_of_pools(
    portfolio: &Portfolio,
    costed: &[CostedPhase],
    pools: PoolDraws,
    groups: &mut GroupedDraws,
) -> Option<Vec<BTreeMap<Month, Quantiles<f64>>>> {
    let mut unused = Vec::new();
    for (at, (pool, months)) in portfolio.pools.iter().zip(pools.unused(portfolio)).enumerate() {
        let gpu = gpu_of_pool(at, costed);
        for (month, costs) in &months {
            groups.add(GroupNames { month: *month, team: None, cloud: &pool.cloud, gpu }, costs);
        }
        unused.push(months.into_iter().map(|(month, costs)| Some((month, spread(costs)?))).collect::<Option<_>>()?);
    }
    Some(unused)
}

/// Of each month and of all together.
fn spreads(by_month: Vec<(Month, Vec<f64>)>) -> Option<(Vec<Quantiles<f64>>, Quantiles<f64>)> {
    let mut whole = vec![0.0; DRAWS];
    for (_, costs) in &by_month {
        whole.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
    }
    Some((by_month.into_iter().map(|(_, costs)| spread(costs)).collect::<Option<_>>()?, spread(whole)?))
}
