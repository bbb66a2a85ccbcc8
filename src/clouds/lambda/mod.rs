//! Lambda: its machine types with prices and the regions that have some, for who has a key.

pub mod instance_types;
pub mod types;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "lambda";
