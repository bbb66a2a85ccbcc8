//! Verda (formerly DataCrunch): prices, spot prices and what its locations have, for who has an API client.

pub mod instance_types;
pub mod types;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "verda";
