//! Where a run stands: choosing, creating a gang, running, ending machines, ended.

use crate::controller::events::{End, Order};
use crate::ports::machine::MachineId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Spot(usize),
    OnDemand(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Gang {
    pub epoch: u64,
    pub which: Which,
    pub since: f64,
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
        heard_at: f64,
        looked_at: f64,
        decided_at: f64,
        is_working: bool,
        has_spoken: bool,
    },
    /// Every machine is being ended, and what an unclear order may have left is looked for.
    Ending {
        until: f64,
        looked_at: f64,
        next: Next,
    },
    Ended(End),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Choose,
    End(End),
}
