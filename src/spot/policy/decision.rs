//! `Decision`: what to run in a tick, and why.

use crate::policy::reason::Reason;

/// What runs during a tick, and so also what to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    #[default]
    Idle,
    /// Spot capacity of the pool with this index.
    Spot(usize),
    /// On-demand capacity: of a pool that names a rate of its own, or at the job's rate.
    OnDemand(Option<usize>),
}

impl Action {
    pub fn is_on_demand(self) -> bool {
        matches!(self, Self::OnDemand(_))
    }

    /// The pool it runs in, if that is one of the job's.
    pub fn pool(self) -> Option<usize> {
        match self {
            Self::Spot(pool) => Some(pool),
            Self::OnDemand(pool) => pool,
            Self::Idle => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    pub action: Action,
    pub reason: Reason,
}
