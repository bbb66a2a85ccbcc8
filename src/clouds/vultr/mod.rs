//! Vultr: virtual machines with GPUs or shares of one, and bare metal, for everybody to read.

pub mod gpu_plans;
pub mod plans;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "vultr";
