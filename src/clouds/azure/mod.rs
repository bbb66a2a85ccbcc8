//! Microsoft Azure: public retail prices without an account, and eviction bands with one.

pub mod eviction;
pub mod eviction_rates;
pub mod notices;
pub mod retail;
pub mod retail_prices;

use gpuplan_market::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "azure";

pub fn sources() -> Sources {
    Sources {
        prices: vec![Box::new(retail_prices::RetailPrices::from_environment())],
        risks: vec![Box::new(eviction_rates::EvictionRates::from_environment())],
        ..Sources::default()
    }
}
