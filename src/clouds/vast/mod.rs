//! Vast: a marketplace of single machines. For each GPU, number and country the cheapest verified and reliable one.

pub mod bundles;
pub mod machines;

use gpuplan_market::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "vast";

pub fn sources() -> Sources {
    Sources { prices: vec![Box::new(machines::Machines::from_environment())], ..Sources::default() }
}
