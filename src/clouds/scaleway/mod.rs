//! Scaleway: its servers with GPUs by zone, for everybody to read.

pub mod instances;
pub mod servers;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "scaleway";
