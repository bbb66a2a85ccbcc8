//! `Rented`: what the second of two documents would rent, for the guardrails.

use std::collections::BTreeSet;

use gpuplan_units::Usd;

/// What a plan or a phase of a budget would rent.
#[derive(Clone, Debug, PartialEq)]
pub struct Rented {
    pub what: String,
    pub cloud: String,
    /// Region and zone.
    pub places: Vec<String>,
    pub gpu: Option<String>,
    pub purchase: String,
    /// Of all its machines.
    pub usd_per_hour: Option<Usd>,
    /// Of one time.
    pub p90: Usd,
    /// Names of the tags that it will bear; `None`: a plan has none yet, and the launch asks for them.
    pub tags: Option<BTreeSet<String>>,
}
