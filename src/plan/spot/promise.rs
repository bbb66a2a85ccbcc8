//! `Promise`: what a plan promises that falls back to on-demand machines, and under which conditions.

use jiff::Timestamp;

use gpuplan_units::{Hours, Usd};

/// An end by the deadline and what it may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    pub deadline: Hours,
    /// The same as a time; `None` where the time of planning is unknown.
    pub end: Option<Timestamp>,
    /// Of which on-demand capacity must be there.
    pub instance_type: String,
    /// On-demand capacity may be missing for so long.
    pub outage: Hours,
    /// The job may need so much work, over what is estimated.
    pub work_ratio: f64,
    pub cost_expected: Usd,
    /// Nine of ten replayed cases cost no more.
    pub cost_p90: Usd,
    /// All of it on on-demand machines.
    pub cost_ceiling: Usd,
}
