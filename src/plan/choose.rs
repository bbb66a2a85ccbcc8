//! `plan`: every offer x node count x setting, filtered with reasons, priced, and the choice among what is left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::estimate::{Machine, StepEstimate};
use crate::hardware::{Hardware, InstanceId};
use crate::market::{Market, Offer, OfferId, Origin, Purchase, Quote};
use crate::plan::advice;
use crate::plan::bill::{BillInput, PlaceCharges};
use crate::plan::candidate::Plan;
use crate::plan::filters::{Rejection, Why, count_is_asked, refuse_offer};
use crate::plan::limits::{Limits, Objective, PurchaseChoice};
use crate::plan::physics::{NODE_COUNTS, Physics};
use crate::plan::refused::Refused;
use crate::plan::run::{RunInput, RunTime};
use crate::spot::{hardware_failure_rate, spot_rate};
use crate::units::{Hours, Quantiles};
use crate::workload::Workload;

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
    pub rejected: Vec<Rejection>,
    /// Closest of what was refused, where nothing is left.
    pub nearest: Vec<Rejection>,
    /// Money alone keeps a plan out.
    pub only_money: bool,
    /// A rule of the house alone keeps a plan out.
    pub only_policy: bool,
    pub counts: Counts,
    pub notes: Vec<String>,
}

/// What can be had and what it is.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub hardware: &'a Hardware,
    pub market: &'a Market,
}

pub fn plan(world: World, workload: &Workload, limits: &Limits) -> PlanSet {
    let mut set = plan_under(world, workload, limits);
    if set.recommendation.is_none() && limits.policy.is_some() {
        // The rules of the house are in the way if a plan stands without them.
        set.only_policy = plan_under(world, workload, &Limits { policy: None, ..limits.clone() }).recommendation.is_some();
    }
    set
}

fn plan_under(world: World, workload: &Workload, limits: &Limits) -> PlanSet {
    let global_batch = workload.training.global_batch.unwrap_or(1);
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
    let nodes = node_counts(limits);
    let physics = Physics::compute(&workload.model, &workload.training, global_batch, world.hardware, &wanted, &nodes);
    let mut builder = Builder {
        world,
        workload,
        limits,
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
    choose(world, workload, limits, (plans, outdated), refused, counts)
}

/// Terms for which a cloud has answered lately among what was asked for. There, older prices are listed with a mark and not
/// recommended; elsewhere they are all there is.
fn answered_terms(market: &Market, kept: &[OfferId], limits: &Limits) -> BTreeSet<Purchase> {
    let Some(now) = limits.now.filter(|_| !limits.accept_stale) else { return BTreeSet::new() };
    let is_answer = |offer: &&Offer| matches!(offer.quote.origin, Origin::Live | Origin::Cached) && !offer.is_stale(now);
    kept.iter().map(|id| market.offer(*id)).filter(is_answer).map(|offer| offer.purchase).collect()
}

/// The usual counts, and those that a stated number of GPUs needs.
fn node_counts(limits: &Limits) -> Vec<u32> {
    let most = limits.node_limit();
    let mut counts: Vec<u32> = NODE_COUNTS.into_iter().filter(|count| *count <= most).collect();
    for exact in limits.gpus.iter().filter_map(|selector| selector.count()).filter(|range| range.start() == range.end()) {
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
    world: World<'a>,
    workload: &'a Workload,
    limits: &'a Limits,
    physics: &'a Physics,
    refused: &'a mut Refused,
    plans: Vec<Plan>,
    candidates: u64,
    /// Settings shared by every offer of an instance type.
    steps: HashMap<(InstanceId, u32), Arc<StepEstimate>>,
}

impl Builder<'_> {
    fn try_offer(&mut self, id: OfferId) {
        let offer = self.world.market.offer(id);
        let instance = self.world.hardware.instance(offer.instance);
        let charges = PlaceCharges::new(&self.world.market.charges, offer, instance, self.workload.data.as_ref());
        let rate_basis: Arc<str> = format!("{} of {}", offer.source, offer.quote.observed_at.strftime("%Y-%m-%d")).into();
        let physics = self.physics;
        for best in physics.of(offer.instance) {
            let gpus = best.nodes * instance.node.devices();
            if !count_is_asked(instance, self.world.hardware, self.limits, gpus) {
                continue;
            }
            self.candidates += 1;
            match &best.outcome {
                Err(misfit) => self.refused.add(offer.instance, offer.purchase, best.nodes, Why::Misfit(misfit.clone())),
                Ok(_) if offer.owned.as_ref().is_some_and(|owned| best.nodes > owned.nodes) => {
                    let have = offer.owned.as_ref().map_or(0, |owned| owned.nodes);
                    self.refused.add(offer.instance, offer.purchase, best.nodes, Why::OwnedNodes { have });
                }
                Ok(_) if best.nodes > 1 && instance.node.fabric.is_none() && !self.limits.allow_slow_network => {
                    self.refused.add(offer.instance, offer.purchase, best.nodes, Why::NoNetwork);
                }
                Ok(step) => {
                    let shared = self.steps.entry((offer.instance, best.nodes)).or_insert_with(|| Arc::new(step.clone())).clone();
                    match self.price(id, offer, best.nodes, shared, &charges, &rate_basis) {
                        Ok(plan) => self.plans.push(plan),
                        Err(why) => self.refused.add(offer.instance, offer.purchase, best.nodes, why),
                    }
                }
            }
        }
    }

    /// Run time, bill and the limits that need them.
    fn price(
        &self,
        id: OfferId,
        offer: &Offer,
        nodes: u32,
        step: Arc<StepEstimate>,
        charges: &PlaceCharges,
        rate_basis: &Arc<str>,
    ) -> Result<Plan, Why> {
        let instance = self.world.hardware.instance(offer.instance);
        let machine = Machine::new(self.world.hardware.gpu(instance.node.gpu), &instance.node);
        let spot = offer.purchase == Purchase::Spot;
        let gpus = step.setting.gpus();
        let interruptions = if spot { spot_rate(offer.risk.as_deref(), gpus) } else { hardware_failure_rate(gpus) };
        let run = RunInput {
            workload: self.workload,
            step: &step,
            machine: &machine,
            nodes,
            host_network_gbit_per_s: instance.host_network_gbit_per_s,
            interruptions,
            takes_capacity_back: spot,
        }
        .time();
        let chance = self.check_deadline(&run, spot)?;
        let ends_with = offer.owned.as_ref().and_then(|owned| owned.until).zip(self.limits.now);
        if let Some((until, _)) = ends_with.filter(|(until, now)| until.duration_since(*now).as_secs_f64() < run.hours.p90 * 3600.0) {
            return Err(Why::OwnedUntil { until });
        }
        let rate = offer.quote.rate.times(nodes);
        if let Some(broken) = self.limits.policy.as_ref().and_then(|policy| policy.breaks_rate(rate)) {
            return Err(Why::PolicyCost(broken));
        }
        if let Some(limit) = self.limits.max_price_per_hour.filter(|limit| rate > *limit) {
            return Err(Why::MaxPrice { rate, limit });
        }
        let risk_basis: Arc<str> = interruptions.basis.into();
        let input = BillInput { offer, nodes, run: &run, charges, rate_basis, risk_basis: &risk_basis };
        let beyond = || Why::Misfit(crate::estimate::Misfit::Unsupported { detail: "the cost is beyond counting".to_owned() });
        let bill = input.bill().ok_or_else(beyond)?;
        let expected = bill.total();
        let p90 = input.total_for(run.hours.p90).ok_or_else(beyond)?.max(expected);
        if let Some(budget) = self.limits.budget.filter(|budget| p90 > *budget) {
            return Err(Why::Budget { p90, budget });
        }
        if let Some(broken) = self.limits.policy.as_ref().and_then(|policy| policy.breaks_cost(p90)) {
            return Err(Why::PolicyCost(broken));
        }
        let full = offer.owned.as_ref().map(|owned| Offer { quote: Quote { rate: owned.full_rate, ..offer.quote }, ..offer.clone() });
        let full_cost = full.and_then(|offer| BillInput { offer: &offer, ..input }.bill()).map(|bill| bill.total());
        Ok(Plan {
            full_cost,
            offer: id,
            instance: offer.instance,
            nodes,
            step,
            run,
            bill,
            cost: Quantiles { expected, p50: expected, p90 },
            chance_by_deadline: chance,
            because: Vec::new(),
            advice: Vec::new(),
        })
    }

    /// On-demand must end in time with 90 % certainty; spot cannot promise, and is out unless it alone was asked for.
    fn check_deadline(&self, run: &RunTime, spot: bool) -> Result<Option<f64>, Why> {
        let Some(deadline) = self.limits.deadline else { return Ok(None) };
        if spot && self.limits.purchase != PurchaseChoice::Spot {
            return Err(Why::NoPromise);
        }
        if run.hours.p90 > deadline.0 {
            return Err(Why::Deadline { p90: Hours(run.hours.p90), deadline });
        }
        Ok((!spot).then(|| run.chance_by(deadline)))
    }
}

fn choose(
    world: World,
    workload: &Workload,
    limits: &Limits,
    (mut plans, outdated): (Vec<Plan>, Vec<Plan>),
    mut refused: Refused,
    counts: Counts,
) -> PlanSet {
    plans.sort_by(|a, b| {
        let key = |plan: &Plan| (plan.cost.expected, plan.run.hours.expected.to_bits(), plan.offer, plan.nodes);
        key(a).cmp(&key(b))
    });
    let only_money = plans.is_empty() && refused.has_money_in_the_way();
    let best = recommend(&plans, limits);
    let mut frontier = Vec::new();
    let mut rest: Vec<Plan> = Vec::new();
    let mut fastest = f64::INFINITY;
    for plan in &plans {
        if plan.run.hours.expected < fastest {
            fastest = plan.run.hours.expected;
            frontier.push(plan.clone());
        } else {
            let why = Why::Dominated { cost: plan.cost.expected, hours: plan.hours() };
            refused.add(plan.instance, world.market.offer(plan.offer).purchase, plan.nodes, why);
            rest.push(plan.clone());
        }
    }
    let recommendation = best.map(|index| plans[index].clone());
    let mut alternatives = best_of_each_gpu(world, &frontier, &rest, limits);
    alternatives.extend(best_on_demand(world, &plans, &frontier, &alternatives, limits));
    alternatives.extend(cheaper_but_outdated(world, recommendation.as_ref(), outdated, limits, &mut refused));
    alternatives.sort_by_key(|plan| plan.cost.expected);
    let mut lines = refused.lines(world.hardware);
    lines.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)).then(a.2.what.cmp(&b.2.what)));
    let nearest = if plans.is_empty() { lines.iter().take(3).map(|(_, _, rejection)| rejection.clone()).collect() } else { Vec::new() };
    let rejected = lines.into_iter().map(|(_, _, rejection)| rejection).collect();
    let mut set =
        PlanSet { recommendation, frontier, alternatives, rejected, nearest, only_money, only_policy: false, counts, notes: Vec::new() };
    advice::annotate(world, workload, limits, plans.len(), &mut set);
    refused.name_doubtful(world, &mut set);
    set
}

/// Index of the plan to recommend.
fn recommend(plans: &[Plan], limits: &Limits) -> Option<usize> {
    let patient = |plan: &&Plan| limits.deadline.is_some() || plan.run.hours.expected <= PATIENCE.0;
    let in_time: Vec<(usize, &Plan)> = plans.iter().enumerate().filter(|(_, plan)| patient(plan)).collect();
    let by_hours = |a: &(usize, &Plan), b: &(usize, &Plan)| {
        a.1.run.hours.expected.total_cmp(&b.1.run.hours.expected).then(a.1.cost.expected.cmp(&b.1.cost.expected))
    };
    if in_time.is_empty() {
        return plans.iter().enumerate().min_by(by_hours).map(|(index, _)| index);
    }
    let chosen = match limits.objective {
        Objective::Time => in_time.into_iter().min_by(by_hours),
        Objective::Balanced => in_time.into_iter().min_by(|a, b| product(a.1).total_cmp(&product(b.1))),
        Objective::Cost => {
            // Sorted by cost, so the first is the cheapest.
            let most = in_time[0].1.cost.expected.dollars() * (1.0 + COST_TOLERANCE);
            in_time.into_iter().filter(|(_, plan)| plan.cost.expected.dollars() <= most).min_by(by_hours)
        }
    };
    chosen.map(|(index, _)| index)
}

fn product(plan: &Plan) -> f64 {
    plan.cost.expected.dollars() * plan.run.hours.expected
}

/// What capacity that nobody takes back would cost, where only spot is on the list.
fn best_on_demand(world: World, plans: &[Plan], frontier: &[Plan], shown: &[Plan], limits: &Limits) -> Option<Plan> {
    let on_demand = |plan: &Plan| world.market.offer(plan.offer).purchase == Purchase::OnDemand;
    let firm: Vec<Plan> = plans.iter().filter(|plan| on_demand(plan)).cloned().collect();
    let best = &firm[recommend(&firm, limits)?];
    let listed = |plan: &Plan| plan.offer == best.offer && plan.nodes == best.nodes;
    (!frontier.iter().chain(shown).any(listed)).then(|| best.clone())
}

/// Of every GPU the best plan on a price older than the clouds' answers, if it would cost less; each offer is told apart.
fn cheaper_but_outdated(world: World, best: Option<&Plan>, outdated: Vec<Plan>, limits: &Limits, refused: &mut Refused) -> Vec<Plan> {
    let Some((best, now)) = best.zip(limits.now) else { return Vec::new() };
    let mut cheaper: Vec<Plan> = outdated.into_iter().filter(|plan| plan.cost.expected < best.cost.expected).collect();
    for plan in &cheaper {
        let offer = world.market.offer(plan.offer);
        refused.add_offer(plan.offer, offer, Why::Stale { age: offer.quote.age(now) });
    }
    cheaper.sort_by_key(|plan| (plan.cost.expected, plan.offer, plan.nodes));
    best_of_each_gpu(world, &[], &cheaper, limits)
}

/// For every GPU without a plan on the frontier, the plan that the objective would choose.
fn best_of_each_gpu(world: World, frontier: &[Plan], rest: &[Plan], limits: &Limits) -> Vec<Plan> {
    let gpu_of = |plan: &Plan| world.hardware.instance(plan.instance).node.gpu;
    let on_frontier: Vec<_> = frontier.iter().map(gpu_of).collect();
    let mut by_gpu: BTreeMap<_, Vec<Plan>> = BTreeMap::new();
    for plan in rest {
        if !on_frontier.contains(&gpu_of(plan)) {
            by_gpu.entry(gpu_of(plan)).or_default().push(plan.clone());
        }
    }
    by_gpu.into_values().filter_map(|plans| recommend(&plans, limits).map(|index| plans[index].clone())).collect()
}
