//! Akamai (Linode): its plans with GPUs, for everybody to read.

pub mod linode;
pub mod types;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "akamai";
