//! `plan`: every offer x node count x setting, filtered with reasons, priced, and the choice among what is left.

pub mod breadth;
pub mod objective;
pub mod picks;
pub mod refusals;
pub mod settling;
pub mod shapes;
pub mod shortlist;
pub mod terms;
pub mod value_of_time;

mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::candidate::Plan;
use crate::choice::breadth::Breadth;
use crate::choice::objective::Aim;
use crate::choice::picks::picks;
use crate::choice::refusals::Refusals;
use crate::choice::shapes::Shapes;
use crate::choice::shortlist::shortlist;
use crate::choice::value_of_time::ValueOfTime;
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
use crate::spot::pools::{add_pools_and_promise, find_break_even};
use crate::spot::{Forecaster, Stock};
use gpuplan_estimate::StepEstimate;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Offer, OfferId, Origin};
use gpuplan_workload::Workload;

/// The nearest of what was refused, where nothing is left.
const MOST_NEAREST: usize = 3;

/// The best ways to carry out a workload within some limits.
pub fn plan(world: World, workload: &Workload, limits: &Limits) -> PlanSet {
    plan_from(world, workload, limits, &Stock::default(), Breadth::Everything)
}

/// The same with futures that other questions have drawn already: the answer is the same, and there sooner.
pub fn plan_from(world: World, workload: &Workload, limits: &Limits, stock: &Stock, breadth: Breadth) -> PlanSet {
    // From within the thread pool: outside of it, the calling thread sleeps and is woken for each of the thousand small
    // loops that are shared out below.
    rayon::scope(|_| plan_with_policy(Context { world, workload, limits }, stock, breadth))
}

fn plan_with_policy(context: Context, stock: &Stock, breadth: Breadth) -> PlanSet {
    let limits = context.limits;
    let mut set = plan_under(context, stock, breadth);
    if set.recommendation.is_none() && limits.policy.is_some() {
        // The rules of the house are in the way if a plan stands without them.
        let limits = Limits { policy: None, ..limits.clone() };
        let without = plan_under(Context { limits: &limits, ..context }, stock, Breadth::Recommendation);
        set.only_policy = without.recommendation.is_some();
    }
    set
}

fn plan_under(context: Context, stock: &Stock, breadth: Breadth) -> PlanSet {
    let pricer = Pricer::new(context);
    let found = candidates(&pricer);
    choose(&pricer, found, stock, breadth)
}

/// What can be had, priced, before anything on spot is forecast.
struct Candidates {
    kept_offers: Vec<OfferId>,
    plans: Vec<Plan>,
    refused: Refusals,
    counts: Counts,
}

fn candidates(pricer: &Pricer) -> Candidates {
    let context @ Context { world, workload, limits } = pricer.context;
    let mut refused = Refusals::default();
    let mut kept_offers = Vec::new();
    for id in world.market.offer_ids() {
        let offer = world.market.offer(id);
        match refuse_offer(offer, world.hardware.instance(offer.instance), world.hardware, limits) {
            Some(why) => refused.add_offer(id, offer, why),
            None => kept_offers.push(id),
        }
    }
    refuse_superseded(&mut kept_offers, context, &mut refused);
    let mut wanted: Vec<InstanceId> = kept_offers.iter().map(|id| world.market.offer(*id).instance).collect();
    wanted.sort_unstable();
    wanted.dedup();
    // The runs of a sweep share one machine.
    let nodes = if workload.sweep.is_some() { vec![1] } else { limits.node_counts() };
    let shapes = Shapes::estimate(context, &wanted, &nodes);
    let mut builder = Builder {
        pricer,
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
    let plans = builder.plans;
    Candidates { kept_offers, plans, refused, counts }
}

/// An old price of the snapshot gives way where the same cloud was asked and said what it takes now for the same GPU on the same terms.
fn refuse_superseded(kept: &mut Vec<OfferId>, context: Context, refused: &mut Refusals) {
    let Context { world, limits, .. } = context;
    let Some(now) = limits.now.filter(|_| !limits.offers.accept_stale) else { return };
    let sold_as = |offer: &Offer| {
        let instance = world.hardware.instance(offer.instance);
        (instance.cloud.clone(), instance.node.gpu, offer.purchase)
    };
    let was_asked = |offer: &Offer| matches!(offer.quote.origin, Origin::Live | Origin::Cached);
    let is_fresh = |offer: &&Offer| offer.owned.is_none() && was_asked(offer) && !offer.is_stale(now);
    let fresh: HashSet<_> = kept.iter().map(|id| world.market.offer(*id)).filter(is_fresh).map(sold_as).collect();
    kept.retain(|id| {
        let offer = world.market.offer(*id);
        let is_old = offer.owned.is_none() && !was_asked(offer) && offer.is_stale(now);
        let is_superseded = is_old && fresh.contains(&sold_as(offer));
        if is_superseded {
            refused.add_offer(*id, offer, Rejection::StalePrice { age_hours: offer.quote.age(now) });
        }
        !is_superseded
    });
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
            let gpus = nodes * instance.node.devices();
            let is_asked = |gpus: u32| count_is_asked(instance, world.hardware, limits, gpus);
            // A served model that fits on no count of machines has one candidate, which says why for all of them.
            let fits_on_none = workload.serving.is_some() && candidate.step.is_err();
            let stands_for_one =
                || fits_on_none && limits.node_counts().iter().any(|nodes| is_asked(nodes * instance.node.devices()));
            if !is_asked(gpus) && !stands_for_one() {
                // Of a job every count is tried; a service has the one that its load takes.
                if workload.is_service() {
                    let gpu = world.hardware.gpu(instance.node.gpu).family.clone();
                    let why = Rejection::OtherCount { gpu, needed_gpus: gpus };
                    self.refused.add(offer.instance, offer.purchase, nodes, why);
                }
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

fn choose(pricer: &Pricer, found: Candidates, stock: &Stock, breadth: Breadth) -> PlanSet {
    let Candidates { kept_offers: kept, mut plans, mut refused, counts } = found;
    let context = pricer.context;
    let world = context.world;
    let value_of_time = ValueOfTime::new(context.workload, context.limits);
    let aim = Aim::new(context.limits, value_of_time);
    let mut forecaster = Forecaster::new(&pricer.model, stock, context.limits.seed);
    let candidates = plans.len();
    let shortlist = shortlist(pricer, &mut forecaster, &mut plans, (&mut refused, breadth), aim);
    let only_money = plans.is_empty() && refused.has_money_in_the_way();
    let shown: BTreeSet<usize> = shortlist.frontier.iter().copied().collect();
    for (_, plan) in plans.iter().enumerate().filter(|(index, _)| !shown.contains(index)) {
        let why = Rejection::Dominated { cost_usd: plan.cost.expected, run_hours: plan.hours() };
        refused.add(plan.instance, world.market.offer(plan.offer).purchase, plan.nodes, why);
    }
    let listed = |indices: &[usize]| indices.iter().map(|index| plans[*index].clone()).collect::<Vec<Plan>>();
    let mut recommendation = shortlist.recommended.map(|index| plans[index].clone());
    let (mut frontier, mut alternatives) = (listed(&shortlist.frontier), listed(&shortlist.alternatives));
    for plan in recommendation.iter_mut().chain(&mut frontier).chain(&mut alternatives) {
        add_pools_and_promise(pricer, &kept, plan);
    }
    if let Some(best) = &mut recommendation {
        find_break_even(pricer, &mut forecaster, best);
        best.input_fixes = input_fixes(pricer, &kept, best);
    }
    let cheaper_if_fed = recommendation.as_ref().and_then(|best| cheaper_without_waiting(world, &plans, best));
    let compared = recommendation.as_ref().filter(|_| breadth == Breadth::Everything);
    let terms = compared.map_or_else(Vec::new, |best| terms::compare(pricer, &mut forecaster, best, aim));
    let rejected = refused.lines(world.hardware);
    let nearest = if plans.is_empty() { rejected.iter().take(MOST_NEAREST).cloned().collect() } else { Vec::new() };
    let picks = recommendation.as_ref().map_or_else(Vec::new, |best| picks(context, best, &frontier));
    let mut set = PlanSet {
        recommendation,
        picks,
        value_of_time,
        frontier,
        alternatives,
        terms,
        rejected,
        nearest,
        only_money,
        only_policy: false,
        counts,
        quotas: context.limits.quotas.known.iter().map(|counted| counted.quota.clone()).collect(),
        findings: Vec::new(),
        warnings: cheaper_if_fed.into_iter().collect(),
    };
    annotate(pricer, candidates, &mut set);
    refused.name_doubtful(world, &mut set);
    set
}
