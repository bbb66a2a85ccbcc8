//! Vast: a marketplace of single machines. For each GPU, number and country the cheapest verified and reliable one.

pub mod bundles;
pub mod machines;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "vast";
