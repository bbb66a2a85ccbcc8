//! One candidate's run time, bill and chance, and the limits on time and money that need them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bill::{BillInput, PlaceCharges, Used};
use crate::candidate::Plan;
use crate::choose::World;
use crate::filters::{Why, refuse_offer};
use crate::limits::{Limits, PurchaseChoice};
use crate::loading::reads_from_afar;
use crate::packing::Packing;
use crate::run::{Notice, RunInput, RunTime, deviations, point};
use crate::service;
use crate::spot::{self, Division, Job, Outlook, Pool};
use crate::staging::Staging;
use gpuplan_estimate::{Machine, Misfit, StepEstimate};
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Offer, OfferId, Purchase, Quote};
use gpuplan_spot::forecast::Forecast;
use gpuplan_spot::{AvailabilityModel, hardware_failure_rate, spot_rate};
use gpuplan_units::{Bytes, Hours, Quantiles, Usd, UsdPerHour};
use gpuplan_workload::Workload;

pub struct Pricer<'a> {
    pub world: World<'a>,
    pub workload: &'a Workload,
    pub limits: &'a Limits,
    pub model: AvailabilityModel,
    /// The cheapest on-demand offer of a machine in a region that keeps every limit.
    fallbacks: HashMap<(InstanceId, Arc<str>), OfferId>,
    /// For a service: every spot offer of a machine in a region that keeps every limit.
    places: HashMap<(InstanceId, Arc<str>), Vec<OfferId>>,
    /// The asked confidence, in 90th percentiles.
    certainty: f64,
}

/// What all counts of one offer share.
pub struct Counter {
    pub id: OfferId,
    charges: PlaceCharges,
    rate_basis: Arc<str>,
}

impl Counter {
    pub(super) fn charges(&self) -> &PlaceCharges {
        &self.charges
    }

    pub(super) fn rate_basis(&self) -> &Arc<str> {
        &self.rate_basis
    }
}

impl<'a> Pricer<'a> {
    pub fn new(world: World<'a>, workload: &'a Workload, limits: &'a Limits) -> Self {
        let mut fallbacks: HashMap<(InstanceId, Arc<str>), OfferId> = HashMap::new();
        // On-demand is sold by region: who names a zone for spot may fall back to its region.
        let named = |zone: &&Offer| {
            zone.place.zone_id.as_deref().is_some_and(|id| limits.regions.iter().any(|name| name == id))
        };
        let of_zones = world.market.offers().iter().filter(named).map(|offer| offer.place.region.to_string());
        let mut regions: Vec<String> = limits.regions.iter().cloned().chain(of_zones).collect();
        regions.sort();
        regions.dedup();
        let firm = Limits { purchase: PurchaseChoice::OnDemand, regions, ..limits.clone() };
        for id in world.market.offer_ids() {
            let offer = world.market.offer(id);
            let is_firm = offer.purchase == Purchase::OnDemand && offer.owned.is_none();
            if !is_firm || refuse_offer(offer, world.hardware.instance(offer.instance), world.hardware, &firm).is_some()
            {
                continue;
            }
            let cheapest = fallbacks.entry((offer.instance, offer.place.region.clone())).or_insert(id);
            if offer.quote.rate < world.market.offer(*cheapest).quote.rate {
                *cheapest = id;
            }
        }
        let certainty = deviations(limits.confidence);
        let places = if workload.is_service() { places(world, limits) } else { HashMap::new() };
        Self { world, workload, limits, model: AvailabilityModel::prior(), fallbacks, places, certainty }
    }

    pub fn counter(&self, id: OfferId) -> Counter {
        let offer = self.world.market.offer(id);
        let instance = self.world.hardware.instance(offer.instance);
        let charges = PlaceCharges::new(
            &self.world.market.charges,
            offer,
            instance,
            self.workload.data.as_ref(),
            reads_from_afar(self.workload),
        );
        Counter { id, charges, rate_basis: basis(offer) }
    }

    /// For a service: spot offers of the same machine in the same region.
    pub(super) fn spot_places(&self, offer: &Offer) -> &[OfferId] {
        self.places.get(&(offer.instance, offer.place.region.clone())).map_or(&[], Vec::as_slice)
    }

    /// On-demand machines of the same type in the same region.
    pub fn on_demand_beside(&self, offer: &Offer) -> Option<OfferId> {
        self.fallbacks.get(&(offer.instance, offer.place.region.clone())).copied()
    }

    /// `None`: not on spot. A deadline is kept by falling back, unless spot alone was asked for.
    fn outlook(&self, id: OfferId, offer: &Offer) -> Result<Option<Outlook>, Why> {
        if offer.purchase != Purchase::Spot || offer.owned.is_some() {
            return Ok(None);
        }
        let fallback = match (self.limits.purchase, self.limits.deadline) {
            (PurchaseChoice::SpotWithFallback, None) => return Err(Why::NoDeadline),
            (PurchaseChoice::Spot, _) | (_, None) => None,
            _ => Some(self.on_demand_beside(offer).ok_or(Why::NoPromise)?),
        };
        Ok(Some(Outlook::new(&Pool::new(id, offer), fallback)))
    }

    /// A plan, or the first limit that it breaks. Of plans on spot the figures are a first guess, until `settle`.
    pub fn price(&self, counter: &Counter, nodes: u32, step: Arc<StepEstimate>) -> Result<Plan, Why> {
        if let Some(hours) = service::hours_of(self.workload.serving.map(|serving| serving.load)) {
            return self.price_service(counter, nodes, step, hours);
        }
        let offer = self.world.market.offer(counter.id);
        let outlook = self.outlook(counter.id, offer)?;
        let mut run = self.run_time(offer, nodes, &step, outlook.as_ref());
        let used = match &outlook {
            None => Used::expected(&run),
            Some(outlook) => {
                let guess = outlook.guess(&self.model, &run, self.limits.deadline);
                run.hours = Quantiles { expected: guess.finish, p50: guess.finish, p90: guess.finish };
                self.used(&run, outlook.fallback, guess)
            }
        };
        self.check_use(offer, &run, outlook.as_ref())?;
        let chance = self.check_time(offer, &run, outlook.as_ref())?;
        self.check_rate(offer, nodes, outlook.as_ref())?;
        let input = bill_input(counter, offer, nodes, &run);
        let bill = input.bill(&used).ok_or_else(beyond_counting)?;
        let expected = bill.total();
        let total_for = |hours: f64| input.bill(&Used::held(hours, 0.0)).map(|bill| bill.total().max(expected));
        let p90 = match (&outlook, self.limits.budget) {
            (Some(_), Some(budget)) if expected > budget => return Err(Why::GuessedDear { expected, budget }),
            (Some(_), _) => expected,
            (None, _) => {
                let p90 = total_for(run.hours.p90).ok_or_else(beyond_counting)?;
                self.check_cost(p90, total_for(run.hours_with(self.certainty).0).ok_or_else(beyond_counting)?)?;
                p90
            }
        };
        let full = offer
            .owned
            .as_ref()
            .map(|owned| Offer { quote: Quote { rate: owned.full_rate, ..offer.quote }, ..offer.clone() });
        let full_bill = full
            .map(|offer| BillInput { offer: &offer, ..input }.bill(&used).ok_or_else(beyond_counting))
            .transpose()?;
        Ok(Plan {
            full_cost: full_bill.map(|bill| bill.total()),
            offer: counter.id,
            instance: offer.instance,
            nodes,
            step,
            run,
            bill,
            cost: Quantiles { expected, p50: expected, p90 },
            chance_by_deadline: chance,
            spot: outlook.map(Box::new),
            cures: Vec::new(),
            standby: None,
            because: Vec::new(),
            advice: Vec::new(),
        })
    }

    /// The plan as its forecast has it, or the limit that it breaks after all.
    pub fn settle(&self, plan: &Plan, forecast: Forecast) -> Result<Plan, Why> {
        let mut plan = plan.clone();
        let offer = self.world.market.offer(plan.offer);
        let (finish, cost, confidence) = (forecast.finish_hours, forecast.cost_usd.clone(), self.limits.confidence);
        plan.run.hours = finish;
        if let Some(deadline) = self.limits.deadline {
            if forecast.chance_by_deadline < confidence {
                let needed = Hours(spot::at(&forecast.finishes, confidence));
                return Err(Why::Deadline { needed, deadline, confidence });
            }
            plan.chance_by_deadline = Some(forecast.chance_by_deadline);
        }
        let division =
            Division { spot: forecast.spot_hours, on_demand: forecast.on_demand_hours, finish: finish.expected };
        let used = self.used(&plan.run, plan.spot.as_ref().and_then(|spot| spot.fallback), division);
        plan.run.lost_hours = used.lost;
        let counter = self.counter(plan.offer);
        let input = bill_input(&counter, offer, plan.nodes, &plan.run);
        let with_sides = |machines: Usd, hours: f64| input.beside_machines(hours).map(|sides| machines + sides);
        let bill = input.bill(&used).ok_or_else(beyond_counting)?;
        let expected = bill.total();
        let p50 = with_sides(cost.p50, finish.p50).ok_or_else(beyond_counting)?;
        let p90 = with_sides(cost.p90, finish.p90).ok_or_else(beyond_counting)?.max(expected);
        let most = with_sides(spot::at(&forecast.costs, confidence), finish.p90).ok_or_else(beyond_counting)?;
        self.check_cost(p90, most)?;
        plan.bill = bill;
        plan.cost = Quantiles { expected, p50, p90 };
        if let Some(spot) = &mut plan.spot {
            spot.forecast = Some(forecast);
        }
        Ok(plan)
    }

    /// The plan as a policy sees it; `None` where it is not on spot or its rates are beyond counting.
    pub fn job<'p>(&self, plan: &'p Plan) -> Option<Job<'p>> {
        let outlook = plan.spot.as_ref()?;
        let rate = |id: OfferId| self.rate_of_all(id, plan.nodes);
        let on_demand = match outlook.fallback {
            Some(id) => Some(rate(id)?),
            None => None,
        };
        Some(Job {
            run: &plan.run,
            availability: outlook.availability,
            spot: rate(plan.offer)?,
            on_demand,
            deadline: self.limits.deadline,
        })
    }

    /// Of all machines together.
    pub fn rate_of_all(&self, id: OfferId, nodes: u32) -> Option<UsdPerHour> {
        self.world.market.offer(id).quote.rate.nanos().checked_mul(i64::from(nodes)).map(UsdPerHour::from_nanos)
    }

    fn run_time(&self, offer: &Offer, nodes: u32, step: &StepEstimate, outlook: Option<&Outlook>) -> RunTime {
        let instance = self.world.hardware.instance(offer.instance);
        let machine = Machine::new(self.world.hardware.gpu(instance.node.gpu), &instance.node);
        let packing = Packing::new(self.workload.sweep.as_ref(), instance.node.devices());
        let in_use =
            self.workload.sweep.map_or(step.setting.gpus(), |sweep| sweep.devices_of(packing.side_by_side - 1).end);
        let gpus = in_use.max(step.setting.gpus());
        let interruptions = match outlook {
            Some(outlook) => spot_rate(&self.model, outlook.availability, outlook.basis, gpus),
            None => hardware_failure_rate(gpus),
        };
        let input = RunInput {
            workload: self.workload,
            step,
            machine: &machine,
            nodes,
            packing,
            gpus,
            host_network_gbit_per_s: instance.host_network_gbit_per_s,
            staging: Staging::of(instance, self.workload.data.as_ref()),
            interruptions,
            notice_seconds: outlook.and_then(|_| Notice::seconds(instance.cloud.as_str())),
        };
        input.time()
    }

    /// Hours of the bill: on spot, what exceeds the start and undisturbed training was lost.
    fn used(&self, run: &RunTime, fallback: Option<OfferId>, hours: Division) -> Used {
        let undisturbed = run.start() + run.training.expected;
        let lost = (hours.spot + hours.on_demand - undisturbed).clamp(0.0, hours.spot);
        let fallback = fallback.map(|id| self.world.market.offer(id));
        let fallback = fallback.map(|offer| (hours.on_demand, offer.quote.rate.times(1), basis(offer)));
        Used { working: hours.spot - lost, lost, fallback, elapsed: hours.finish }
    }

    /// Falling back is worth its trouble, unless it was asked for.
    fn check_use(&self, offer: &Offer, run: &RunTime, outlook: Option<&Outlook>) -> Result<(), Why> {
        let fallback = outlook
            .and_then(|outlook| outlook.fallback)
            .filter(|_| self.limits.purchase != PurchaseChoice::SpotWithFallback);
        let Some(fallback) = fallback.map(|id| self.world.market.offer(id)) else { return Ok(()) };
        if run.work.expected < spot::LEAST_STARTS * run.changeover.0 {
            return Err(Why::TooShortForSpot { work: Hours(run.work.expected), start: run.changeover });
        }
        let is_worth_it = fallback.quote.rate.dollars() >= spot::LEAST_RATIO * offer.quote.rate.dollars();
        if is_worth_it { Ok(()) } else { Err(Why::SpotSavesLittle) }
    }

    /// The deadline must be kept with the asked confidence; a plan on spot is judged by its forecast. Own machines have an end.
    fn check_time(&self, offer: &Offer, run: &RunTime, outlook: Option<&Outlook>) -> Result<Option<f64>, Why> {
        let needed = match outlook {
            // On-demand alone must be able to do it.
            Some(Outlook { fallback: Some(_), .. }) => Hours(point(run.work, self.certainty) + run.changeover.0),
            Some(_) => Hours(0.0),
            None => run.hours_with(self.certainty),
        };
        let guess = Hours(run.hours.expected);
        if let Some(deadline) = self.limits.deadline.filter(|deadline| outlook.is_some() && guess > *deadline) {
            return Err(Why::GuessedLate { expected: guess, deadline });
        }
        if let Some(deadline) = self.limits.deadline.filter(|deadline| needed > *deadline) {
            return Err(Why::Deadline { needed, deadline, confidence: self.limits.confidence });
        }
        let ends_with = offer.owned.as_ref().and_then(|owned| owned.until).zip(self.limits.now);
        if let Some((until, _)) =
            ends_with.filter(|(until, now)| until.duration_since(*now).as_secs_f64() < run.hours.p90 * 3600.0)
        {
            return Err(Why::OwnedUntil { until });
        }
        Ok(self.limits.deadline.filter(|_| outlook.is_none()).map(|deadline| run.chance_by(deadline)))
    }

    /// The dearest machines that may run.
    pub(super) fn check_rate(&self, offer: &Offer, nodes: u32, outlook: Option<&Outlook>) -> Result<(), Why> {
        let fallback = outlook.and_then(|outlook| outlook.fallback).map(|id| self.world.market.offer(id));
        let rate = fallback.map_or(offer.quote.rate, |fallback| fallback.quote.rate.max(offer.quote.rate)).times(nodes);
        if let Some(broken) = self.limits.policy.as_ref().and_then(|policy| policy.breaks_rate(rate)) {
            return Err(Why::PolicyCost(broken));
        }
        match self.limits.max_price_per_hour.filter(|limit| rate > *limit) {
            Some(limit) => Err(Why::MaxPrice { rate, limit }),
            None => Ok(()),
        }
    }

    /// `most`: what it costs with the asked confidence.
    pub(super) fn check_cost(&self, p90: Usd, most: Usd) -> Result<(), Why> {
        if let Some(budget) = self.limits.budget.filter(|budget| most > *budget) {
            return Err(Why::Budget { most, budget, confidence: self.limits.confidence });
        }
        match self.limits.policy.as_ref().and_then(|policy| policy.breaks_cost(p90)) {
            Some(broken) => Err(Why::PolicyCost(broken)),
            None => Ok(()),
        }
    }
}

/// Spot offers that keep every limit, by machine and region.
fn places(world: World, limits: &Limits) -> HashMap<(InstanceId, Arc<str>), Vec<OfferId>> {
    let mut places: HashMap<(InstanceId, Arc<str>), Vec<OfferId>> = HashMap::new();
    for id in world.market.offer_ids() {
        let offer = world.market.offer(id);
        let keeps = || refuse_offer(offer, world.hardware.instance(offer.instance), world.hardware, limits).is_none();
        if service::is_place(offer) && keeps() {
            places.entry((offer.instance, offer.place.region.clone())).or_default().push(id);
        }
    }
    places
}

fn bill_input<'b>(counter: &'b Counter, offer: &'b Offer, nodes: u32, run: &RunTime) -> BillInput<'b> {
    BillInput {
        offer,
        nodes,
        // What every run of a sweep saved stays until somebody deletes it.
        saved: Bytes(run.saving.bytes.0 * f64::from(run.packing.runs)),
        charges: &counter.charges,
        rate_basis: &counter.rate_basis,
        risk_basis: run.interruptions.basis,
    }
}

pub(super) fn basis(offer: &Offer) -> Arc<str> {
    format!("{} of {}", offer.source, offer.quote.observed_at.strftime("%Y-%m-%d")).into()
}

pub(super) fn beyond_counting() -> Why {
    Why::Misfit(Misfit::Unsupported { detail: "the cost is beyond counting".to_owned() })
}
