//! `OwnPool`: what the user's own launches saw of a pool of spot machines, summed up at one moment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool in which the user has asked for spot machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnPool {
    /// Cloud.
    pub cloud: String,
    /// As the cloud names it.
    pub instance_type: String,
    /// Region.
    pub region: String,
    /// `null`: anywhere in the region.
    #[serde(default)]
    pub zone_id: Option<String>,
    /// That were asked for at once.
    pub machines: u32,
    /// What came of it.
    #[serde(flatten)]
    pub seen: Seen,
}

/// What attempts to rent, and what was rented, say of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// Times that it gave all machines.
    pub starts: u32,
    /// Times that it had none.
    pub refusals: u32,
    /// Times that it took them back.
    pub losses: u32,
    /// That it is known to have been up.
    pub hours_up: f64,
    /// That it is known to have been down.
    pub hours_down: f64,
    /// Hours of both that still count: what is long ago is forgotten.
    pub hours_counted: f64,
    /// Of them, those up.
    pub hours_counted_up: f64,
    /// Since the latest of it. Hours.
    pub age_hours: f64,
    /// How it was then, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastSeen>,
}

/// How a pool was when it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastSeen {
    /// Whether it had machines.
    pub is_up: bool,
    /// For how long it is known to have been so by then. Hours.
    pub age_hours: f64,
    /// Hours.
    pub hours_ago: f64,
}

impl Seen {
    /// With what another run saw of the same pool.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            starts: self.starts + other.starts,
            refusals: self.refusals + other.refusals,
            losses: self.losses + other.losses,
            hours_up: self.hours_up + other.hours_up,
            hours_down: self.hours_down + other.hours_down,
            hours_counted: self.hours_counted + other.hours_counted,
            hours_counted_up: self.hours_counted_up + other.hours_counted_up,
            age_hours: self.age_hours.min(other.age_hours),
            last: LastSeen::later(self.last, other.last),
        }
    }
}

impl LastSeen {
    /// Of two, what is known best: the later one.
    pub fn later(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        [a, b].into_iter().flatten().min_by(|a, b| a.hours_ago.total_cmp(&b.hours_ago))
    }
}
