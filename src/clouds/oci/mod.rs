//! Oracle Cloud: the public data of its cost estimator. One price for all commercial regions, so no region is named.

pub mod cost_estimator;
pub mod shapes;

use gpuplan_market::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "oci";

pub fn sources() -> Sources {
    Sources { prices: vec![Box::new(cost_estimator::CostEstimator::from_environment())], ..Sources::default() }
}
