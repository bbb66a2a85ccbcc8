//! `PurchaseChoice`: which ways to buy are allowed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which terms are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PurchaseChoice {
    /// On-demand and spot.
    #[default]
    Any,
    OnDemand,
    /// Spot alone; a deadline is kept with the stated confidence, without a promise.
    Spot,
    /// Spot, and on-demand in the same region when the deadline calls.
    SpotWithFallback,
    /// Also one- and three-year promises.
    Commitment,
    /// Blocks of days that are paid for in advance.
    CapacityBlock,
    /// Google's reservations for a date, of up to 90 days.
    Calendar,
    /// Google's queue: machines for up to seven days, once there are as many.
    FlexStart,
}

impl PurchaseChoice {
    /// Only spot offers are looked at.
    pub fn is_spot(self) -> bool {
        matches!(self, Self::Spot | Self::SpotWithFallback)
    }
}
