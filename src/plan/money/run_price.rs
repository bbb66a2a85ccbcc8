//! The price of a run that ends: its time, its bill and its chance, and the limits on time and money that need them.

use std::sync::Arc;

use crate::candidate::Plan;
use crate::context::Context;
use crate::explanation::Rejection;
use crate::input::staging::Staging;
use crate::limits::{PurchaseChoice, QuotaRoom};
use crate::money::billing::{BillInput, FallbackHours, UsedHours, price_basis};
use crate::money::pricer::{PricedOffer, Pricer, is_spot};
use crate::normal::point;
use crate::spot::{self, Division, Job, Pool, SpotForecast, Way};
use crate::training::packing::Packing;
use crate::training::run::{Notice, RunInput, RunTime};
use gpuplan_estimate::{Machine, StepEstimate};
use gpuplan_market::{Offer, OfferId, Quote};
use gpuplan_spot::forecast::Forecast;
use gpuplan_spot::{hardware_failure_rate, spot_rate};
use gpuplan_units::{Bytes, Hours, Quantiles, Usd, UsdPerHour};

/// A plan, or the first limit that it breaks. On spot its figures are a first guess, until one of its ways is settled.
pub fn price_run(
    pricer: &Pricer,
    priced_offer: &PricedOffer,
    nodes: u32,
    step: Arc<StepEstimate>,
) -> Result<Plan, Rejection> {
    let offer = pricer.context.world.market.offer(priced_offer.id);
    let is_asked = limits_ask_for_spot(pricer);
    if is_spot(offer) && nodes > spot::MOST_UNPROBED && !is_asked {
        return Err(Rejection::UnprobedSpotCount { nodes, most_nodes: spot::MOST_UNPROBED });
    }
    let pool = || Pool::new(pricer.context.world, priced_offer.id, nodes, pricer.context.limits.now);
    let outlook = is_spot(offer).then(|| SpotForecast::new(&pool()));
    let mut run = run_time(pricer, priced_offer, nodes, &step, outlook.as_ref());
    let least = least_hours(&run);
    let booked = pricer.check_span(offer, nodes, run.hours.p90)?;
    let used = match &outlook {
        None if booked.is_some() => UsedHours::held_or_booked(run.hours.expected, booked),
        None => UsedHours::expected(&run),
        Some(outlook) => {
            let guess = outlook.guess(&pricer.model, &run);
            run.hours = Quantiles { expected: guess.finish, p50: guess.finish, p90: guess.finish };
            used_hours(pricer, &run, None, guess)
        }
    };
    let chance = if outlook.is_some() {
        check_least(pricer, least, priced_offer, nodes)?;
        None
    } else {
        check_time(pricer, offer, &run, booked.map_or(0.0, |it| it.wait))?
    };
    pricer.check_rate(offer, nodes, None)?;
    let input = bill_input(priced_offer, offer, nodes, &run);
    let bill = input.bill(&used).ok_or(Rejection::Uncountable)?;
    let expected = bill.total();
    let at_most = |hours: f64, certainty: f64| -> Result<Usd, Rejection> {
        let total = input.total(&UsedHours::held_or_booked(hours, booked)).ok_or(Rejection::Uncountable)?;
        with_drift(expected, total, priced_offer.drift.over_expected(certainty)).ok_or(Rejection::Uncountable)
    };
    let p90 = if outlook.is_some() {
        expected
    } else {
        let p90 = at_most(run.hours.p90, 1.0)?;
        pricer.check_cost(p90, at_most(run.hours_with(pricer.certainty).0, pricer.certainty)?)?;
        p90
    };
    run.begin_after(booked.map_or(0.0, |it| it.wait));
    Ok(Plan {
        full_cost: full_cost(&input, &used)?,
        offer: priced_offer.id,
        instance: offer.instance,
        nodes,
        step,
        run,
        bill,
        cost: Quantiles { expected, p50: expected, p90 },
        chance_by_deadline: chance,
        spot: outlook.map(Box::new),
        input_fixes: Vec::new(),
        standby: None,
        quota: QuotaRoom::Unknown,
        reasons: Vec::new(),
        advice: Vec::new(),
    })
}

/// Of machines that the user has already, what they cost whether used or not.
fn full_cost(input: &BillInput, used: &UsedHours) -> Result<Option<Usd>, Rejection> {
    let Some(owned) = &input.offer.owned else { return Ok(None) };
    let offer = Offer { quote: Quote { rate: owned.full_rate, ..input.offer.quote }, ..input.offer.clone() };
    let total = BillInput { offer: &offer, ..*input }.total(used);
    total.map(Some).ok_or(Rejection::Uncountable)
}

fn limits_ask_for_spot(pricer: &Pricer) -> bool {
    pricer.context.limits.offers.purchase.is_spot()
}

/// A cost whose hours and whose price are uncertain, each by itself: ratios add up as independent log-normal ones.
fn with_drift(expected: Usd, of_hours: Usd, of_price: f64) -> Option<Usd> {
    let hours = (of_hours.dollars() / expected.dollars()).max(1.0).ln();
    let both = hours.hypot(of_price.ln()).exp();
    if both.is_finite() {
        Usd::from_dollars(expected.dollars() * both).map(|most| most.max(expected))
    } else {
        Some(of_hours)
    }
}

/// Ways to use the spot machines of a plan that the user allows, or why there is none.
pub fn ways(pricer: &Pricer, plan: &Plan) -> Result<Vec<Way>, Rejection> {
    let limits = pricer.context.limits;
    let offer = pricer.context.world.market.offer(plan.offer);
    let choice = limits.offers.purchase;
    let until = fallback_ways(pricer, offer, plan);
    match choice {
        PurchaseChoice::Spot => Ok(vec![Way::Alone]),
        PurchaseChoice::SpotWithFallback => until,
        _ => Ok(std::iter::once(Way::Alone).chain(until.unwrap_or_default()).collect()),
    }
}

fn fallback_ways(pricer: &Pricer, offer: &Offer, plan: &Plan) -> Result<Vec<Way>, Rejection> {
    let Context { world, limits, .. } = pricer.context;
    let fallback = pricer.on_demand_like(offer).ok_or(Rejection::NoFallback)?;
    let run = &plan.run;
    if limits.offers.purchase != PurchaseChoice::SpotWithFallback {
        // Falling back must be worth its trouble, unless the user asks for it.
        if run.work.expected < spot::LEAST_STARTS * run.changeover.0 {
            return Err(Rejection::TooShortForSpot {
                work_hours: Hours(run.work.expected),
                start_hours: run.changeover,
            });
        }
        let rates = pricer.rate_today(fallback, plan.nodes).zip(pricer.rate_today(plan.offer, plan.nodes));
        let is_worth_it = rates.is_some_and(|(firm, spot)| firm.dollars() >= spot::LEAST_RATIO * spot.dollars());
        if !is_worth_it {
            return Err(Rejection::SpotSavesLittle);
        }
    }
    pricer.check_rate(world.market.offer(plan.offer), plan.nodes, Some(fallback))?;
    // The ends that are tried depend on the run alone, so that a longer deadline only adds some.
    let usual = Hours(run.work.high + run.changeover.0);
    let needed = Hours(point(run.work, pricer.certainty) + run.changeover.0);
    let is_kept = |end: &Hours| *end >= needed && limits.deadline.is_none_or(|deadline| *end <= deadline);
    let ways: Vec<Way> = spot::ends(usual).filter(is_kept).map(|end| Way::Until { fallback, end }).collect();
    match (ways.is_empty(), limits.deadline) {
        (true, Some(deadline)) => Err(Rejection::Deadline {
            needed_hours: spot::ends(usual).find(|end| *end >= needed).unwrap_or(needed),
            deadline_hours: deadline,
            confidence: limits.confidence,
        }),
        (true, None) => Err(Rejection::NoForecast { detail: "a run of more than half a year".to_owned() }),
        (false, _) => Ok(ways),
    }
}

/// The plan in one way, as its forecast has it, or the limit that it breaks after all.
pub fn settle(pricer: &Pricer, plan: &Plan, way: Way, forecast: Forecast) -> Result<Plan, Rejection> {
    let Context { world, limits, .. } = pricer.context;
    let mut plan = plan.clone();
    let offer = world.market.offer(plan.offer);
    let outlook = plan.spot.as_ref().ok_or(Rejection::NotSold)?.used(way);
    let (finish, cost, confidence) = (forecast.finish_hours, forecast.cost_usd.clone(), limits.confidence);
    plan.run.hours = finish;
    if let Some(deadline) = limits.deadline {
        let in_time = forecast.finishes.iter().filter(|finish| **finish <= deadline.0 + 1e-6).count();
        let chance = in_time as f64 / forecast.finishes.len().max(1) as f64;
        let chance = if way == Way::Alone { chance.min(spot::MOST_CERTAIN) } else { chance };
        if chance < confidence {
            let needed = Hours(spot::percentile(&forecast.finishes, confidence));
            return Err(Rejection::Deadline { needed_hours: needed, deadline_hours: deadline, confidence });
        }
        plan.chance_by_deadline = Some(chance);
    }
    let division = Division { spot: forecast.spot_hours, on_demand: forecast.on_demand_hours, finish: finish.expected };
    let used = used_hours(pricer, &plan.run, outlook.fallback, division);
    plan.run.lost_hours = used.lost;
    let priced_offer = pricer.offer(plan.offer);
    let input = bill_input(&priced_offer, offer, plan.nodes, &plan.run);
    let with_sides = |machines: Usd, hours: f64| -> Result<Usd, Rejection> {
        let sides = input.side_costs(hours).ok_or(Rejection::Uncountable)?;
        Ok(machines + sides)
    };
    let bill = input.bill(&used).ok_or(Rejection::Uncountable)?;
    let expected = bill.total();
    let p50 = with_sides(cost.p50, finish.p50)?;
    let at_most = |machines: Usd, certainty: f64| {
        let most = with_sides(machines, finish.p90)?;
        with_drift(expected, most, priced_offer.drift.over_expected(certainty)).ok_or(Rejection::Uncountable)
    };
    let p90 = at_most(cost.p90, 1.0)?;
    let most = at_most(spot::percentile(&forecast.costs, confidence), pricer.certainty)?;
    pricer.check_cost(p90, most)?;
    plan.bill = bill;
    plan.cost = Quantiles { expected, p50, p90 };
    plan.spot = Some(Box::new(SpotForecast { forecast: Some(forecast), ..outlook }));
    Ok(plan)
}

/// The plan in one way, as a policy sees it; `None` where it is not on spot or its rates are beyond counting.
pub fn spot_job<'p>(pricer: &Pricer, plan: &'p Plan, way: Way) -> Option<Job<'p>> {
    let outlook = plan.spot.as_ref()?;
    let rate = |id: OfferId| pricer.rate_today(id, plan.nodes);
    let (on_demand, deadline) = match way {
        Way::Alone => (None, None),
        Way::Until { fallback, end } => (Some(rate(fallback)?), Some(end)),
    };
    let SpotForecast { availability, last_seen, .. } = **outlook;
    Some(Job { run: &plan.run, availability, last_seen, spot: rate(plan.offer)?, on_demand, deadline })
}

/// What no forecast of a plan on spot undercuts: its work and one start, at the price of today.
#[derive(Clone, Copy, Debug)]
pub struct Least {
    pub cost: Usd,
    pub hours: f64,
}

/// Part of the expected work that the mean of the draws of a forecast never goes below: they are spread evenly over the band of the work.
const SURE_WORK: f64 = 0.93;

fn least_hours(run: &RunTime) -> f64 {
    run.start() + SURE_WORK * run.work.expected
}

/// Of a plan on spot at this rate of all machines, whatever its way. `None` where it is beyond counting.
pub fn least(rate: UsdPerHour, plan: &Plan) -> Option<Least> {
    let hours = least_hours(&plan.run);
    Some(Least { cost: rate.for_hours(1, hours)?, hours })
}

/// No way to use these spot machines could keep the limits.
fn check_least(pricer: &Pricer, hours: f64, offer: &PricedOffer, nodes: u32) -> Result<(), Rejection> {
    let limits = pricer.context.limits;
    if let Some(deadline) = limits.deadline.filter(|deadline| hours > deadline.0) {
        return Err(Rejection::GuessedLate { expected_hours: Hours(hours), deadline_hours: deadline });
    }
    let Some(budget) = limits.budget else { return Ok(()) };
    let rate = pricer.rate_of(offer, nodes).ok_or(Rejection::Uncountable)?;
    let cost = rate.for_hours(1, hours).ok_or(Rejection::Uncountable)?;
    if cost > budget { Err(Rejection::GuessedOverBudget { expected_usd: cost, budget_usd: budget }) } else { Ok(()) }
}

fn run_time(
    pricer: &Pricer,
    priced_offer: &PricedOffer,
    nodes: u32,
    step: &StepEstimate,
    outlook: Option<&SpotForecast>,
) -> RunTime {
    let Context { world, workload, .. } = pricer.context;
    let offer = world.market.offer(priced_offer.id);
    let instance = world.hardware.instance(offer.instance);
    let machine = Machine::new(world.hardware.gpu(instance.node.gpu), &instance.node);
    let packing = Packing::new(workload.sweep.as_ref(), instance.node.devices());
    let in_use = workload.sweep.map_or(step.setting.gpus(), |sweep| sweep.devices_of(packing.side_by_side - 1).end);
    let gpus = in_use.max(step.setting.gpus());
    let interruptions = match outlook {
        Some(outlook) => spot_rate(&pricer.model, outlook.availability, outlook.basis, gpus),
        None => hardware_failure_rate(gpus),
    };
    let input = RunInput {
        workload,
        step,
        instance,
        machine: &machine,
        nodes,
        packing,
        gpus,
        staging: Staging::new(instance, workload.data.as_ref()),
        interruptions,
        notice_seconds: outlook.and_then(|_| Notice::seconds(instance.cloud.as_str())),
        hourly_rate: pricer.rate_of(priced_offer, nodes),
    };
    input.time()
}

/// Hours of the bill: on spot, what exceeds the start and undisturbed training was lost.
fn used_hours(pricer: &Pricer, run: &RunTime, fallback: Option<OfferId>, hours: Division) -> UsedHours {
    let undisturbed = run.start() + run.training.expected;
    let lost = (hours.spot + hours.on_demand - undisturbed).clamp(0.0, hours.spot);
    let fallback = fallback.map(|id| pricer.context.world.market.offer(id));
    let fallback = fallback.map(|offer| FallbackHours {
        hours: hours.on_demand,
        rate: offer.quote.rate.times(1),
        drift: pricer.drift(offer),
        basis: price_basis(offer),
    });
    UsedHours { working: hours.spot - lost, lost, fallback, elapsed: hours.finish }
}

fn bill_input<'b>(priced_offer: &'b PricedOffer, offer: &'b Offer, nodes: u32, run: &RunTime) -> BillInput<'b> {
    BillInput {
        offer,
        drift: priced_offer.drift,
        nodes,
        // What every run of a sweep saved stays until somebody deletes it.
        saved: Bytes(run.saving.bytes.0 * f64::from(run.packing.runs)),
        requests: run.saving.requests,
        charges: &priced_offer.charges,
        loss_basis: run.interruptions.basis,
    }
}

/// The run must meet the deadline with the confidence that the user wants, `wait` hours until its machines are there included. Machines
/// that the user owns may be available only until some day.
fn check_time(pricer: &Pricer, offer: &Offer, run: &RunTime, wait: f64) -> Result<Option<f64>, Rejection> {
    let limits = pricer.context.limits;
    let needed = Hours(wait + run.hours_with(pricer.certainty).0);
    if let Some(deadline) = limits.deadline.filter(|deadline| needed > *deadline) {
        let confidence = limits.confidence;
        return Err(Rejection::Deadline { needed_hours: needed, deadline_hours: deadline, confidence });
    }
    pricer.check_ownership(offer, run.hours.p90)?;
    Ok(limits.deadline.map(|deadline| run.chance_by(Hours(deadline.0 - wait))))
}
