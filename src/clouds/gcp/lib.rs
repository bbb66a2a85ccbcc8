//! Google Cloud. Only the files that name the SDK need the feature `gcp`.

pub mod account;
mod encoded;
pub mod errors;
#[cfg(feature = "gcp")]
pub mod launcher;
pub mod notices;
pub mod prices;
#[cfg_attr(not(feature = "gcp"), path = "without_sdk.rs")]
mod sdk;
mod sources;

pub use sources::sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "gcp";

/// What a launch needs in a Google Cloud project, as Terraform.
pub const SETUP: &str = include_str!("setup.tf");
