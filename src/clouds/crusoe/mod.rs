//! Crusoe: its interface tells capacities and no prices, and an offer without a price is none, so no live source stands here.

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "crusoe";
