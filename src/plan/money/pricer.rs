//! `Pricer`: what pricing one candidate after the other needs to know of the market and of the limits.

use std::collections::HashMap;
use std::sync::Arc;

use crate::context::Context;
use crate::explanation::Rejection;
use crate::filters::refuse_offer;
use crate::input::feeding::reads_from_afar;
use crate::limits::{Limits, Objective, OfferFilter, PurchaseChoice, QuotaRoom};
use crate::money::drift::Drift;
use crate::money::side_charges::SideCharges;
use crate::normal::deviations;
use gpuplan_hardware::InstanceId;
use gpuplan_market::{Offer, OfferId, Purchase};
use gpuplan_spot::AvailabilityModel;
use gpuplan_units::{Hours, Usd, UsdPerHour};

/// How surely an offer can be had at its price; the lesser goes first, whatever the objective weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// The program cannot launch there.
    pub is_elsewhere: bool,
    /// The account may not run so many, as its cloud said it.
    pub is_beyond_quota: bool,
    /// The price is too old to say what it is today.
    pub is_price_unknown: bool,
}

/// A span of machines that a run fits into.
#[derive(Clone, Copy, Debug)]
pub struct Booked {
    /// Until they are there. Hours.
    pub wait: f64,
    /// Hours of each machine of the run that are paid for, used or not.
    pub paid_hours: f64,
}

/// A machine type in a region.
type MachineInRegion = (InstanceId, Arc<str>);

/// Prices candidates of one question.
pub struct Pricer<'a> {
    pub context: Context<'a>,
    pub model: AvailabilityModel,
    /// The confidence that the user wants, in 90th percentiles.
    pub certainty: f64,
    /// The cheapest on-demand offer of a machine in a region that keeps every limit.
    fallbacks: Arc<HashMap<MachineInRegion, OfferId>>,
    /// For a service: every spot offer of a machine in a region that keeps every limit.
    places: HashMap<MachineInRegion, Vec<OfferId>>,
}

/// An offer with the side charges of its place, which all counts of its machines share.
pub struct PricedOffer {
    pub id: OfferId,
    pub charges: SideCharges,
    /// Since the price was seen.
    pub drift: Drift,
}

impl<'a> Pricer<'a> {
    pub fn new(context: Context<'a>) -> Self {
        Self::with_fallbacks(context, Arc::new(fallbacks(context)))
    }

    /// For limits that differ only in how machines are bought: what one falls back to is the same.
    pub fn buying<'b>(&self, limits: &'b Limits) -> Pricer<'b>
    where
        'a: 'b,
    {
        Pricer::with_fallbacks(Context { limits, ..self.context }, Arc::clone(&self.fallbacks))
    }

    fn with_fallbacks(context: Context<'a>, fallbacks: Arc<HashMap<MachineInRegion, OfferId>>) -> Self {
        let places = if context.workload.is_service() { spot_places(context) } else { HashMap::new() };
        Self {
            context,
            model: AvailabilityModel::prior(),
            certainty: deviations(context.limits.confidence),
            fallbacks,
            places,
        }
    }

    pub fn offer(&self, id: OfferId) -> PricedOffer {
        let Context { world, workload, .. } = self.context;
        let offer = world.market.offer(id);
        let instance = world.hardware.instance(offer.instance);
        let data = workload.data.as_ref();
        let charges = SideCharges::new(&world.market.charges, offer, instance, data, reads_from_afar(workload));
        PricedOffer { id, charges, drift: self.drift(offer) }
    }

    /// For a service: spot offers of the same machine in the same region.
    pub fn spot_places(&self, offer: &Offer) -> &[OfferId] {
        self.places.get(&machine_in_region(offer)).map_or(&[], Vec::as_slice)
    }

    /// On-demand machines of the same type in the same region.
    pub fn on_demand_like(&self, offer: &Offer) -> Option<OfferId> {
        self.fallbacks.get(&machine_in_region(offer)).copied()
    }

    /// What has become of the price of an offer since it was seen.
    pub fn drift(&self, offer: &Offer) -> Drift {
        let Context { world, limits, .. } = self.context;
        Drift::new(offer, &world.hardware.instance(offer.instance).cloud, limits.now, &world.market.drift)
    }

    /// Whether the program can launch on it, or the user has it already.
    pub fn is_launchable(&self, offer: &Offer) -> bool {
        let Context { world, limits, .. } = self.context;
        let cloud = &world.hardware.instance(offer.instance).cloud;
        offer.owned.is_some() || limits.launchable.as_ref().is_none_or(|clouds| clouds.contains(cloud))
    }

    /// Who asks for the least cost alone takes any price; everybody else first those that are known.
    pub fn standing(&self, offer: &Offer, nodes: u32) -> Standing {
        let limits = self.context.limits;
        let is_price_unknown = limits.objective != Objective::Cost && !Drift::reaches(offer, limits.now);
        let is_beyond_quota = !limits.quotas.known.is_empty() && self.room(offer, offer.purchase, nodes).is_exceeded();
        Standing { is_elsewhere: !self.is_launchable(offer), is_beyond_quota, is_price_unknown }
    }

    /// What is known of the account's room for so many machines of an offer, bought so.
    pub fn room(&self, offer: &Offer, purchase: Purchase, nodes: u32) -> QuotaRoom {
        if offer.owned.is_some() {
            return QuotaRoom::NotNeeded;
        }
        let Context { world, limits, .. } = self.context;
        let cloud = &world.hardware.instance(offer.instance).cloud;
        limits.quotas.room(cloud, &offer.place.region, (offer.instance, purchase), nodes)
    }

    /// Of all machines together, as expected today.
    pub fn rate_today(&self, id: OfferId, nodes: u32) -> Option<UsdPerHour> {
        let offer = self.context.world.market.offer(id);
        today(offer, self.drift(offer), nodes)
    }

    /// The same of an offer whose drift is known already: it takes powers, and thousands of candidates ask.
    pub fn rate_of(&self, priced: &PricedOffer, nodes: u32) -> Option<UsdPerHour> {
        today(self.context.world.market.offer(priced.id), priced.drift, nodes)
    }

    /// Of all machines together.
    pub fn rate_of_all(&self, id: OfferId, nodes: u32) -> Option<UsdPerHour> {
        let rate = self.context.world.market.offer(id).quote.rate;
        rate.nanos().checked_mul(i64::from(nodes)).map(UsdPerHour::from_nanos)
    }

    /// The dearest machines that may run.
    pub fn check_rate(&self, offer: &Offer, nodes: u32, fallback: Option<OfferId>) -> Result<(), Rejection> {
        let Context { world, limits, .. } = self.context;
        let fallback = fallback.map(|id| world.market.offer(id));
        let rate = fallback.map_or(offer.quote.rate, |fallback| fallback.quote.rate.max(offer.quote.rate)).times(nodes);
        if let Some(broken) = limits.policy.as_ref().and_then(|policy| policy.breaks_rate(rate)) {
            return Err(Rejection::Policy(broken));
        }
        match limits.max_price_per_hour.filter(|limit| rate > *limit) {
            Some(limit) => Err(Rejection::MaxPrice { rate_usd_per_hour: rate, limit_usd_per_hour: limit }),
            None => Ok(()),
        }
    }

    /// `most`: what it costs at most with the confidence that the user wants.
    pub fn check_cost(&self, p90: Usd, most: Usd) -> Result<(), Rejection> {
        let limits = self.context.limits;
        if let Some(budget) = limits.budget.filter(|budget| most > *budget) {
            return Err(Rejection::Budget { most_usd: most, budget_usd: budget, confidence: limits.confidence });
        }
        match limits.policy.as_ref().and_then(|policy| policy.breaks_cost(p90)) {
            Some(broken) => Err(Rejection::Policy(broken)),
            None => Ok(()),
        }
    }

    /// Machines are sold for so many hours at once; where they are sold ahead, how long they are waited for and what is paid of them.
    pub fn check_span(&self, offer: &Offer, nodes: u32, hours: f64) -> Result<Option<Booked>, Rejection> {
        if let Some(most) = offer.purchase.longest_hours().filter(|most| hours > f64::from(*most)) {
            return Err(Rejection::TooLong { needed_hours: Hours(hours), most_hours: Hours(f64::from(most)) });
        }
        let Some((booking, now)) = offer.booking.as_deref().copied().zip(self.context.limits.now) else {
            return Ok(None);
        };
        if !booking.holds(nodes, hours, now) {
            return Err(Rejection::OtherSpan { booking, nodes, needed_hours: Hours(hours) });
        }
        let paid_hours = f64::from(booking.paid_hours) * f64::from(booking.machines) / f64::from(nodes);
        Ok(Some(Booked { wait: booking.wait(now), paid_hours }))
    }

    /// Machines that the user owns must be there for so many hours.
    pub fn check_ownership(&self, offer: &Offer, hours: f64) -> Result<(), Rejection> {
        let ends_with = offer.owned.as_ref().and_then(|owned| owned.until).zip(self.context.limits.now);
        match ends_with.filter(|(until, now)| until.duration_since(*now).as_secs_f64() < hours * 3600.0) {
            Some((until, _)) => Err(Rejection::OwnedUntil { until }),
            None => Ok(()),
        }
    }
}

fn today(offer: &Offer, drift: Drift, nodes: u32) -> Option<UsdPerHour> {
    let today = offer.quote.rate.nanos() as f64 * drift.expected * f64::from(nodes);
    (today < i64::MAX as f64).then(|| UsdPerHour::from_nanos(today.round() as i64))
}

/// Rented as spot, and not the user's own.
pub fn is_spot(offer: &Offer) -> bool {
    offer.purchase == Purchase::Spot && offer.owned.is_none()
}

fn machine_in_region(offer: &Offer) -> MachineInRegion {
    (offer.instance, offer.place.region.clone())
}

fn fallbacks(context: Context) -> HashMap<MachineInRegion, OfferId> {
    let Context { world, limits, .. } = context;
    // On-demand is sold by region: who names a zone for spot may fall back to its region.
    let is_named = |offer: &&Offer| limits.offers.names_zone(&offer.place);
    let of_zones = world.market.offers().iter().filter(is_named).map(|offer| offer.place.region.to_string());
    let mut regions: Vec<String> = limits.offers.regions.iter().cloned().chain(of_zones).collect();
    regions.sort();
    regions.dedup();
    let filter = OfferFilter { purchase: PurchaseChoice::OnDemand, regions, ..limits.offers.clone() };
    let firm = Limits { offers: filter, ..limits.clone() };
    let mut fallbacks = HashMap::new();
    for id in world.market.offer_ids() {
        let offer = world.market.offer(id);
        let is_firm = offer.purchase == Purchase::OnDemand && offer.owned.is_none();
        if !is_firm || refuse_offer(offer, world.hardware.instance(offer.instance), world.hardware, &firm).is_some() {
            continue;
        }
        let cheapest = fallbacks.entry(machine_in_region(offer)).or_insert(id);
        if offer.quote.rate < world.market.offer(*cheapest).quote.rate {
            *cheapest = id;
        }
    }
    fallbacks
}

/// Spot offers that keep every limit, by machine and region.
fn spot_places(context: Context) -> HashMap<MachineInRegion, Vec<OfferId>> {
    let Context { world, limits, .. } = context;
    let mut places: HashMap<MachineInRegion, Vec<OfferId>> = HashMap::new();
    for id in world.market.offer_ids() {
        let offer = world.market.offer(id);
        let keeps = || refuse_offer(offer, world.hardware.instance(offer.instance), world.hardware, limits).is_none();
        if is_spot(offer) && keeps() {
            places.entry(machine_in_region(offer)).or_default().push(id);
        }
    }
    places
}
