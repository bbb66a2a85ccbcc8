//! Offers: where machines are sold, on what terms, at what quote, and what else is charged beside them.

pub mod cache;
pub mod cached_rows;
pub mod capacity;
pub mod charges;
pub mod check;
pub mod host_offer;
pub mod import;
mod numbers;
pub mod offer;
pub mod quote;
pub mod rules;
pub mod snapshot;
pub mod source;
pub mod trend;

pub use cache::{Cache, CacheError};
pub use capacity::{Capacity, CapacityError, Owned};
pub use charges::{Charge, ChargeKind, Charges};
pub use host_offer::HostOffer;
pub use offer::{Availability, Offer, OfferId, Place, Purchase, RiskEvidence, Signal, Suspicion};
pub use quote::{Origin, Quote};
pub use snapshot::{Market, Source};
pub use source::{
    About, Access, AccountSource, Answer, BoxFuture, Identity, OfferQuery, Permission, PricePoint, PriceSource, Quota,
    QuotaNeed, RiskAnswer, RiskSource, SourceError, SourceNote, Sources, Verdict,
};
