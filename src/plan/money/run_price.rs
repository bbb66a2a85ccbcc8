//! The price of a run that ends: its time, its bill and its chance, and the limits on time and money that need them.

use std::sync::Arc;

use crate::candidate::Plan;
use crate::context::Context;
use crate::explanation::Rejection;
use crate::input::staging::Staging;
use crate::limits::PurchaseChoice;
use crate::money::billing::{BillInput, FallbackHours, UsedHours, price_basis};
use crate::money::pricer::{PricedOffer, Pricer, is_spot};
use crate::normal::point;
use crate::spot::{self, Division, Job, Pool, SpotForecast};
use crate::training::packing::Packing;
use crate::training::run::{Notice, RunInput, RunTime};
use gpuplan_estimate::{Machine, StepEstimate};
use gpuplan_market::{Offer, OfferId, Quote};
use gpuplan_spot::forecast::Forecast;
use gpuplan_spot::{hardware_failure_rate, spot_rate};
use gpuplan_units::{Bytes, Hours, Quantiles, Usd};

/// A plan, or the first limit that it breaks. On spot its figures are a first guess, until `settle`.
pub fn price_run(
    pricer: &Pricer,
    priced_offer: &PricedOffer,
    nodes: u32,
    step: Arc<StepEstimate>,
) -> Result<Plan, Rejection> {
    let Context { world, limits, .. } = pricer.context;
    let offer = world.market.offer(priced_offer.id);
    let outlook = outlook(pricer, priced_offer.id, offer)?;
    let mut run = run_time(pricer, offer, nodes, &step, outlook.as_ref());
    let used = match &outlook {
        None => UsedHours::expected(&run),
        Some(outlook) => {
            let guess = outlook.guess(&pricer.model, &run, limits.deadline);
            run.hours = Quantiles { expected: guess.finish, p50: guess.finish, p90: guess.finish };
            used_hours(pricer, &run, outlook.fallback, guess)
        }
    };
    check_fallback(pricer, offer, &run, outlook.as_ref())?;
    let chance = check_time(pricer, offer, &run, outlook.as_ref())?;
    pricer.check_rate(offer, nodes, outlook.as_ref().and_then(|outlook| outlook.fallback))?;
    let input = bill_input(priced_offer, offer, nodes, &run);
    let bill = input.bill(&used).ok_or(Rejection::Uncountable)?;
    let expected = bill.total();
    let total_for = |hours: f64| -> Result<Usd, Rejection> {
        let bill = input.bill(&UsedHours::held(hours, 0.0)).ok_or(Rejection::Uncountable)?;
        Ok(bill.total().max(expected))
    };
    let p90 = match (&outlook, limits.budget) {
        (Some(_), Some(budget)) if expected > budget => {
            return Err(Rejection::GuessedOverBudget { expected_usd: expected, budget_usd: budget });
        }
        (Some(_), _) => expected,
        (None, _) => {
            let p90 = total_for(run.hours.p90)?;
            pricer.check_cost(p90, total_for(run.hours_with(pricer.certainty).0)?)?;
            p90
        }
    };
    let full = offer
        .owned
        .as_ref()
        .map(|owned| Offer { quote: Quote { rate: owned.full_rate, ..offer.quote }, ..offer.clone() });
    let full_bill =
        full.map(|offer| BillInput { offer: &offer, ..input }.bill(&used).ok_or(Rejection::Uncountable)).transpose()?;
    Ok(Plan {
        full_cost: full_bill.map(|bill| bill.total()),
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
        reasons: Vec::new(),
        advice: Vec::new(),
    })
}

/// The plan as its forecast has it, or the limit that it breaks after all.
pub fn settle(pricer: &Pricer, plan: &Plan, forecast: Forecast) -> Result<Plan, Rejection> {
    let Context { world, limits, .. } = pricer.context;
    let mut plan = plan.clone();
    let offer = world.market.offer(plan.offer);
    let (finish, cost, confidence) = (forecast.finish_hours, forecast.cost_usd.clone(), limits.confidence);
    plan.run.hours = finish;
    if let Some(deadline) = limits.deadline {
        if forecast.chance_by_deadline < confidence {
            let needed = Hours(spot::percentile(&forecast.finishes, confidence));
            return Err(Rejection::Deadline { needed_hours: needed, deadline_hours: deadline, confidence });
        }
        plan.chance_by_deadline = Some(forecast.chance_by_deadline);
    }
    let division = Division { spot: forecast.spot_hours, on_demand: forecast.on_demand_hours, finish: finish.expected };
    let used = used_hours(pricer, &plan.run, plan.spot.as_ref().and_then(|spot| spot.fallback), division);
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
    let p90 = with_sides(cost.p90, finish.p90)?.max(expected);
    let most = with_sides(spot::percentile(&forecast.costs, confidence), finish.p90)?;
    pricer.check_cost(p90, most)?;
    plan.bill = bill;
    plan.cost = Quantiles { expected, p50, p90 };
    if let Some(spot) = &mut plan.spot {
        spot.forecast = Some(forecast);
    }
    Ok(plan)
}

/// The plan as a policy sees it; `None` where it is not on spot or its rates are beyond counting.
pub fn spot_job<'p>(pricer: &Pricer, plan: &'p Plan) -> Option<Job<'p>> {
    let outlook = plan.spot.as_ref()?;
    let rate = |id: OfferId| pricer.rate_of_all(id, plan.nodes);
    let on_demand = match outlook.fallback {
        Some(id) => Some(rate(id)?),
        None => None,
    };
    Some(Job {
        run: &plan.run,
        availability: outlook.availability,
        spot: rate(plan.offer)?,
        on_demand,
        deadline: pricer.context.limits.deadline,
    })
}

/// `None`: not on spot. A deadline is kept by falling back to on-demand, unless the user wants spot alone.
fn outlook(pricer: &Pricer, id: OfferId, offer: &Offer) -> Result<Option<SpotForecast>, Rejection> {
    if !is_spot(offer) {
        return Ok(None);
    }
    let fallback = match (pricer.context.limits.offers.purchase, pricer.context.limits.deadline) {
        (PurchaseChoice::SpotWithFallback, None) => return Err(Rejection::NoDeadline),
        (PurchaseChoice::Spot, _) | (_, None) => None,
        _ => Some(pricer.on_demand_like(offer).ok_or(Rejection::NoFallback)?),
    };
    Ok(Some(SpotForecast::new(&Pool::new(id, offer), fallback)))
}

fn run_time(
    pricer: &Pricer,
    offer: &Offer,
    nodes: u32,
    step: &StepEstimate,
    outlook: Option<&SpotForecast>,
) -> RunTime {
    let Context { world, workload, .. } = pricer.context;
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
        basis: price_basis(offer),
    });
    UsedHours { working: hours.spot - lost, lost, fallback, elapsed: hours.finish }
}

fn bill_input<'b>(priced_offer: &'b PricedOffer, offer: &'b Offer, nodes: u32, run: &RunTime) -> BillInput<'b> {
    BillInput {
        offer,
        nodes,
        // What every run of a sweep saved stays until somebody deletes it.
        saved: Bytes(run.saving.bytes.0 * f64::from(run.packing.runs)),
        charges: &priced_offer.charges,
        loss_basis: run.interruptions.basis,
    }
}

/// Falling back must be worth its trouble, unless the user asks for it.
fn check_fallback(
    pricer: &Pricer,
    offer: &Offer,
    run: &RunTime,
    outlook: Option<&SpotForecast>,
) -> Result<(), Rejection> {
    let Context { world, limits, .. } = pricer.context;
    let fallback = outlook
        .and_then(|outlook| outlook.fallback)
        .filter(|_| limits.offers.purchase != PurchaseChoice::SpotWithFallback);
    let Some(fallback) = fallback.map(|id| world.market.offer(id)) else { return Ok(()) };
    if run.work.expected < spot::LEAST_STARTS * run.changeover.0 {
        return Err(Rejection::TooShortForSpot { work_hours: Hours(run.work.expected), start_hours: run.changeover });
    }
    let is_worth_it = fallback.quote.rate.dollars() >= spot::LEAST_RATIO * offer.quote.rate.dollars();
    if is_worth_it { Ok(()) } else { Err(Rejection::SpotSavesLittle) }
}

/// The run must meet the deadline with the confidence that the user wants; a plan on spot is judged by its forecast. Machines that
/// the user owns may be available only until some day.
fn check_time(
    pricer: &Pricer,
    offer: &Offer,
    run: &RunTime,
    outlook: Option<&SpotForecast>,
) -> Result<Option<f64>, Rejection> {
    let limits = pricer.context.limits;
    let needed = match outlook {
        // On-demand alone must be able to do it.
        Some(SpotForecast { fallback: Some(_), .. }) => Hours(point(run.work, pricer.certainty) + run.changeover.0),
        Some(_) => Hours(0.0),
        None => run.hours_with(pricer.certainty),
    };
    let guess = Hours(run.hours.expected);
    if let Some(deadline) = limits.deadline.filter(|deadline| outlook.is_some() && guess > *deadline) {
        return Err(Rejection::GuessedLate { expected_hours: guess, deadline_hours: deadline });
    }
    if let Some(deadline) = limits.deadline.filter(|deadline| needed > *deadline) {
        let confidence = limits.confidence;
        return Err(Rejection::Deadline { needed_hours: needed, deadline_hours: deadline, confidence });
    }
    pricer.check_ownership(offer, run.hours.p90)?;
    Ok(limits.deadline.filter(|_| outlook.is_none()).map(|deadline| run.chance_by(deadline)))
}
