//! Offers: where machines are sold, on what terms, at what quote, and what else is charged beside them.

pub mod answer;
pub mod cache;
pub mod cached_rows;
pub mod capacity;
mod catalog_rows;
pub mod charges;
pub mod check;
mod collector;
mod error;
pub mod host_offer;
pub mod import;
mod numbers;
pub mod offer;
mod owned;
pub mod quote;
pub mod rules;
pub mod snapshot;
pub mod source;
pub mod trend;

pub use answer::{Answer, PricePoint, RiskAnswer, SourceNote};
pub use cache::{Cache, CacheError};
pub use capacity::{Capacity, CapacityError};
pub use charges::{Charge, ChargeKind, Charges};
pub use collector::{Collector, Keep};
pub use error::MarketError;
pub use host_offer::HostOffer;
pub use offer::{ANYWHERE, Availability, Offer, OfferId, Place, Purchase, RiskEvidence, Signal, Suspicion};
pub use owned::Owned;
pub use quote::{Origin, Quote};
pub use snapshot::{Market, Source};
pub use source::{
    About, Access, AccountSource, BoxFuture, Identity, OfferQuery, Permission, PriceSource, Quota, QuotaNeed,
    RiskSource, SourceError, Sources, Verdict,
};
