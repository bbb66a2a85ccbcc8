//! Which plans are shown: the recommended one, those that nothing beats in both cost and time, the best of every other GPU.

use std::collections::{BTreeMap, HashSet};

use crate::candidate::Plan;
use crate::choice::objective::{self, CostAndHours};
use crate::choice::refusals::Refusals;
use crate::context::World;
use crate::explanation::Rejection;
use crate::limits::Limits;
use crate::money::pricer::Pricer;
use crate::money::run_price::{settle, spot_job};
use crate::spot::{Forecaster, Job};
use gpuplan_market::Purchase;
use gpuplan_spot::replay::ReplayError;
use gpuplan_units::Usd;

/// Rounds of choosing and forecasting. A forecast corrects the guesses of its kind, so that few rounds change anything.
const MOST_ROUNDS: usize = 12;

/// Positions in the list of plans.
#[derive(Clone, Debug, Default)]
pub struct Shortlist {
    pub recommended: Option<usize>,
    /// Cheapest first.
    pub frontier: Vec<usize>,
    /// Cheapest first.
    pub alternatives: Vec<usize>,
}

impl Shortlist {
    pub fn new(world: World, plans: &[Plan], limits: &Limits) -> Self {
        let mut order: Vec<usize> = (0..plans.len()).collect();
        order.sort_by_key(|index| {
            let plan = &plans[*index];
            (plan.cost.expected, plan.run.hours.expected.to_bits(), plan.offer, plan.nodes)
        });
        let (mut frontier, mut rest, mut fastest) = (Vec::new(), Vec::new(), f64::INFINITY);
        for index in &order {
            let hours = plans[*index].run.hours.expected;
            if hours < fastest {
                fastest = hours;
                frontier.push(*index);
            } else {
                rest.push(*index);
            }
        }
        let mut alternatives = best_of_each_gpu(world, plans, &frontier, &rest, limits);
        let firm: Vec<usize> = order
            .iter()
            .copied()
            .filter(|index| world.market.offer(plans[*index].offer).purchase == Purchase::OnDemand)
            .collect();
        // What capacity that cannot be taken back would cost, where only spot is on the list.
        alternatives.extend(
            recommend(plans, &firm, limits).filter(|best| !frontier.contains(best) && !alternatives.contains(best)),
        );
        alternatives.sort_by_key(|index| plans[*index].cost.expected);
        Self { recommended: recommend(plans, &order, limits), frontier, alternatives }
    }

    fn all(&self) -> Vec<usize> {
        let mut all: Vec<usize> =
            self.recommended.iter().chain(&self.frontier).chain(&self.alternatives).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The plan to recommend among those at `order`, which is by cost.
fn recommend(plans: &[Plan], order: &[usize], limits: &Limits) -> Option<usize> {
    objective::recommend(limits, order, |index| {
        let plan = &plans[index];
        CostAndHours { cost: plan.cost.expected, hours: plan.run.hours.expected, is_service: plan.is_service() }
    })
}

/// For every GPU without a plan on the frontier, the plan that the objective would choose.
fn best_of_each_gpu(world: World, plans: &[Plan], frontier: &[usize], rest: &[usize], limits: &Limits) -> Vec<usize> {
    let gpu_at = |index: &usize| world.hardware.instance(plans[*index].instance).node.gpu;
    let on_frontier: HashSet<_> = frontier.iter().map(gpu_at).collect();
    let mut by_gpu: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for index in rest.iter().filter(|index| !on_frontier.contains(&gpu_at(index))) {
        by_gpu.entry(gpu_at(index)).or_default().push(*index);
    }
    by_gpu.into_values().filter_map(|order| recommend(plans, &order, limits)).collect()
}

/// Forecasts what would be shown on spot until nothing shown is a guess. Plans that break a limit after all are refused.
pub fn forecast_shortlist(
    pricer: &Pricer,
    forecaster: &mut Forecaster,
    plans: &mut Vec<Plan>,
    refused: &mut Refusals,
) -> Shortlist {
    let (world, limits) = (pricer.context.world, pricer.context.limits);
    for _ in 0..MOST_ROUNDS {
        let shortlist = Shortlist::new(world, plans, limits);
        let open: Vec<usize> = shortlist.all().into_iter().filter(|index| plans[*index].needs_forecast()).collect();
        if open.is_empty() {
            return shortlist;
        }
        forecast(pricer, forecaster, plans, &open, refused);
    }
    // What still is a guess is not shown.
    plans.retain(|plan| !plan.needs_forecast());
    Shortlist::new(world, plans, limits)
}

fn forecast(
    pricer: &Pricer,
    forecaster: &mut Forecaster,
    plans: &mut Vec<Plan>,
    open: &[usize],
    refused: &mut Refusals,
) {
    let settled: Vec<(usize, Result<Plan, Rejection>)> = {
        let jobs: Vec<(usize, Job)> =
            open.iter().filter_map(|index| Some((*index, spot_job(pricer, &plans[*index])?))).collect();
        let just_jobs: Vec<Job> = jobs.iter().map(|(_, job)| job.clone()).collect();
        let forecasts = forecaster.forecasts(&just_jobs).into_iter();
        let settled = |(index, forecast): (usize, Result<_, ReplayError>)| {
            let forecast = forecast.map_err(|error| Rejection::NoForecast { detail: error.to_string() });
            (index, forecast.and_then(|forecast| settle(pricer, &plans[index], forecast)))
        };
        jobs.iter().map(|(index, _)| *index).zip(forecasts).map(settled).collect()
    };
    let mut gone = vec![false; plans.len()];
    for (index, outcome) in settled {
        match outcome {
            Ok(plan) => {
                let guess = std::mem::replace(&mut plans[index], plan.clone());
                correct_guesses(plans, &guess, &plan);
            }
            Err(why) => {
                for (other, gone) in
                    plans.iter().zip(&mut gone).filter(|(other, gone)| !**gone && is_no_better(other, &plans[index]))
                {
                    refused.add(other.instance, Purchase::Spot, other.nodes, why.clone());
                    *gone = true;
                }
            }
        }
    }
    let mut gone = gone.into_iter();
    plans.retain(|_| !gone.next().expect("every plan has a mark"));
}

/// The same machines, for no less money, in a pool that is up no more often: what breaks a limit for one breaks it for the other.
fn is_no_better(plan: &Plan, than: &Plan) -> bool {
    let availability =
        |plan: &Plan| plan.spot.as_ref().filter(|spot| spot.forecast.is_none()).map(|spot| spot.availability);
    let is_up_no_more = availability(plan).zip(availability(than)).is_some_and(|(a, b)| a <= b);
    is_up_no_more && is_same_kind(plan, than) && plan.cost.expected >= than.cost.expected
}

fn is_same_kind(plan: &Plan, other: &Plan) -> bool {
    (plan.instance, plan.nodes) == (other.instance, other.nodes)
}

/// What the forecast made of a guess, it would make of the guesses for the same machines elsewhere.
fn correct_guesses(plans: &mut [Plan], guess: &Plan, found: &Plan) {
    let dearer = found.cost.expected.dollars() / guess.cost.expected.dollars().max(1e-9);
    let longer = found.run.hours.expected / guess.run.hours.expected;
    for plan in plans.iter_mut().filter(|plan| plan.needs_forecast() && is_same_kind(plan, guess)) {
        plan.cost.expected = Usd::from_dollars(plan.cost.expected.dollars() * dearer).unwrap_or(plan.cost.expected);
        plan.run.hours.expected *= longer;
    }
}
