//! Google Cloud. Only the files that name the SDK need the feature `gcp`.

#[cfg(feature = "gcp")]
pub mod account;
pub mod advice;
pub mod billing;
#[cfg(feature = "gcp")]
pub mod capacity;
pub mod compose;
pub mod errors;
pub mod history;
pub mod identity;
#[cfg(feature = "gcp")]
pub mod launcher;
pub mod notices;
pub mod permissions;
pub mod pools;
#[cfg(feature = "gcp")]
pub mod preemptions;
pub mod project;
pub mod quotas;
#[cfg_attr(not(feature = "gcp"), path = "without_sdk.rs")]
mod sdk;
pub mod skus;
mod sources;
#[cfg(feature = "gcp")]
pub mod spot_prices;
pub mod zones;

pub use sources::sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "gcp";

/// What a launch needs in a Google Cloud project, as Terraform.
pub const SETUP: &str = include_str!("setup.tf");
