//! What completes a plan on spot: places to try, the promise and its conditions, and when on-demand is cheaper.

use jiff::Timestamp;

use crate::candidate::Plan;
use crate::context::Context;
use crate::money::pricer::Pricer;
use crate::money::run_price::spot_job;
use crate::spot::promise::Promise;
use crate::spot::{Forecaster, Pool, ceiling};
use gpuplan_market::{OfferId, Purchase};
use gpuplan_units::Hours;

/// Places that are listed.
const MOST_POOLS: usize = 5;

/// Pools and promise of a plan that has its forecast. `kept` are the offers that keep every limit.
pub fn add_pools_and_promise(pricer: &Pricer, kept: &[OfferId], plan: &mut Plan) {
    if plan.spot.as_ref().is_none_or(|spot| spot.forecast.is_none()) {
        return;
    }
    let pools = pools(pricer.context, kept, plan);
    let promise = promise(pricer, plan);
    if let Some(spot) = &mut plan.spot {
        (spot.pools, spot.promise) = (pools, promise);
    }
}

/// Offers of machines with as many of the same GPU, cheapest first, and the plan's own in any case.
fn pools(context: Context, kept: &[OfferId], plan: &Plan) -> Vec<Pool> {
    let (world, now) = (context.world, context.limits.now);
    let node = &world.hardware.instance(plan.instance).node;
    let alike = |id: &OfferId| {
        let offer = world.market.offer(*id);
        let other = &world.hardware.instance(offer.instance).node;
        offer.purchase == Purchase::Spot
            && offer.owned.is_none()
            && (other.gpu, other.devices()) == (node.gpu, node.devices())
    };
    let mut ids: Vec<OfferId> = kept.iter().copied().filter(alike).collect();
    ids.sort_by_key(|id| (*id != plan.offer, world.market.offer(*id).quote.rate, *id));
    let mut places = Vec::new();
    ids.retain(|id| {
        let offer = world.market.offer(*id);
        let place = (offer.instance, offer.place.clone());
        let is_new = !places.contains(&place);
        places.push(place);
        is_new
    });
    ids.truncate(MOST_POOLS);
    ids.into_iter().map(|id| Pool::new(world, id, plan.nodes, now)).collect()
}

/// Only a plan that falls back promises an end, and only under the conditions that it says.
fn promise(pricer: &Pricer, plan: &Plan) -> Option<Promise> {
    let Context { world, limits, .. } = pricer.context;
    let spot = plan.spot.as_ref()?;
    let (fallback, deadline) = (spot.fallback?, spot.finish_by?);
    let end = limits
        .now
        .and_then(|now| Timestamp::from_second(now.as_second().saturating_add((deadline.0 * 3600.0) as i64)).ok());
    Some(Promise {
        deadline,
        end,
        instance_type: world.hardware.instance(plan.instance).name.clone(),
        outage: Hours(plan.run.worst_changeover.0 - plan.run.changeover.0),
        work_ratio: plan.run.work.high / plan.run.work.expected,
        cost_expected: plan.cost.expected,
        cost_p90: plan.cost.p90,
        cost_ceiling: ceiling(&plan.run, pricer.rate_of_all(fallback, plan.nodes)?)?,
    })
}

/// Against on-demand machines of the same type in the same region, for the same work.
pub fn find_break_even(pricer: &Pricer, forecaster: &mut Forecaster, plan: &mut Plan) {
    let offer = pricer.context.world.market.offer(plan.offer);
    let found = (|| {
        let way = plan.spot.as_ref()?.way();
        let rate = pricer.rate_today(pricer.on_demand_like(offer)?, plan.nodes)?;
        let on_demand = rate.for_hours(1, plan.run.work.expected + plan.run.start())?;
        forecaster.break_even(&spot_job(pricer, plan, way)?, on_demand)
    })();
    if let Some(spot) = &mut plan.spot {
        spot.break_even = found;
    }
}
