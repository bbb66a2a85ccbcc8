//! Verda (formerly DataCrunch): prices, spot prices and what its locations have, for who has an API client.

pub mod instance_types;
pub mod types;

use gpuplan_market::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "verda";

pub fn sources() -> Sources {
    Sources { prices: vec![Box::new(instance_types::InstanceTypes::from_environment())], ..Sources::default() }
}
