//! The price of a service: its hours as a run and a bill; on spot, how many spare machines in how many places keep it up.

use std::sync::Arc;

use crate::candidate::Plan;
use crate::context::Context;
use crate::explanation::Rejection;
use crate::limits::QuotaRoom;
use crate::money::bill::Bill;
use crate::money::billing::{BillInput, FallbackHours, UsedHours, price_basis};
use crate::money::pricer::{PricedOffer, Pricer, is_spot};
use crate::normal::NORMAL_90;
use crate::serving::standby::{Standby, StandbyPlace};
use crate::spot::Pool;
use crate::training::packing::Packing;
use crate::training::run::{RunTime, START, Saving};
use gpuplan_estimate::StepEstimate;
use gpuplan_market::OfferId;
use gpuplan_spot::{InterruptionRate, hardware_failure_rate};
use gpuplan_units::{Band, Bytes, Hours, Quantiles, Usd};
use gpuplan_workload::Load;

/// Correlation of the states of two pools of one type in two zones of a region, as probes of October 2022 had it on average
/// (`spot::availability`). A loss counts as one of all places with this share of its chance, and as one of its place alone else.
const PLACES_CORRELATE: f64 = 0.41;
/// Places of a region that a service is spread over at most: who runs it keeps an eye on each.
const MOST_PLACES: usize = 4;

/// What is assumed of the places of one spread.
struct Spread {
    places: Vec<StandbyPlace>,
    spare: u32,
    short: f64,
    /// Mean hours up and down, of the worst place.
    up: f64,
    down: f64,
}

/// What a service costs on one offer, and what keeps it up there.
struct ServicePrice {
    bill: Bill,
    p90: Usd,
    /// On spot machines.
    standby: Option<Standby>,
}

/// The plan of a service, or the first limit that it breaks. `nodes` carry the load; on spot there are more.
pub fn price_service(
    pricer: &Pricer,
    priced_offer: &PricedOffer,
    nodes: u32,
    step: Arc<StepEstimate>,
    hours: Hours,
) -> Result<Plan, Rejection> {
    let Context { world, .. } = pricer.context;
    let offer = world.market.offer(priced_offer.id);
    let is_split = step.served.is_some_and(|served| served.nodes_each > 1);
    if is_spot(offer) && is_split {
        return Err(Rejection::SplitOverSpot);
    }
    let ServicePrice { bill, p90, standby } = if is_spot(offer) {
        on_spot(pricer, priced_offer.id, nodes, hours)?
    } else {
        let booked = pricer.check_span(offer, nodes, hours.0)?;
        let bill = bill_of(pricer, priced_offer, nodes, &UsedHours::held_or_booked(hours.0, booked))?;
        ServicePrice { p90: bill.total(), bill, standby: None }
    };
    let total_nodes = standby.as_ref().map_or(nodes, |standby| nodes + standby.spare);
    pricer.check_rate(offer, total_nodes, standby.as_ref().map(|standby| standby.fallback))?;
    let expected = bill.total();
    let drifted = |certainty: f64| {
        let ratio = (p90.dollars() / expected.dollars()).max(1.0).ln();
        Usd::from_dollars(expected.dollars() * ratio.hypot(priced_offer.drift.over_expected(certainty).ln()).exp())
    };
    let (p90, most) =
        (drifted(1.0).ok_or(Rejection::Uncountable)?, drifted(pricer.certainty).ok_or(Rejection::Uncountable)?);
    let p90 = p90.max(expected);
    pricer.check_cost(p90, most.max(expected))?;
    pricer.check_ownership(offer, hours.0)?;
    // Of machines that are owned, what they cost whether used or not.
    let full_cost = offer.owned.as_ref().map(|owned| owned.full_rate.for_hours(total_nodes, hours.0));
    let devices = world.hardware.instance(offer.instance).node.devices();
    Ok(Plan {
        offer: priced_offer.id,
        instance: offer.instance,
        nodes: total_nodes,
        run: service_run(hours, step.setting.gpus().max(total_nodes * devices), standby.as_ref()),
        step,
        full_cost: full_cost.map(|cost| cost.ok_or(Rejection::Uncountable)).transpose()?,
        bill,
        cost: Quantiles { expected, p50: expected, p90 },
        chance_by_deadline: None,
        spot: None,
        input_fixes: Vec::new(),
        standby: standby.map(Box::new),
        quota: QuotaRoom::Unknown,
        reasons: Vec::new(),
        advice: Vec::new(),
    })
}

fn bill_of(pricer: &Pricer, priced_offer: &PricedOffer, nodes: u32, used: &UsedHours) -> Result<Bill, Rejection> {
    let offer = pricer.context.world.market.offer(priced_offer.id);
    let input = BillInput {
        offer,
        drift: priced_offer.drift,
        nodes,
        saved: Bytes(0.0),
        requests: 0.0,
        charges: &priced_offer.charges,
        loss_basis: "",
    };
    input.bill(used).ok_or(Rejection::Uncountable)
}

/// The cheapest spread over places of the region that keeps enough replicas up for the required share of time. Where a place has
/// no spot machines, on-demand ones stand in.
fn on_spot(pricer: &Pricer, id: OfferId, nodes: u32, hours: Hours) -> Result<ServicePrice, Rejection> {
    let Context { world, workload, .. } = pricer.context;
    let offer = world.market.offer(id);
    let fallback = pricer.on_demand_like(offer).ok_or(Rejection::NoStandby)?;
    let firm = world.market.offer(fallback);
    let pools = places_like(pricer, id);
    let allowed = 1.0 - workload.serving.map_or(0.0, |serving| serving.availability);
    let mut best: Option<(Bill, Spread)> = None;
    let mut least = f64::INFINITY;
    for places in 1..=pools.len() {
        match spread(pricer, &pools[..places], nodes, allowed) {
            Ok(spread) => {
                let bill = bill_of_spread(pricer, &spread, fallback, hours)?;
                if best.as_ref().is_none_or(|(held, _)| bill.total() < held.total()) {
                    best = Some((bill, spread));
                }
            }
            Err(short) => least = least.min(short),
        }
    }
    let too_few = Rejection::TooFewReplicas { short_share: least, allowed_share: allowed, places: pools.len() };
    let (bill, spread) = best.ok_or(too_few)?;
    let machines = f64::from(nodes + spread.spare);
    // Variance of the share of time up over `T` of an alternating renewal process with exponential spells `u` and `d`:
    // 2 u^2 d^2 / ((u + d)^3 T) (Cox, "Renewal Theory", section 7.4); all places are taken as one.
    let (u, d) = (spread.up, spread.down);
    let deviation = (2.0 * u.powi(2) * d.powi(2) / ((u + d).powi(3) * hours.0)).sqrt();
    let dearer = (firm.quote.rate.dollars() - offer.quote.rate.dollars()).max(0.0);
    let more = Usd::from_dollars(NORMAL_90 * deviation * machines * hours.0 * dearer).ok_or(Rejection::Uncountable)?;
    let p90 = bill.total() + more;
    let standby = Standby {
        places: spread.places,
        spare: spread.spare,
        short: spread.short,
        up: u / (u + d),
        spell: Hours(u),
        fallback,
    };
    Ok(ServicePrice { bill, p90, standby: Some(standby) })
}

/// Spot offers of the same machine in other places of the region, cheapest first, after the given one.
fn places_like(pricer: &Pricer, id: OfferId) -> Vec<OfferId> {
    let market = pricer.context.world.market;
    let mut places: Vec<OfferId> = pricer.spot_places(market.offer(id)).to_vec();
    places.sort_by_key(|other| (*other != id, market.offer(*other).quote.rate, *other));
    places.dedup_by_key(|other| market.offer(*other).place.clone());
    if places.first() != Some(&id) {
        places.insert(0, id);
    }
    places.truncate(MOST_PLACES);
    places
}

/// The fewest spare machines in these places, or the share of time with too few, however many are spare.
fn spread(pricer: &Pricer, places: &[OfferId], needed: u32, allowed: f64) -> Result<Spread, f64> {
    let spell = |id: &OfferId, up| {
        let pool = Pool::new(pricer.context.world, *id, 1, pricer.context.limits.now);
        pricer.model.mean_spell(pool.availability, up).0
    };
    let up = places.iter().map(|id| spell(id, true)).fold(f64::INFINITY, f64::min);
    let down = places.iter().map(|id| spell(id, false)).fold(0.0, f64::max);
    let again = Hours::from(START).0;
    let out = again / (again + up);
    let mut short = 1.0;
    // A place more than carries the load adds nothing.
    for spare in 0..=needed.saturating_mul(places.len() as u32) {
        let counts = evenly(needed + spare, places.len());
        short = too_few(&counts, needed, out);
        if short <= allowed && counts.iter().all(|count| *count > 0) {
            let places =
                places.iter().zip(counts).map(|(offer, nodes)| StandbyPlace { offer: *offer, nodes }).collect();
            return Ok(Spread { places, spare, short, up, down });
        }
    }
    Err(short)
}

fn bill_of_spread(pricer: &Pricer, spread: &Spread, fallback: OfferId, hours: Hours) -> Result<Bill, Rejection> {
    let firm = pricer.context.world.market.offer(fallback);
    let share = spread.up / (spread.up + spread.down);
    let mut lines = Vec::new();
    for place in &spread.places {
        let standing_in = FallbackHours {
            hours: hours.0 * (1.0 - share),
            rate: firm.quote.rate.times(1),
            drift: pricer.drift(firm),
            basis: price_basis(firm),
        };
        let used = UsedHours { working: hours.0 * share, lost: 0.0, fallback: Some(standing_in), elapsed: hours.0 };
        lines.extend(bill_of(pricer, &pricer.offer(place.offer), place.nodes, &used)?.lines);
    }
    Ok(Bill { lines })
}

/// The hours of a service as a run without an end of its own.
fn service_run(hours: Hours, gpus: u32, standby: Option<&Standby>) -> RunTime {
    let band = Band::around(hours.0, 1.0, 1.0);
    let interruptions = match standby {
        Some(standby) => InterruptionRate {
            per_hour: 1.0 / standby.spell.0,
            basis: "mean spell of a place, whose machines go together",
        },
        None => hardware_failure_rate(gpus),
    };
    RunTime {
        steps: 0.0,
        packing: Packing::ALONE,
        booked_wait: 0.0,
        gpus,
        training: band,
        hours: Quantiles { expected: hours.0, p50: hours.0, p90: hours.0 },
        beside_steps: 0.0,
        lost_hours: 0.0,
        saving: Saving {
            bytes: Bytes(0.0),
            interval_seconds: 0.0,
            stall_seconds: 0.0,
            upload_seconds: 0.0,
            requests: 0.0,
            notice: None,
        },
        staging: None,
        interruptions,
        work: band,
        changeover: Hours::from(START),
        worst_changeover: Hours::from(START),
    }
}

/// Machines over places, as even as can be.
fn evenly(machines: u32, places: usize) -> Vec<u32> {
    let places = places as u32;
    (0..places).map(|place| machines / places + u32::from(place < machines % places)).collect()
}

/// Share of time that fewer than `needed` machines run, where each place is without its machines for a share `out` of the time,
/// alone or with all others.
fn too_few(counts: &[u32], needed: u32, out: f64) -> f64 {
    let mut alone = 0.0;
    for lost in 0..1_u32 << counts.len() {
        let is_lost = |place: usize| lost >> place & 1 == 1;
        let left: u32 = counts.iter().enumerate().filter(|(place, _)| !is_lost(*place)).map(|(_, count)| count).sum();
        if left < needed {
            alone += (0..counts.len()).map(|place| if is_lost(place) { out } else { 1.0 - out }).product::<f64>();
        }
    }
    PLACES_CORRELATE * out + (1.0 - PLACES_CORRELATE) * alone
}

/// Hours of a service; `None`: a job, or nothing is served.
pub fn service_hours(load: Option<Load>) -> Option<Hours> {
    match load {
        Some(Load::Steady { hours, .. }) => Some(hours),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_machines_help_only_where_places_are_lost_apart() {
        // One place: all are lost together, however many there are.
        assert!((too_few(&[4], 2, 0.04) - 0.04).abs() < 1e-12);
        // Three places that carry a half each: two of three must be lost, or all at once.
        let two_of_three = 3.0 * 0.04_f64.powi(2) * 0.96 + 0.04_f64.powi(3);
        let expected = PLACES_CORRELATE * 0.04 + (1.0 - PLACES_CORRELATE) * two_of_three;
        assert!((too_few(&[1, 1, 1], 2, 0.04) - expected).abs() < 1e-12);
        assert!(too_few(&[1, 1, 1], 2, 0.04) < too_few(&[1, 1, 0], 2, 0.04));
    }

    #[test]
    fn machines_are_spread_evenly() {
        assert_eq!(evenly(7, 3), [3, 2, 2]);
        assert_eq!(evenly(1, 2), [1, 0]);
    }
}
