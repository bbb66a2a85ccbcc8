//! `OfferFilter`: which offers may be looked at: clouds, regions, GPUs, ways to buy, doubtful prices.

use crate::limits::purchase_choice::PurchaseChoice;
use gpuplan_hardware::{CloudId, GpuId, GpuSelector};
use gpuplan_market::{Location, names_region};

/// Which offers may be looked at; an empty list allows everything.
#[derive(Clone, Debug, Default)]
pub struct OfferFilter {
    pub clouds: Vec<CloudId>,
    /// Regions, beginnings of their names, or zone ids.
    pub regions: Vec<String>,
    pub gpus: Vec<GpuSelector>,
    /// Chips that were named and that no source offers with a region: what their clouds offer is taken without one.
    pub without_region: Vec<GpuId>,
    /// Only this instance type; `explain` looks closer at one.
    pub instance_type: Option<String>,
    pub purchase: PurchaseChoice,
    /// Offers with a suspicion may be recommended.
    pub include_suspect: bool,
    /// Stale offers may be recommended even where the clouds answered for others.
    pub accept_stale: bool,
}

impl OfferFilter {
    /// Whether the user named this region.
    pub fn names_region(&self, place: &Location) -> bool {
        self.regions.iter().any(|region| names_region(region, &place.region))
    }

    /// Whether the user named this zone.
    pub fn names_zone(&self, place: &Location) -> bool {
        place.zone_id.as_deref().is_some_and(|zone| self.regions.iter().any(|name| name.eq_ignore_ascii_case(zone)))
    }
}
