//! Crusoe: its interface tells capacities and no prices, and an offer without a price is none, so no live source stands here.

use gpuplan_market::Sources;

/// Name of the cloud in catalogs.
pub const CLOUD: &str = "crusoe";

pub fn sources() -> Sources {
    Sources::default()
}
