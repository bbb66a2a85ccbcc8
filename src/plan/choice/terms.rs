//! The recommended machines on every way to buy them: what the same run would cost, and what one would be bound to.

use crate::candidate::Plan;
use crate::choice::objective::{Aim, by_key};
use crate::choice::settling::{Depth, Question, Undecided, settle};
use crate::explanation::Rejection;
use crate::filters::refuse_offer;
use crate::limits::{Limits, OfferFilter, PurchaseChoice};
use crate::money::price::price;
use crate::money::pricer::Pricer;
use crate::spot::Forecaster;
use gpuplan_market::{Offer, OfferId, Purchase};
use gpuplan_units::Usd;

/// Hours of a year of a commitment, as the clouds sell it.
const HOURS_PER_YEAR: f64 = 8760.0;
/// Capacity blocks are sold in whole days (EC2 user guide, "Capacity Blocks for ML"). Hours.
const BLOCK: f64 = 24.0;

/// The recommended machines on one way to buy them.
#[derive(Clone, Debug)]
pub struct Terms {
    pub purchase: &'static str,
    /// The cheapest that keeps every limit, or why none does.
    pub outcome: Result<Box<Plan>, Rejection>,
    /// What is paid whether the machines are used or not, where that is more than the run.
    pub bound_to: Option<Usd>,
}

/// A way to buy, and the offers that belong to it.
struct Way {
    name: &'static str,
    choice: PurchaseChoice,
    purchase: Purchase,
}

const WAYS: [Way; 8] = [
    Way { name: "spot", choice: PurchaseChoice::Spot, purchase: Purchase::Spot },
    Way { name: "spot-with-fallback", choice: PurchaseChoice::SpotWithFallback, purchase: Purchase::Spot },
    Way { name: "on-demand", choice: PurchaseChoice::OnDemand, purchase: Purchase::OnDemand },
    Way { name: "commitment 1y", choice: PurchaseChoice::Commitment, purchase: Purchase::Commitment { years: 1 } },
    Way { name: "commitment 3y", choice: PurchaseChoice::Commitment, purchase: Purchase::Commitment { years: 3 } },
    Way { name: "capacity-block", choice: PurchaseChoice::CapacityBlock, purchase: Purchase::CapacityBlock },
    Way { name: "calendar", choice: PurchaseChoice::Calendar, purchase: Purchase::Calendar },
    Way { name: "flex-start", choice: PurchaseChoice::FlexStart, purchase: Purchase::FlexStart },
];

/// Each way that the market knows for this machine type, wherever it is cheapest.
pub fn compare(pricer: &Pricer, forecaster: &mut Forecaster, best: &Plan, aim: Aim) -> Vec<Terms> {
    let is_possible = |way: &&Way| match way.choice {
        // A service always has something to fall back to.
        PurchaseChoice::Spot => !pricer.context.workload.is_service(),
        _ => true,
    };
    WAYS.iter().filter(is_possible).filter_map(|way| compare_one(pricer, forecaster, best, way, aim)).collect()
}

/// `None`: not sold this way.
fn compare_one(pricer: &Pricer, forecaster: &mut Forecaster, best: &Plan, way: &Way, aim: Aim) -> Option<Terms> {
    let (world, limits) = (pricer.context.world, pricer.context.limits);
    let sold =
        |offer: &Offer| offer.instance == best.instance && offer.purchase == way.purchase && offer.owned.is_none();
    let ids: Vec<OfferId> = world.market.offer_ids().filter(|id| sold(world.market.offer(*id))).collect();
    if ids.is_empty() {
        return None;
    }
    let filter = OfferFilter { purchase: way.choice, ..limits.offers.clone() };
    let limits = Limits { offers: filter, ..limits.clone() };
    let pricer = pricer.buying(&limits);
    let instance = world.hardware.instance(best.instance);
    let mut refused: Option<Rejection> = None;
    let mut plans: Vec<Plan> = Vec::new();
    for id in ids {
        let outcome = match refuse_offer(world.market.offer(id), instance, world.hardware, &limits) {
            Some(why) => Err(why),
            None => price(&pricer, &pricer.offer(id), best.nodes, best.step.clone()),
        };
        match outcome {
            Ok(plan) => plans.push(plan),
            // Of several reasons, that of the offer that came closest.
            Err(why) if refused.as_ref().is_none_or(|held| why.progress() > held.progress()) => refused = Some(why),
            Err(_) => {}
        }
    }
    let outcome = match plans.into_iter().min_by_key(|plan| (plan.cost.expected, plan.offer)) {
        Some(plan) if plan.needs_forecast() => forecast(&pricer, forecaster, &plan, aim),
        Some(plan) => Ok(plan),
        None => Err(refused?),
    };
    let bound_to = outcome.as_ref().ok().and_then(|plan| bound_to(&pricer, plan, way.purchase));
    Some(Terms { purchase: way.name, outcome: outcome.map(Box::new), bound_to })
}

/// The best way to use these spot machines.
fn forecast(pricer: &Pricer, forecaster: &mut Forecaster, plan: &Plan, aim: Aim) -> Result<Plan, Rejection> {
    let mut open = Undecided::new(pricer, plan.clone()).map_err(|_| Rejection::Uncountable)?;
    let kept = settle(pricer, forecaster, &mut open, Question { aim, depth: Depth::EveryWay, best: None });
    let key = |plan: &Plan| aim.key(plan.cost.expected, plan.run.hours.expected);
    kept.into_iter().min_by(|a, b| by_key(key(a), key(b))).ok_or_else(|| open.why_not())
}

/// A promise of years is paid for years, a block of which no span is known for whole days. The cost of a span has all of it.
fn bound_to(pricer: &Pricer, plan: &Plan, purchase: Purchase) -> Option<Usd> {
    let hours = match purchase {
        Purchase::Commitment { years } => f64::from(years) * HOURS_PER_YEAR,
        Purchase::CapacityBlock if pricer.context.world.market.offer(plan.offer).booking.is_some() => return None,
        Purchase::CapacityBlock => (plan.run.hours.p90 / BLOCK).ceil() * BLOCK,
        _ => return None,
    };
    pricer.rate_of_all(plan.offer, plan.nodes)?.for_hours(1, hours)
}
