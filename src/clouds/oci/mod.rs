//! Oracle Cloud: the public data of its cost estimator. One price for all commercial regions, so no region is named.

pub mod cost_estimator;
pub mod shapes;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "oci";
