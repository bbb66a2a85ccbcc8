//! `plan`: every offer x node count x setting, filtered with reasons, priced, and the choice among what is left.

pub mod objective;
pub mod refusals;
pub mod shapes;
pub mod shortlist;
pub mod terms;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::candidate::Plan;
use crate::choice::refusals::Refusals;
use crate::choice::shapes::Shapes;
use crate::choice::shortlist::forecast_shortlist;
use crate::context::{Context, World};
use crate::explanation::Rejection;
use crate::explanation::annotate::annotate;
use crate::filters::{count_is_asked, refuse_offer};
use crate::input::feeding::fed;
use crate::input::fixes::input_fixes;
use crate::input::waiting::cheaper_without_waiting;
use crate::limits::Limits;
use crate::money::price::price;
use crate::money::pricer::Pricer;
use crate::plan_set::{Counts, PlanSet};
use crate::spot::Forecaster;
use crate::spot::pools::{add_pools_and_promise, find_break_even};
use gpuplan_estimate::StepEstimate;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Market, Offer, OfferId, Origin, Purchase};
use gpuplan_workload::Workload;

/// The nearest of what was refused, where nothing is left.
const MOST_NEAREST: usize = 3;

/// The best ways to carry out a workload within some limits.
pub fn plan(world: World, workload: &Workload, limits: &Limits) -> PlanSet {
    let context = Context { world, workload, limits };
    let mut set = plan_under(context);
    if set.recommendation.is_none() && limits.policy.is_some() {
        // The rules of the house are in the way if a plan stands without them.
        let limits = Limits { policy: None, ..limits.clone() };
        set.only_policy = plan_under(Context { limits: &limits, ..context }).recommendation.is_some();
    }
    set
}

fn plan_under(context: Context) -> PlanSet {
    let Context { world, workload, limits } = context;
    let mut refused = Refusals::default();
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
    let nodes = if workload.sweep.is_some() { vec![1] } else { limits.node_counts() };
    let shapes = Shapes::estimate(context, &wanted, &nodes);
    let pricer = Pricer::new(context);
    let mut builder = Builder {
        pricer: &pricer,
        shapes: &shapes,
        refused: &mut refused,
        plans: Vec::new(),
        candidates: 0,
        steps: HashMap::new(),
    };
    for id in &kept_offers {
        builder.try_offer(*id);
    }
    let counts = Counts {
        offers: world.market.offers().len() as u64,
        shapes: shapes.shapes as u64,
        layouts_estimated: shapes.estimated,
        candidates: builder.candidates,
    };
    let plans = FreshAndOutdated::new(context, &kept_offers, builder.plans);
    choose(&pricer, &kept_offers, plans, refused, counts)
}

/// Plans by the age of the prices that they rest on.
struct FreshAndOutdated {
    fresh: Vec<Plan>,
    /// On prices older than the clouds' answers.
    outdated: Vec<Plan>,
}

impl FreshAndOutdated {
    fn new(context: Context, kept: &[OfferId], plans: Vec<Plan>) -> Self {
        let Context { world, limits, .. } = context;
        let answered = answered_terms(world.market, kept, limits);
        let is_outdated = |plan: &Plan| {
            let offer = world.market.offer(plan.offer);
            answered.contains(&offer.purchase) && limits.now.is_some_and(|now| offer.is_stale(now))
        };
        let (outdated, fresh): (Vec<Plan>, Vec<Plan>) = plans.into_iter().partition(is_outdated);
        // Where nothing that was answered will do, older prices are better than none.
        if fresh.is_empty() { Self { fresh: outdated, outdated: fresh } } else { Self { fresh, outdated } }
    }
}

/// Terms for which a cloud has answered lately. There, older prices are listed with a mark and not recommended; elsewhere they are
/// all there is.
fn answered_terms(market: &Market, kept: &[OfferId], limits: &Limits) -> BTreeSet<Purchase> {
    let Some(now) = limits.now.filter(|_| !limits.offers.accept_stale) else { return BTreeSet::new() };
    let is_answer =
        |offer: &&Offer| matches!(offer.quote.origin, Origin::Live | Origin::Cached) && !offer.is_stale(now);
    kept.iter().map(|id| market.offer(*id)).filter(is_answer).map(|offer| offer.purchase).collect()
}

struct Builder<'a> {
    pricer: &'a Pricer<'a>,
    shapes: &'a Shapes,
    refused: &'a mut Refusals,
    plans: Vec<Plan>,
    candidates: u64,
    /// Settings shared by every offer of an instance type.
    steps: HashMap<(InstanceId, u32), Arc<StepEstimate>>,
}

impl Builder<'_> {
    fn try_offer(&mut self, id: OfferId) {
        let Context { world, workload, limits } = self.pricer.context;
        let offer = world.market.offer(id);
        let instance = world.hardware.instance(offer.instance);
        let priced = self.pricer.offer(id);
        let shapes = self.shapes;
        for candidate in shapes.candidates(offer.instance) {
            let nodes = candidate.nodes;
            if !count_is_asked(instance, world.hardware, limits, nodes * instance.node.devices()) {
                continue;
            }
            self.candidates += 1;
            let plan = match &candidate.step {
                Err(rejection) => Err(rejection.clone()),
                Ok(_) if offer.owned.as_ref().is_some_and(|owned| nodes > owned.nodes) => {
                    Err(Rejection::TooFewOwned { owned_nodes: offer.owned.as_ref().map_or(0, |owned| owned.nodes) })
                }
                Ok(step)
                    if needs_network(nodes, step) && instance.node.fabric.is_none() && !limits.allow_slow_network =>
                {
                    Err(Rejection::NoNetwork)
                }
                Ok(step) => {
                    let fed = || Arc::new(fed(world, workload, offer.instance, nodes, step.clone()));
                    let shared = self.steps.entry((offer.instance, nodes)).or_insert_with(fed);
                    price(self.pricer, &priced, nodes, Arc::clone(shared))
                }
            };
            match plan {
                Ok(plan) => self.plans.push(plan),
                Err(why) => self.refused.add(offer.instance, offer.purchase, nodes, why),
            }
        }
    }
}

/// Machines that must reach each other: copies of a served model on machines of their own need not.
fn needs_network(nodes: u32, step: &StepEstimate) -> bool {
    step.served.map_or(nodes > 1, |served| served.nodes_each > 1)
}

fn choose(
    pricer: &Pricer,
    kept: &[OfferId],
    FreshAndOutdated { fresh: mut plans, outdated }: FreshAndOutdated,
    mut refused: Refusals,
    counts: Counts,
) -> PlanSet {
    let context = pricer.context;
    let world = context.world;
    let mut forecaster = Forecaster::new(&pricer.model, context.limits.seed);
    let shortlist = forecast_shortlist(pricer, &mut forecaster, &mut plans, &mut refused);
    let only_money = plans.is_empty() && refused.has_money_in_the_way();
    let on_frontier: BTreeSet<usize> = shortlist.frontier.iter().copied().collect();
    for (_, plan) in plans.iter().enumerate().filter(|(index, _)| !on_frontier.contains(index)) {
        let why = Rejection::Dominated { cost_usd: plan.cost.expected, run_hours: plan.hours() };
        refused.add(plan.instance, world.market.offer(plan.offer).purchase, plan.nodes, why);
    }
    let listed = |indices: &[usize]| indices.iter().map(|index| plans[*index].clone()).collect::<Vec<Plan>>();
    let mut recommendation = shortlist.recommended.map(|index| plans[index].clone());
    let (mut frontier, mut alternatives) = (listed(&shortlist.frontier), listed(&shortlist.alternatives));
    alternatives.extend(cheaper_but_outdated(pricer, &mut forecaster, recommendation.as_ref(), outdated, &mut refused));
    alternatives.sort_by_key(|plan| plan.cost.expected);
    for plan in recommendation.iter_mut().chain(&mut frontier).chain(&mut alternatives) {
        add_pools_and_promise(pricer, kept, plan);
    }
    if let Some(best) = &mut recommendation {
        find_break_even(pricer, &mut forecaster, best);
        best.input_fixes = input_fixes(pricer, kept, best);
    }
    let cheaper_if_fed = recommendation.as_ref().and_then(|best| cheaper_without_waiting(world, &plans, best));
    let terms = recommendation.as_ref().map_or_else(Vec::new, |best| terms::compare(pricer, &mut forecaster, best));
    let rejected = refused.lines(world.hardware);
    let nearest = if plans.is_empty() { rejected.iter().take(MOST_NEAREST).cloned().collect() } else { Vec::new() };
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
        warnings: cheaper_if_fed.into_iter().collect(),
    };
    annotate(context, plans.len(), &mut set);
    refused.name_doubtful(world, &mut set);
    set
}

/// For each GPU, the best plan on a price older than the clouds' answers, if it would cost less.
fn cheaper_but_outdated(
    pricer: &Pricer,
    forecaster: &mut Forecaster,
    best: Option<&Plan>,
    outdated: Vec<Plan>,
    refused: &mut Refusals,
) -> Vec<Plan> {
    let Some((best, now)) = best.zip(pricer.context.limits.now) else { return Vec::new() };
    let mut cheaper: Vec<Plan> = outdated.into_iter().filter(|plan| plan.cost.expected < best.cost.expected).collect();
    for plan in &cheaper {
        let offer = pricer.context.world.market.offer(plan.offer);
        refused.add_offer(plan.offer, offer, Rejection::StalePrice { age_hours: offer.quote.age(now) });
    }
    let shortlist = forecast_shortlist(pricer, forecaster, &mut cheaper, refused);
    let listed = shortlist.frontier.into_iter().chain(shortlist.alternatives).map(|index| cheaper[index].clone());
    listed.filter(|plan| plan.cost.expected < best.cost.expected).collect()
}
