//! Machines that can be rented for work without GPU: those that have none, and the hosts of those that have.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::explanation::Rejection;
use crate::filters::refuse_offer;
use crate::limits::{Limits, OfferFilter, PurchaseChoice};
use gpuplan_hardware::{Hardware, Host};
use gpuplan_market::{
    Availability, Heard, HostOffer, Location, Market, Offer, Purchase, Quote, RiskEvidence, Suspicion,
};

/// A machine in a place on terms at a quote, with GPUs or without.
#[derive(Clone, Copy, Debug)]
pub struct Rented<'a> {
    pub host: Host<'a>,
    /// The GPU that stands idle meanwhile.
    pub gpu: Option<&'a str>,
    pub place: &'a Location,
    pub purchase: Purchase,
    pub quote: Quote,
    pub source: &'a Arc<str>,
    pub suspicions: &'a [Suspicion],
    pub risk: Option<&'a RiskEvidence>,
    pub signals: &'a [Heard],
    pub is_stale: bool,
}

impl<'a> Rented<'a> {
    fn without_gpu(offer: &'a HostOffer, hardware: &'a Hardware, now: Option<Timestamp>) -> Self {
        Self {
            host: hardware.host(offer.host).host(),
            gpu: None,
            place: &offer.place,
            purchase: offer.purchase,
            quote: offer.quote,
            source: &offer.source,
            suspicions: &offer.suspicions,
            risk: None,
            signals: &[],
            is_stale: now.is_some_and(|now| offer.is_stale(now)),
        }
    }

    fn with_gpu(offer: &'a Offer, hardware: &'a Hardware, now: Option<Timestamp>) -> Self {
        let instance = hardware.instance(offer.instance);
        Self {
            host: instance.host(),
            gpu: Some(&hardware.gpu(instance.node.gpu).id),
            place: &offer.place,
            purchase: offer.purchase,
            quote: offer.quote,
            source: &offer.source,
            suspicions: &offer.suspicions,
            risk: offer.risk.as_deref(),
            signals: &offer.signals,
            is_stale: now.is_some_and(|now| offer.is_stale(now)),
        }
    }

    /// `cloud/region`.
    pub fn region(&self) -> String {
        format!("{}/{}", self.host.cloud, self.place.region)
    }
}

/// Offers that are looked at, of each machine and terms the cheapest where the samples lie and the cheapest elsewhere; and what was refused on the way.
#[derive(Default)]
pub struct WorkOffers<'a> {
    pub kept: Vec<Rented<'a>>,
    pub refused: Vec<(Rented<'a>, Rejection)>,
    pub offers: usize,
}

impl<'a> WorkOffers<'a> {
    /// Machines that have no GPU.
    pub fn without_gpu(hardware: &'a Hardware, market: &'a Market, limits: &Limits, place: Option<&str>) -> Self {
        let mut found = Self { offers: market.host_offers().len(), ..Self::default() };
        for offer in market.host_offers() {
            let rented = Rented::without_gpu(offer, hardware, limits.now);
            match refuse(&rented, hardware.host(offer.host).sold_as, limits) {
                Some(why) => found.refused.push((rented, why)),
                None => found.kept.push(rented),
            }
        }
        found.cheapest_of_each(place)
    }

    /// Hosts of the machines that have GPUs and are sold by the hour, for comparison.
    pub fn with_gpu(hardware: &'a Hardware, market: &'a Market, limits: &Limits, place: Option<&str>) -> Self {
        let mut found = Self { offers: market.offers().len(), ..Self::default() };
        // The filter by GPU is for machines whose GPUs work.
        let filter = OfferFilter { gpus: Vec::new(), ..limits.offers.clone() };
        let limits = Limits { offers: filter, ..limits.clone() };
        for offer in market.offers().iter().filter(|offer| offer.purchase.is_by_the_hour() && offer.owned.is_none()) {
            let instance = hardware.instance(offer.instance);
            let is_known = instance.vcpus > 0 && offer.availability != Availability::SoldOut;
            if is_known && refuse_offer(offer, instance, hardware, &limits).is_none() {
                found.kept.push(Rented::with_gpu(offer, hardware, limits.now));
            }
        }
        found.cheapest_of_each(place)
    }

    fn cheapest_of_each(mut self, place: Option<&str>) -> Self {
        let mut cheapest: BTreeMap<_, Rented> = BTreeMap::new();
        for offer in self.kept {
            let held = cheapest
                .entry((offer.host.cloud, offer.host.name, offer.purchase, place == Some(offer.region().as_str())))
                .or_insert(offer);
            if (offer.quote.rate, offer.place) < (held.quote.rate, held.place) {
                *held = offer;
            }
        }
        self.kept = cheapest.into_values().collect();
        self
    }
}

/// As `refuse_offer`, for a machine that has no GPU. Machines that are lost are replaced, so falling back to
/// on-demand is no way to buy of its own here: both are looked at.
fn refuse(rented: &Rented, sold_as: gpuplan_hardware::SoldAs, limits: &Limits) -> Option<Rejection> {
    let filter = &limits.offers;
    if !filter.clouds.is_empty() && !filter.clouds.contains(rented.host.cloud) {
        return Some(Rejection::other_cloud(rented.host.cloud, rented.quote.rate));
    }
    if !filter.regions.is_empty() && !filter.names_region(rented.place) && !filter.names_zone(rented.place) {
        let (region, rate_usd_per_hour) = (rented.place.region.to_string(), rented.quote.rate);
        return Some(Rejection::OtherRegion { region, rate_usd_per_hour });
    }
    let is_asked = match filter.purchase {
        PurchaseChoice::Any | PurchaseChoice::Commitment | PurchaseChoice::SpotWithFallback => {
            rented.purchase.is_by_the_hour()
        }
        PurchaseChoice::OnDemand => rented.purchase == Purchase::OnDemand,
        PurchaseChoice::Spot => rented.purchase == Purchase::Spot,
        PurchaseChoice::CapacityBlock | PurchaseChoice::Calendar | PurchaseChoice::FlexStart => false,
    };
    if !is_asked {
        return Some(Rejection::OtherPurchase);
    }
    if let Some(policy) = &limits.policy
        && let Some(broken) =
            policy.breaks_place(rented.host.cloud, rented.place).or_else(|| policy.breaks_terms(rented.purchase))
    {
        return Some(Rejection::Policy(broken));
    }
    let is_sold = match rented.purchase {
        Purchase::OnDemand => sold_as.on_demand,
        Purchase::Spot => sold_as.spot,
        _ => false,
    };
    if !is_sold {
        return Some(Rejection::NotSold);
    }
    rented
        .suspicions
        .first()
        .filter(|_| !filter.include_suspect)
        .map(|suspicion| Rejection::SuspectPrice { suspicion: *suspicion })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_machines_without_gpu_too() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let names = |limits: &Limits| {
            let found = WorkOffers::without_gpu(&hardware, &market, limits, None);
            found.kept.iter().map(|offer| (offer.region(), offer.purchase)).collect::<Vec<_>>()
        };
        assert!(names(&Limits::default()).len() > 10);
        let within = |offers: OfferFilter| Limits { offers, ..Limits::default() };
        let frankfurt = within(OfferFilter {
            regions: vec!["eu-central-1".to_owned()],
            purchase: PurchaseChoice::OnDemand,
            ..OfferFilter::default()
        });
        assert!(
            names(&frankfurt).iter().all(|(place, terms)| place == "aws/eu-central-1" && *terms == Purchase::OnDemand)
        );
        assert_eq!(names(&frankfurt).len(), 3);
        let blocks = OfferFilter { purchase: PurchaseChoice::CapacityBlock, ..OfferFilter::default() };
        assert!(names(&within(blocks)).is_empty());
        // A price in a region where the machine has not been seen is taken only on request.
        let africa = OfferFilter { regions: vec!["africa-south1".to_owned()], ..OfferFilter::default() };
        assert!(names(&within(africa.clone())).is_empty());
        assert!(!names(&within(OfferFilter { include_suspect: true, ..africa })).is_empty());
    }

    #[test]
    fn the_two_kinds_of_machines_never_mix() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let limits = Limits::default();
        assert!(
            WorkOffers::without_gpu(&hardware, &market, &limits, None).kept.iter().all(|offer| offer.gpu.is_none())
        );
        assert!(WorkOffers::with_gpu(&hardware, &market, &limits, None).kept.iter().all(|offer| offer.gpu.is_some()));
    }
}
