//! Offers: where machines are sold, on what terms, at what quote, and what else is charged beside them.

pub mod answer;
mod area;
pub mod booking;
pub mod bucket;
pub mod cache;
pub mod capacity;
mod catalog;
pub mod changes;
mod collector;
pub mod drift;
mod error;
pub mod feed;
pub mod host_offer;
pub mod import;
pub mod machines;
pub mod offer;
pub mod own;
pub mod quote;
pub mod source;
pub mod trend;

pub use answer::{Opening, PoolSignal, PriceAnswer, PricePoint, RiskAnswer, SourceNote};
pub use area::names_region;
pub use booking::{Booking, Span};
pub use cache::{Cache, CacheError};
pub use capacity::owned::Owned;
pub use capacity::{Capacity, CapacityError};
pub use catalog::charges::{Charge, ChargeKind, Charges};
pub use catalog::sites::{Grid, Intensity, Pue, Site, Sites};
pub use catalog::snapshot::{Market, Source};
pub use catalog::{check, snapshot};
pub use collector::{Collector, Keep};
pub use drift::MonthlyDrift;
pub use error::MarketError;
pub use host_offer::HostOffer;
pub use machines::{Listing, MachineList};
pub use offer::{ANYWHERE, Availability, Heard, Location, Offer, OfferId, Purchase, RiskEvidence, Signal, Suspicion};
pub use quote::{Origin, Quote};
pub use source::{
    About, Access, AccountSource, BoxFuture, Identity, MachineSource, OfferQuery, Permission, PriceSource, Quota,
    QuotaNeed, RiskSource, SourceError, Sources, Tried, Verdict,
};
