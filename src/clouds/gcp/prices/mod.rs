//! Prices of Google Cloud: the public list composed into machines, spot with its history, and what says how likely a machine is had.

pub mod advice;
pub mod attached;
pub mod billing;
#[cfg(feature = "gcp")]
pub mod calendar;
#[cfg(feature = "gcp")]
pub mod capacity;
pub mod cards;
pub mod compose;
pub mod history;
#[cfg(feature = "gcp")]
pub mod machine_list;
pub mod pools;
#[cfg(feature = "gcp")]
pub mod preemptions;
pub mod skus;
#[cfg(feature = "gcp")]
pub mod spot_prices;
pub mod zones;
