//! `Evidence`: what the figures of a plan rest on beside the hardware, kind by kind, with who said it and when.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::context::World;
use crate::limits::QuotaRoom;
use crate::money::bill::{Basis, BillItem};
use gpuplan_market::{Heard, Offer, Purchase, Signal};
use gpuplan_units::Hours;

/// Something that a plan rests on, and how old it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// What it is about.
    pub kind: EvidenceKind,
    /// Id of the source; `null`: nobody said anything, and the plan does without.
    #[serde(default)]
    pub source: Option<String>,
    /// When it was said; `null`: nobody kept it, or nobody said anything.
    #[serde(default)]
    pub observed_at: Option<Timestamp>,
    /// From then to the plan.
    #[serde(default)]
    pub age_hours: Option<Hours>,
}

/// What evidence is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Rate of the machines.
    Price,
    /// Rate of the on-demand machines that a plan on spot falls back to.
    FallbackPrice,
    /// Rates of disks, storage, requests and egress: the oldest of those that are in the bill.
    SideCharges,
    /// That the machine is to be had in the region.
    PlaceList,
    /// How many such spot machines are lost in a month.
    SpotStatistics,
    /// How likely spot machines are had (AWS).
    PlacementScore,
    /// The same (Google Cloud).
    Obtainability,
    /// How long spot machines stay up (Google Cloud).
    EstimatedUptime,
    /// How many of those that stopped were preempted (Google Cloud). It is shown and counts for nothing: it says more of jobs than of the pool.
    PreemptionHistory,
    /// How many spot machines are evicted in an hour (Azure).
    EvictionRate,
    /// What the user's own launches saw of the pool.
    OwnLaunches,
    /// The account's room for the machines.
    Quota,
}

impl EvidenceKind {
    fn of(signal: Signal) -> Self {
        match signal {
            Signal::PlacementScore(_) => Self::PlacementScore,
            Signal::Obtainability(_) => Self::Obtainability,
            Signal::UptimeHours(_) => Self::EstimatedUptime,
            Signal::DailyPreemptionShare(_) => Self::PreemptionHistory,
            Signal::HourlyEvictionPercent { .. } => Self::EvictionRate,
        }
    }

    /// Whether a plan rests on it.
    pub fn counts(self) -> bool {
        self != Self::PreemptionHistory
    }
}

/// What a plan rests on, in the order of [`EvidenceKind`]. Of a plan on spot that of its first pool; each pool says its own.
pub fn evidence(plan: &Plan, world: World, now: Timestamp) -> Vec<Evidence> {
    let offer = world.market.offer(plan.offer);
    let said = |kind, source: &str, at: Timestamp| Evidence::new(kind, Some(source), Some(at), now);
    let mut all = vec![said(EvidenceKind::Price, &offer.source, offer.quote.observed_at)];
    let stands_in = plan.standby.as_ref().map(|standby| standby.fallback);
    if let Some(fallback) = plan.spot.as_ref().and_then(|spot| spot.fallback).or(stands_in) {
        let fallback = world.market.offer(fallback);
        all.push(said(EvidenceKind::FallbackPrice, &fallback.source, fallback.quote.observed_at));
    }
    let beside = plan.bill.lines.iter().filter(|line| is_beside_machines(line.item));
    let beside = beside.filter_map(|line| match &line.basis {
        Basis::Price { source, observed_at, .. } => Some((*observed_at, source)),
        Basis::LossRate(_) | Basis::LossRateOfGpuMachines => None,
    });
    all.extend(beside.min().map(|(at, source)| said(EvidenceKind::SideCharges, source, at)));
    if offer.owned.is_none() {
        let listing = world.market.listing(offer);
        let (source, at) = listing.map(|it| (&*it.source, it.observed_at)).unzip();
        all.push(Evidence::new(EvidenceKind::PlaceList, source, at, now));
    }
    if offer.purchase == Purchase::Spot {
        all.extend(of_pool(plan, offer, now));
    }
    match &plan.quota {
        QuotaRoom::NotNeeded => {}
        QuotaRoom::Unknown => all.push(Evidence::new(EvidenceKind::Quota, None, None, now)),
        QuotaRoom::Within { quota, .. } | QuotaRoom::Exceeded { quota, .. } => {
            all.push(said(EvidenceKind::Quota, &quota.code, quota.asked_at));
        }
    }
    all.sort_by_key(|one| one.kind);
    all
}

fn is_beside_machines(item: BillItem) -> bool {
    use BillItem::{CheckpointStorage, Disk, Egress, StoreRequests};
    matches!(item, Disk | CheckpointStorage | StoreRequests | Egress)
}

/// What is known of how long spot machines of a plan last. Where nobody says anything, that too.
fn of_pool(plan: &Plan, offer: &Offer, now: Timestamp) -> Vec<Evidence> {
    let heard = |Heard { signal, observed_at }: &Heard| {
        // A signal that came with a price is as old as that.
        let at = observed_at.unwrap_or(offer.quote.observed_at);
        Evidence::new(
            EvidenceKind::of(*signal),
            Some(offer.source.as_ref()).filter(|_| observed_at.is_none()),
            Some(at),
            now,
        )
    };
    let mut all: Vec<Evidence> = offer.signals.iter().map(heard).collect();
    let risk = offer.risk.as_deref();
    all.extend(
        risk.map(|risk| Evidence::new(EvidenceKind::SpotStatistics, Some(&risk.source), Some(risk.observed_at), now)),
    );
    let own = plan.spot.as_ref().and_then(|spot| spot.own);
    all.extend(own.map(|own| Evidence {
        kind: EvidenceKind::OwnLaunches,
        source: Some("journal".to_owned()),
        observed_at: None,
        age_hours: Some(Hours(own.age_hours)),
    }));
    if all.iter().all(|one| !one.kind.counts()) {
        all.push(Evidence::new(EvidenceKind::SpotStatistics, None, None, now));
    }
    all
}

impl Evidence {
    fn new(kind: EvidenceKind, source: Option<&str>, observed_at: Option<Timestamp>, now: Timestamp) -> Self {
        let age_hours = observed_at.map(|at| Hours(now.duration_since(at).as_secs_f64() / 3600.0));
        Self { kind, source: source.map(str::to_owned), observed_at, age_hours }
    }
}
