//! Filters that need no physics: which offers the limits allow, and why the others are out.

use crate::explanation::Rejection;
use crate::limits::{Limits, PurchaseChoice};
use gpuplan_hardware::{Hardware, InstanceType};
use gpuplan_market::{Availability, Offer, Purchase, Suspicion};

/// Filters that need no physics, in order; the first that refuses gives the reason.
pub fn refuse_offer(offer: &Offer, instance: &InstanceType, hardware: &Hardware, limits: &Limits) -> Option<Rejection> {
    let gpu = hardware.gpu(instance.node.gpu);
    let region_named = limits.regions.iter().any(|region| offer.place.region.starts_with(region.as_str()));
    let zone_named = offer.place.zone_id.as_deref().is_some_and(|zone| limits.regions.iter().any(|name| name == zone));
    if !limits.gpus.is_empty() && !limits.gpus.iter().any(|selector| selector.matches_gpu(instance.node.gpu, gpu)) {
        return Some(Rejection::OtherGpu);
    }
    if limits.instance_type.as_ref().is_some_and(|name| *name != instance.name) {
        return Some(Rejection::OtherGpu);
    }
    if limits.gpus.is_empty() && limits.instance_type.is_none() && gpu.architecture.is_amd() {
        return Some(Rejection::UnfittedVendor);
    }
    if offer.owned.is_none() && !limits.clouds.is_empty() && !limits.clouds.contains(&instance.cloud) {
        return Some(Rejection::OtherCloud);
    }
    if offer.owned.is_none() && !limits.regions.is_empty() && !region_named && !zone_named {
        return Some(Rejection::OtherRegion);
    }
    let asked = match (limits.purchase, offer.purchase) {
        // What is paid for already is used first, unless only spot was asked for.
        (choice, _) if offer.owned.is_some() => !choice.is_spot(),
        (PurchaseChoice::Any | PurchaseChoice::Commitment, Purchase::OnDemand | Purchase::Spot) => true,
        (PurchaseChoice::OnDemand, purchase) => purchase == Purchase::OnDemand,
        (choice, purchase) if choice.is_spot() => purchase == Purchase::Spot,
        (PurchaseChoice::Commitment, Purchase::Commitment { .. }) => true,
        (PurchaseChoice::CapacityBlock, purchase) => purchase == Purchase::CapacityBlock,
        _ => false,
    };
    if !asked {
        return Some(Rejection::OtherPurchase);
    }
    if let Some(broken) = limits.policy.as_ref().and_then(|policy| policy.breaks(offer, instance, hardware)) {
        return Some(Rejection::Policy(broken));
    }
    if offer.needs_special_account() && !region_named {
        return Some(Rejection::SpecialAccount);
    }
    let sold = match offer.purchase {
        Purchase::OnDemand => instance.sold_as.on_demand,
        Purchase::Spot => instance.sold_as.spot,
        _ => true,
    };
    if !sold {
        return Some(Rejection::NotSold);
    }
    if offer.availability == Availability::SoldOut {
        return Some(Rejection::SoldOut);
    }
    let accepted = |suspicion: &Suspicion| match suspicion {
        Suspicion::NotRepeated => limits.accept_stale,
        Suspicion::LocalZone | Suspicion::ZoneOutlier => zone_named,
        Suspicion::PlaceUnknown => limits.clouds.contains(&instance.cloud),
        _ => false,
    };
    let suspicion = offer.suspicions.iter().find(|suspicion| !accepted(suspicion));
    suspicion.filter(|_| !limits.include_suspect).map(|suspicion| Rejection::SuspectPrice { suspicion: *suspicion })
}

/// Whether a selector's count admits this many GPUs of this chip.
pub fn count_is_asked(instance: &InstanceType, hardware: &Hardware, limits: &Limits, gpus: u32) -> bool {
    let gpu = hardware.gpu(instance.node.gpu);
    limits.gpus.is_empty()
        || limits
            .gpus
            .iter()
            .any(|selector| selector.matches_gpu(instance.node.gpu, gpu) && selector.matches_count(gpus))
}
