//! `plan`: every offer x node count x setting, filtered with reasons, priced, and the choice among what is left.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::advice;
use crate::candidate::Plan;
use crate::cures;
use crate::filters::{Rejection, Why, count_is_asked, refuse_offer};
use crate::limits::Limits;
use crate::loading;
use crate::outlook;
use crate::physics::{NODE_COUNTS, Physics};
use crate::price::Pricer;
use crate::refused::Refused;
use crate::service::needs_network;
use crate::shown;
use crate::spot::Forecaster;
use crate::terms::{self, Terms};
use crate::what_if::PricedFinding;
use gpuplan_estimate::{Correction, StepEstimate};
use gpuplan_hardware::{Hardware, InstanceId};
use gpuplan_market::{Market, Offer, OfferId, Origin, Purchase};
use gpuplan_units::Hours;
use gpuplan_workload::Workload;

/// Without a deadline, plans that end within this are preferred: nobody waits a year to save a dollar.
pub const PATIENCE: Hours = Hours(30.0 * 24.0);
/// Costs this near are one cost: the band of a step time is three times as wide.
pub const COST_TOLERANCE: f64 = 0.05;

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    pub offers: u64,
    pub shapes: u64,
    pub layouts_estimated: u64,
    pub candidates: u64,
}

/// The whole answer.
#[derive(Clone, Debug)]
pub struct PlanSet {
    pub recommendation: Option<Plan>,
    /// Nothing else is both cheaper and faster; cheapest first.
    pub frontier: Vec<Plan>,
    /// The best of every GPU that is not on the frontier, cheapest first.
    pub alternatives: Vec<Plan>,
    /// The recommended machines on every way to buy them.
    pub terms: Vec<Terms>,
    pub rejected: Vec<Rejection>,
    /// Closest of what was refused, where nothing is left.
    pub nearest: Vec<Rejection>,
    /// Money alone keeps a plan out.
    pub only_money: bool,
    /// A rule of the house alone keeps a plan out.
    pub only_policy: bool,
    pub counts: Counts,
    /// What a profile of the run found, and what mending it would save of the recommended plan.
    pub findings: Vec<PricedFinding>,
    pub notes: Vec<String>,
}

/// What can be had and what it is.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub hardware: &'a Hardware,
    pub market: &'a Market,
    /// What was measured of the hardware.
    pub correction: &'a Correction,
}

pub fn plan(world: World, workload: &Workload, limits: &Limits) -> PlanSet {
    let mut set = plan_under(world, workload, limits);
    if set.recommendation.is_none() && limits.policy.is_some() {
        // The rules of the house are in the way if a plan stands without them.
        set.only_policy =
            plan_under(world, workload, &Limits { policy: None, ..limits.clone() }).recommendation.is_some();
    }
    set
}

fn plan_under(world: World, workload: &Workload, limits: &Limits) -> PlanSet {
    let mut refused = Refused::default();
    let mut kept_offers = Vec::new();
    for id in world.market.offer_ids() {
        let offer = world.market.offer(id);
        match refuse_offer(offer, world.hardware.instance(offer.instance), world.hardware, limits) {
            Some(why) => refused.add_offer(id, offer, why),
            None => kept_offers.push(id),
        }
    }
    let mut wanted: Vec<InstanceId> = kept_offers.iter().map(|id| world.market.offer(*id).instance).collect();
    wanted.sort_unstable();
    wanted.dedup();
    // The runs of a sweep share one machine.
    let nodes = if workload.sweep.is_some() { vec![1] } else { node_counts(limits) };
    let physics = Physics::compute(workload, world, &wanted, &nodes);
    let pricer = Pricer::new(world, workload, limits);
    let mut builder = Builder {
        pricer: &pricer,
        physics: &physics,
        refused: &mut refused,
        plans: Vec::new(),
        candidates: 0,
        steps: HashMap::new(),
    };
    for id in &kept_offers {
        builder.try_offer(*id);
    }
    let (plans, candidates) = (builder.plans, builder.candidates);
    let answered = answered_terms(world.market, &kept_offers, limits);
    let is_outdated = |plan: &Plan| {
        let offer = world.market.offer(plan.offer);
        answered.contains(&offer.purchase) && limits.now.is_some_and(|now| offer.is_stale(now))
    };
    let (outdated, plans): (Vec<Plan>, Vec<Plan>) = plans.into_iter().partition(is_outdated);
    // Where nothing that was answered will do, older prices are better than none.
    let (plans, outdated) = if plans.is_empty() { (outdated, plans) } else { (plans, outdated) };
    let counts = Counts {
        offers: world.market.offers().len() as u64,
        shapes: physics.shapes as u64,
        layouts_estimated: physics.estimated,
        candidates,
    };
    choose(&pricer, &kept_offers, (plans, outdated), refused, counts)
}

/// Terms for which a cloud has answered lately among what was asked for. There, older prices are listed with a mark and not
/// recommended; elsewhere they are all there is.
fn answered_terms(market: &Market, kept: &[OfferId], limits: &Limits) -> BTreeSet<Purchase> {
    let Some(now) = limits.now.filter(|_| !limits.accept_stale) else { return BTreeSet::new() };
    let is_answer =
        |offer: &&Offer| matches!(offer.quote.origin, Origin::Live | Origin::Cached) && !offer.is_stale(now);
    kept.iter().map(|id| market.offer(*id)).filter(is_answer).map(|offer| offer.purchase).collect()
}

/// The usual counts, and those that a stated number of GPUs needs.
pub(super) fn node_counts(limits: &Limits) -> Vec<u32> {
    let most = limits.node_limit();
    let mut counts: Vec<u32> = NODE_COUNTS.into_iter().filter(|count| *count <= most).collect();
    for exact in limits.gpus.iter().filter_map(|selector| selector.count()).filter(|range| range.start() == range.end())
    {
        for devices in [1, 2, 4, 8, 16] {
            let nodes = exact.start() / devices;
            if exact.start().is_multiple_of(devices) && (1..=most).contains(&nodes) {
                counts.push(nodes);
            }
        }
    }
    counts.sort_unstable();
    counts.dedup();
    counts
}

struct Builder<'a> {
    pricer: &'a Pricer<'a>,
    physics: &'a Physics,
    refused: &'a mut Refused,
    plans: Vec<Plan>,
    candidates: u64,
    /// Settings shared by every offer of an instance type.
    steps: HashMap<(InstanceId, u32), Arc<StepEstimate>>,
}

impl Builder<'_> {
    fn try_offer(&mut self, id: OfferId) {
        let (world, limits) = (self.pricer.world, self.pricer.limits);
        let offer = world.market.offer(id);
        let instance = world.hardware.instance(offer.instance);
        let counter = self.pricer.counter(id);
        let physics = self.physics;
        for best in physics.of(offer.instance) {
            let gpus = best.nodes * instance.node.devices();
            if !count_is_asked(instance, world.hardware, limits, gpus) {
                continue;
            }
            self.candidates += 1;
            let plan = match &best.outcome {
                Err(misfit) => Err(Why::Misfit(misfit.clone())),
                Ok(_) if offer.owned.as_ref().is_some_and(|owned| best.nodes > owned.nodes) => {
                    Err(Why::OwnedNodes { have: offer.owned.as_ref().map_or(0, |owned| owned.nodes) })
                }
                Ok(step)
                    if needs_network(best.nodes, step)
                        && instance.node.fabric.is_none()
                        && !limits.allow_slow_network =>
                {
                    Err(Why::NoNetwork)
                }
                Ok(step) => {
                    let workload = self.pricer.workload;
                    let fed = || Arc::new(loading::fed(world, workload, offer.instance, best.nodes, step.clone()));
                    let shared = self.steps.entry((offer.instance, best.nodes)).or_insert_with(fed);
                    self.pricer.price(&counter, best.nodes, Arc::clone(shared))
                }
            };
            match plan {
                Ok(plan) => self.plans.push(plan),
                Err(why) => self.refused.add(offer.instance, offer.purchase, best.nodes, why),
            }
        }
    }
}

fn choose(
    pricer: &Pricer,
    spots: &[OfferId],
    (mut plans, outdated): (Vec<Plan>, Vec<Plan>),
    mut refused: Refused,
    counts: Counts,
) -> PlanSet {
    let (world, limits) = (pricer.world, pricer.limits);
    let mut forecaster = Forecaster::new(&pricer.model, limits.seed);
    let shown = shown::settle(pricer, &mut forecaster, &mut plans, &mut refused);
    let only_money = plans.is_empty() && refused.has_money_in_the_way();
    let mut on_frontier = vec![false; plans.len()];
    shown.frontier.iter().for_each(|index| on_frontier[*index] = true);
    for (plan, _) in plans.iter().zip(on_frontier).filter(|(_, on_frontier)| !on_frontier) {
        let why = Why::Dominated { cost: plan.cost.expected, hours: plan.hours() };
        refused.add(plan.instance, world.market.offer(plan.offer).purchase, plan.nodes, why);
    }
    let of = |indices: &[usize]| indices.iter().map(|index| plans[*index].clone()).collect::<Vec<Plan>>();
    let mut recommendation = shown.recommended.map(|index| plans[index].clone());
    let (mut frontier, mut alternatives) = (of(&shown.frontier), of(&shown.alternatives));
    alternatives.extend(cheaper_but_outdated(pricer, &mut forecaster, recommendation.as_ref(), outdated, &mut refused));
    alternatives.sort_by_key(|plan| plan.cost.expected);
    for plan in recommendation.iter_mut().chain(&mut frontier).chain(&mut alternatives) {
        outlook::complete(pricer, spots, plan);
    }
    if let Some(best) = &mut recommendation {
        outlook::find_break_even(pricer, &mut forecaster, best);
        best.cures = cures::of(pricer, spots, best);
    }
    let passed_over = recommendation.as_ref().and_then(|best| loading::passed_over(world, &plans, best));
    let terms = recommendation.as_ref().map_or_else(Vec::new, |best| terms::compare(pricer, &mut forecaster, best));
    let mut lines = refused.lines(world.hardware);
    lines.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)).then(a.2.what.cmp(&b.2.what)));
    let nearest = if plans.is_empty() {
        lines.iter().take(3).map(|(_, _, rejection)| rejection.clone()).collect()
    } else {
        Vec::new()
    };
    let rejected = lines.into_iter().map(|(_, _, rejection)| rejection).collect();
    let mut set = PlanSet {
        recommendation,
        frontier,
        alternatives,
        terms,
        rejected,
        nearest,
        only_money,
        only_policy: false,
        counts,
        findings: Vec::new(),
        notes: passed_over.into_iter().collect(),
    };
    advice::annotate(world, pricer.workload, limits, plans.len(), &mut set);
    refused.name_doubtful(world, &mut set);
    set
}

/// Of every GPU the best plan on a price older than the clouds' answers, if it would cost less; each offer is told apart.
fn cheaper_but_outdated(
    pricer: &Pricer,
    forecaster: &mut Forecaster,
    best: Option<&Plan>,
    outdated: Vec<Plan>,
    refused: &mut Refused,
) -> Vec<Plan> {
    let Some((best, now)) = best.zip(pricer.limits.now) else { return Vec::new() };
    let mut cheaper: Vec<Plan> = outdated.into_iter().filter(|plan| plan.cost.expected < best.cost.expected).collect();
    for plan in &cheaper {
        let offer = pricer.world.market.offer(plan.offer);
        refused.add_offer(plan.offer, offer, Why::Stale { age: offer.quote.age(now) });
    }
    let shown = shown::settle(pricer, forecaster, &mut cheaper, refused);
    let listed = shown.frontier.into_iter().chain(shown.alternatives).map(|index| cheaper[index].clone());
    listed.filter(|plan| plan.cost.expected < best.cost.expected).collect()
}
