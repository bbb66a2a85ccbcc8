//! `Quote`: a rate that can never be separated from where it came from and when it was seen.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::{Hours, UsdPerHour};

/// Where a rate came from. A failed refresh changes none of these: old data stays old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Asked of the cloud in this run.
    Live,
    /// Asked of the cloud in an earlier run.
    Cached,
    /// Built into this binary.
    Snapshot,
    /// Composed or guessed from other figures.
    Estimate,
    /// Given by the user, such as a negotiated rate.
    User,
}

impl Origin {
    pub fn is_of_the_snapshot(self) -> bool {
        matches!(self, Self::Snapshot | Self::Estimate)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Cached => "cached",
            Self::Snapshot => "snapshot",
            Self::Estimate => "estimate",
            Self::User => "yours",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quote {
    /// For the whole machine.
    pub rate: UsdPerHour,
    pub origin: Origin,
    /// When the answer was seen, never when it was last asked for.
    pub observed_at: Timestamp,
}

/// Spot quotes live for an hour, others for thirty days (docs/prices.md).
pub const SPOT_FRESH: Hours = Hours(1.0);
pub const LIST_FRESH: Hours = Hours(30.0 * 24.0);

impl Quote {
    pub fn age(&self, now: Timestamp) -> Hours {
        Hours(now.duration_since(self.observed_at).as_secs_f64() / 3600.0)
    }
}
