//! Microsoft Azure: public retail prices without an account, and eviction bands with one.

pub mod eviction;
pub mod eviction_rates;
pub mod notices;
pub mod retail;
pub mod retail_prices;
pub mod sign_in;
pub mod sizes;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "azure";
