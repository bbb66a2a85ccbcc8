//! `State`: where the job stands at the start of a tick.

use crate::policy::decision::Action;
use crate::policy::limits::Limits;
use gpuplan_units::Usd;

/// Where the job stands at the start of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    pub elapsed: f64,
    /// Work not yet done.
    pub left: f64,
    /// Paid so far; counted only where the policy or a budget asks for it.
    pub spent: Usd,
    /// What ran during the last tick and can go on; a machine that was taken away no longer runs.
    pub running: Action,
    /// The pool that ran last, whose storage holds the checkpoint.
    pub last_pool: Option<usize>,
    /// What is left of the changeover under way if it takes the expected time; 0 once work goes on.
    pub pending: f64,
    /// The same if it takes the longest. Above 0 until work goes on.
    pub pending_worst: f64,
}

impl State {
    pub fn until(&self, limits: &Limits) -> f64 {
        limits.deadline - self.elapsed
    }
}
