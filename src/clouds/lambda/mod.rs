//! Lambda: its machine types with prices and the regions that have some, for who has a key.

pub mod instance_types;
pub mod types;

use gpuplan_market::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "lambda";

pub fn sources() -> Sources {
    Sources { prices: vec![Box::new(instance_types::InstanceTypes::from_environment())], ..Sources::default() }
}
