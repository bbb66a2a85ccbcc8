//! Where a run stands: choosing, creating a gang, running, ending machines, ended.

use crate::controller::events::{End, Order, Terms};
use crate::controller::liveness::Liveness;
use crate::ports::machine::MachineId;
use gpuplan_spot::policy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Spot(usize),
    OnDemand(usize),
}

impl Which {
    /// As the policy says it.
    pub fn action(self, terms: &Terms) -> policy::Action {
        match self {
            Self::Spot(pool) => policy::Action::Spot(pool),
            Self::OnDemand(_) => terms.limits.cheapest_on_demand(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Gang {
    pub epoch: u64,
    pub which: Which,
    pub since: f64,
    /// Expected time to start there, and at worst. Seconds.
    pub changeover: (f64, f64),
    /// The first of its machines ends itself then.
    pub ends_at: f64,
    /// Share of the work that was safe when it was ordered, or took over; `None`: nobody knows any more.
    pub done_before: Option<f64>,
    pub machines: Vec<MachineId>,
}

/// An order that has no clear answer yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    pub order: Order,
    pub sent_at: f64,
    pub tries: u32,
    /// `None`: the answer is awaited.
    pub again_at: Option<f64>,
}

/// A gang that was ordered while another one runs, which goes on until this one is there. Its agents wait for the other to save and end.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    pub gang: Gang,
    /// `None`: all its machines are there.
    pub open: Option<Open>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    Choosing {
        from: f64,
    },
    Creating {
        gang: Gang,
        open: Open,
    },
    Running {
        gang: Gang,
        liveness: Liveness,
        looked_at: f64,
        decided_at: f64,
        is_working: bool,
        has_spoken: bool,
        /// Its program runs, or its data is being fetched.
        has_started: bool,
        /// It was told to save and end.
        leaving: Option<Leaving>,
    },
    /// Machines are being ended, all but those of a gang that takes over, and what an unclear order may have left is looked for.
    Ending {
        until: f64,
        looked_at: f64,
        next: Next,
    },
    Ended(End),
}

/// A gang has its notice, since when, and what comes after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaving {
    pub since: f64,
    pub next: Next,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Choose,
    /// The gang beside it.
    Take,
    End(End),
}
