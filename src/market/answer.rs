//! What a cloud says when it is asked: `PriceAnswer`, `RiskAnswer`, earlier prices, and notes of what it did not say.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::booking::Booking;
use crate::offer::{Location, Offer, Purchase, RiskEvidence, Signal};
use gpuplan_hardware::InstanceId;
use gpuplan_units::UsdPerHour;

/// A price that held from a moment on, until the next point of the same pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PricePoint {
    pub instance: InstanceId,
    pub place: Location,
    pub purchase: Purchase,
    pub since: Timestamp,
    pub rate: UsdPerHour,
}

impl PricePoint {
    /// An offer as what it was when it was seen.
    pub fn of(offer: &Offer) -> Self {
        let (instance, place, purchase) = (offer.instance, offer.place.clone(), offer.purchase);
        Self { instance, place, purchase, since: offer.quote.observed_at, rate: offer.quote.rate }
    }
}

/// What a cloud said, and what it did not.
#[derive(Clone, Debug, Default)]
pub struct PriceAnswer {
    pub offers: Vec<Offer>,
    /// Earlier prices, where the source tells them; in any order.
    pub history: Vec<PricePoint>,
    pub notes: Vec<SourceNote>,
}

/// Evidence about pools that are sold already.
#[derive(Clone, Debug, Default)]
pub struct RiskAnswer {
    /// Machine type, region, and zone id where it differs by zone.
    pub risks: Vec<(InstanceId, Location, Arc<RiskEvidence>)>,
    pub signals: Vec<(InstanceId, Location, Signal)>,
    pub openings: Vec<Opening>,
    pub notes: Vec<SourceNote>,
}

/// That so many machines can be had for a span, at a price that is known already.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    pub instance: InstanceId,
    pub place: Location,
    pub booking: Booking,
}

/// What a cloud said of the capacity of a pool, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSignal {
    pub instance: InstanceId,
    pub place: Location,
    pub signal: Signal,
    /// `None`: nobody kept it.
    pub observed_at: Option<Timestamp>,
}

impl RiskAnswer {
    /// The signals of an answer of this moment.
    pub fn signals_at(&self, now: Timestamp) -> Vec<PoolSignal> {
        let dated = |(instance, place, signal): &(InstanceId, Location, Signal)| PoolSignal {
            instance: *instance,
            place: place.clone(),
            signal: *signal,
            observed_at: Some(now),
        };
        self.signals.iter().map(dated).collect()
    }
}

/// A part of the question that got no answer: a region, or a row that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceNote {
    /// Region, zone or machine type.
    pub place: String,
    pub detail: String,
}

impl fmt::Display for SourceNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.detail)
    }
}
