//! `Life`: one agent on one machine in one epoch, as all its tasks know it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::event::Event;
use crate::state::SharedState;
use crate::team::rank::Rank;
use gpuplan_runstore::{OrderedBy, Run};

/// One agent on one machine in one epoch. Cheap to clone: each task has its own.
#[derive(Clone)]
pub struct Life {
    pub run: Run,
    pub epoch: u64,
    /// Whoever leads the run, and for which gang it ordered this machine.
    pub ordered_by: Option<OrderedBy>,
    pub rank: Rank,
    /// Between two heartbeats.
    pub heartbeat: Duration,
    pub begun: Instant,
    pub begun_at: Timestamp,
    pub state: SharedState,
    /// To the supervisor.
    pub events: mpsc::Sender<Event>,
}
