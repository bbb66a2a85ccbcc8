//! `Supervisor`: what one life of an agent knows and holds, and why a life may end without an outcome.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::event::Event;
use crate::life::Life;
use crate::ports::logger::Logger;
use crate::process::control_group::ControlGroup;
use crate::process::output::Logs;
use crate::rules::outcome::{Exit, Outcome, StopReason};
use crate::rules::stall::Stall;
use crate::staging::StagingError;
use crate::supervise::settings::Settings;
use crate::team::claim::ClaimError;
use crate::watch::heartbeat::Heartbeat;
use crate::watch::sampler::Sampler;
use gpuplan_runstore::{Rendezvous, Start, StoreError};
use gpuplan_telemetry::host::UnrelatedProcesses;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Staging(#[from] StagingError),
    #[error("{0}")]
    Machine(#[from] std::io::Error),
    /// To start from nothing could cost weeks, so the user has to say it.
    #[error("{0} checkpoints are committed and none of them verifies")]
    NothingVerifies(usize),
    #[error("the checkpoint that the first machine restored cannot be used here: {0}")]
    Apart(String),
}

/// How the run is about to end, and how its program did.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) reason: Option<StopReason>,
    /// When the whole tree is killed, and when the machine may be gone.
    pub(super) kill_at: Option<Instant>,
    pub(super) leave_by: Option<Instant>,
    pub(super) exit: Option<Exit>,
    /// Why the program was not started.
    pub(super) why: Option<String>,
    /// All that the program completed is safe.
    pub(super) is_synced: bool,
}

impl Default for Ending {
    fn default() -> Self {
        Self { reason: None, kill_at: None, leave_by: None, exit: None, why: None, is_synced: true }
    }
}

/// What is said once.
#[derive(Clone, Debug, Default)]
pub(super) struct Warned {
    /// The highest share of the budget that was told, percent.
    pub(super) budget_percent: Option<u32>,
    /// The disk has no room for another checkpoint.
    pub(super) is_short_of_disk: bool,
    pub(super) output_is_lost: bool,
}

/// What watches the program and its machine.
pub(super) struct Monitors {
    pub(super) stall: Stall,
    pub(super) sampler: Sampler,
    /// The last look at the table of processes, and who is none of ours.
    pub(super) processes_seen_at: Instant,
    pub(super) strangers: UnrelatedProcesses,
}

/// What the machines of a team start from and where their programs meet.
#[derive(Clone, Default)]
pub(super) struct Meeting {
    /// As the first machine said it, on every other.
    pub(super) start: Option<Start>,
    pub(super) rendezvous: Option<Rendezvous>,
}

pub(super) struct Supervisor {
    pub(super) settings: Settings,
    pub(super) logger: Arc<dyn Logger>,
    pub(super) life: Life,
    /// Carried by every process of the program.
    pub(super) mark: String,
    pub(super) group: Option<ControlGroup>,
    /// From the tasks of this life.
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) ending: Ending,
    pub(super) meeting: Meeting,
    pub(super) logs: Option<Logs>,
    pub(super) monitors: Monitors,
    pub(super) warned: Warned,
    /// Messages to people that are under way.
    pub(super) notifications: JoinSet<()>,
}

impl Supervisor {
    pub(super) fn heartbeat(&self) -> Heartbeat {
        Heartbeat { life: self.life.clone(), caps: self.settings.caps }
    }

    /// A program that says it is done while its last checkpoint could not be made safe is worth another start elsewhere.
    pub(super) fn outcome(&self, exit: Exit) -> Outcome {
        match Outcome::judge(self.ending.reason, exit) {
            Outcome::Completed if !self.ending.is_synced => Outcome::Interrupted,
            outcome => outcome,
        }
    }
}
