//! Filters that need no physics: which offers the limits allow, and why the others are out.

use crate::explanation::Rejection;
use crate::limits::{Limits, PurchaseChoice};
use gpuplan_hardware::{GpuSelector, Hardware, InstanceType};
use gpuplan_market::{ANYWHERE, Availability, Offer, Purchase, Suspicion};

/// Filters that need no physics, in order; the first that refuses gives the reason.
pub fn refuse_offer(offer: &Offer, instance: &InstanceType, hardware: &Hardware, limits: &Limits) -> Option<Rejection> {
    let gpu = hardware.gpu(instance.node.gpu);
    let filter = &limits.offers;
    let (region_named, zone_named) = (filter.names_region(&offer.place), filter.names_zone(&offer.place));
    let is_meant = |selector: &GpuSelector| {
        selector.matches_gpu(instance.node.gpu, gpu) && selector.matches_share(instance.node.gpus)
    };
    if !filter.gpus.is_empty() && !filter.gpus.iter().any(is_meant) {
        return Some(Rejection::OtherGpu);
    }
    if filter.instance_type.as_ref().is_some_and(|name| *name != instance.name) {
        return Some(Rejection::OtherGpu);
    }
    if filter.gpus.is_empty() && filter.instance_type.is_none() && gpu.architecture.is_amd() {
        return Some(Rejection::UnfittedVendor);
    }
    if offer.owned.is_none() && !filter.clouds.is_empty() && !filter.clouds.contains(&instance.cloud) {
        return Some(Rejection::other_cloud(&instance.cloud, offer.quote.rate));
    }
    if offer.owned.is_none() && !filter.regions.is_empty() && !region_named && !zone_named {
        // A region that nobody names may well be the one that was asked for.
        return Some(match &*offer.place.region {
            ANYWHERE => Rejection::SuspectPrice { suspicion: Suspicion::PlaceUnknown },
            region => Rejection::OtherRegion { region: region.to_owned(), rate_usd_per_hour: offer.quote.rate },
        });
    }
    let is_asked = match (filter.purchase, offer.purchase) {
        // What is paid for already is used first, unless the user wants spot alone.
        (choice, _) if offer.owned.is_some() => !choice.is_spot(),
        (PurchaseChoice::Any | PurchaseChoice::Commitment, Purchase::OnDemand | Purchase::Spot) => true,
        (PurchaseChoice::OnDemand, purchase) => purchase == Purchase::OnDemand,
        (choice, purchase) if choice.is_spot() => purchase == Purchase::Spot,
        (PurchaseChoice::Commitment, Purchase::Commitment { .. }) => true,
        (PurchaseChoice::CapacityBlock, Purchase::CapacityBlock)
        | (PurchaseChoice::Calendar, Purchase::Calendar)
        | (PurchaseChoice::FlexStart, Purchase::FlexStart) => true,
        _ => false,
    };
    if !is_asked {
        return Some(Rejection::OtherPurchase);
    }
    if let Some(broken) = limits.policy.as_ref().and_then(|policy| policy.breaks(offer, instance, hardware)) {
        return Some(Rejection::Policy(broken));
    }
    if offer.needs_special_account() && !region_named {
        return Some(Rejection::SpecialAccount);
    }
    let is_sold = match offer.purchase {
        Purchase::OnDemand => instance.sold_as.on_demand,
        Purchase::Spot => instance.sold_as.spot,
        _ => true,
    };
    if !is_sold {
        return Some(Rejection::NotSold);
    }
    if offer.availability == Availability::SoldOut {
        return Some(Rejection::SoldOut);
    }
    let is_accepted = |suspicion: &Suspicion| match suspicion {
        Suspicion::NotRepeated => filter.accept_stale,
        Suspicion::LocalZone | Suspicion::ZoneOutlier => zone_named,
        Suspicion::PlaceUnknown => {
            filter.clouds.contains(&instance.cloud) || filter.without_region.contains(&instance.node.gpu)
        }
        _ => false,
    };
    let suspicion = offer.suspicions.iter().find(|suspicion| !is_accepted(suspicion));
    suspicion.filter(|_| !filter.include_suspect).map(|suspicion| Rejection::SuspectPrice { suspicion: *suspicion })
}

/// Whether a selector's count admits this many GPUs of this chip.
pub fn count_is_asked(instance: &InstanceType, hardware: &Hardware, limits: &Limits, gpus: u32) -> bool {
    let gpu = hardware.gpu(instance.node.gpu);
    let is_meant = |selector: &GpuSelector| {
        selector.matches_gpu(instance.node.gpu, gpu)
            && selector.matches_share(instance.node.gpus)
            && selector.matches_count(gpus)
    };
    limits.offers.gpus.is_empty() || limits.offers.gpus.iter().any(is_meant)
}
