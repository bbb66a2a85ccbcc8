//! What a plan rents and at which price: machines, terms, and where the rate comes from.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::context::World;
use gpuplan_market::{Origin, Purchase, Suspicion};
use gpuplan_units::UsdPerHour;

/// So many machines of one type in one place on some terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachinesRecord {
    /// Name of the cloud, such as `aws`.
    pub cloud: String,
    /// The cloud's name of the region.
    pub region: String,
    /// Id of the zone, where prices differ by zone.
    #[serde(default)]
    pub zone_id: Option<String>,
    /// The cloud's name of the machine.
    pub instance_type: String,
    /// Id of the GPU in the catalog.
    pub gpu: String,
    /// GPUs of one machine; a slice of a card is one.
    pub gpus_per_node: u32,
    /// Machines.
    pub nodes: u32,
    /// The terms.
    pub purchase: PurchaseTerms,
    /// Of one machine.
    pub rate_usd_per_hour: UsdPerHour,
}

impl MachinesRecord {
    /// Zone, or region where prices do not differ by zone.
    pub fn place(&self) -> &str {
        self.zone_id.as_deref().unwrap_or(&self.region)
    }
}

/// Terms on which machines are had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PurchaseTerms {
    /// By the hour, for as long as one likes.
    OnDemand,
    /// Spare capacity that the cloud may take back.
    Spot,
    /// The same, with on-demand machines where it is taken back and the deadline is near.
    SpotWithFallback,
    /// A promise of one or three years.
    Commitment,
    /// Whole days that are booked in advance.
    CapacityBlock,
    /// Capacity that is booked for a date.
    Calendar,
    /// A start when capacity is free, for a few days.
    FlexStart,
    /// Reserved for the user, or the user's own.
    Reserved,
}

impl PurchaseTerms {
    /// As JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::SpotWithFallback => "spot-with-fallback",
            Self::Commitment => "commitment",
            Self::CapacityBlock => "capacity-block",
            Self::Calendar => "calendar",
            Self::FlexStart => "flex-start",
            Self::Reserved => "reserved",
        }
    }

    /// Machines that may be taken back.
    pub fn is_spot(self) -> bool {
        matches!(self, Self::Spot | Self::SpotWithFallback)
    }
}

/// Where a rate comes from and how old it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PriceRecord {
    /// How the program came to it.
    pub origin: Origin,
    /// When it was seen.
    pub observed_at: Timestamp,
    /// Id of its source.
    pub source: String,
    /// It was too old when the plan was made.
    #[serde(default)]
    pub stale: bool,
    /// Why it may not be what it says.
    #[serde(default)]
    pub suspect: Vec<Suspicion>,
}

impl PurchaseTerms {
    /// Those of a plan on an offer: with a fallback, the offer's are only a part.
    pub(super) fn of_plan(plan: &Plan, offered: Purchase) -> Self {
        let with_fallback = plan.terms(offered) == Self::SpotWithFallback.word();
        if with_fallback { Self::SpotWithFallback } else { offered.into() }
    }
}

impl From<Purchase> for PurchaseTerms {
    fn from(purchase: Purchase) -> Self {
        match purchase {
            Purchase::OnDemand => Self::OnDemand,
            Purchase::Spot => Self::Spot,
            Purchase::Commitment { .. } => Self::Commitment,
            Purchase::CapacityBlock => Self::CapacityBlock,
            Purchase::Calendar => Self::Calendar,
            Purchase::FlexStart => Self::FlexStart,
            Purchase::Reserved => Self::Reserved,
        }
    }
}

impl MachinesRecord {
    pub(super) fn new(plan: &Plan, world: World) -> Self {
        let offer = world.market.offer(plan.offer);
        let instance = world.hardware.instance(plan.instance);
        Self {
            cloud: instance.cloud.to_string(),
            region: offer.place.region.to_string(),
            zone_id: offer.place.zone_id.as_ref().map(ToString::to_string),
            instance_type: instance.name.clone(),
            gpu: world.hardware.gpu(instance.node.gpu).id.clone(),
            gpus_per_node: instance.node.devices(),
            nodes: plan.nodes,
            purchase: PurchaseTerms::of_plan(plan, offer.purchase),
            rate_usd_per_hour: offer.quote.rate,
        }
    }
}

impl PriceRecord {
    pub(super) fn new(plan: &Plan, world: World, now: Timestamp) -> Self {
        let offer = world.market.offer(plan.offer);
        Self {
            origin: offer.quote.origin,
            observed_at: offer.quote.observed_at,
            source: offer.source.to_string(),
            stale: offer.is_stale(now),
            suspect: offer.suspicions.clone(),
        }
    }
}
