//! `Supervisor`: what one life of an agent knows and holds, and why a life may end without an outcome.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::claim::ClaimError;
use crate::control_group::ControlGroup;
use crate::event::Event;
use crate::heart::Heart;
use crate::logs::Logs;
use crate::outcome::{Asked, Exit, Outcome};
use crate::pulse::Shared;
use crate::sample::Sampler;
use crate::staging::StagingError;
use crate::stall::Stall;
use crate::supervise::settings::Settings;
use crate::talk::Talk;
use gpuplan_runstore::{Rendezvous, Start, StoreError};
use gpuplan_telemetry::host::Strangers;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
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

/// How the run is about to end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    pub(super) asked: Option<Asked>,
    /// When the whole tree is killed, and when the machine may be gone.
    pub(super) kill_at: Option<Instant>,
    pub(super) leave_by: Option<Instant>,
}

pub(super) struct Supervisor {
    pub(super) settings: Settings,
    pub(super) talk: Arc<dyn Talk>,
    pub(super) mark: String,
    pub(super) group: Option<ControlGroup>,
    pub(super) epoch: u64,
    pub(super) begun: Instant,
    pub(super) begun_at: Timestamp,
    pub(super) pulse: Shared,
    pub(super) sender: mpsc::Sender<Event>,
    pub(super) events: mpsc::Receiver<Event>,
    pub(super) ending: Ending,
    /// What the first machine started from, on every other.
    pub(super) start: Option<Start>,
    pub(super) rendezvous: Option<Rendezvous>,
    pub(super) logs: Option<Logs>,
    pub(super) stall: Stall,
    pub(super) sampler: Sampler,
    /// It was said that the disk has no room for another checkpoint.
    pub(super) is_short_of_disk: bool,
    pub(super) telling: JoinSet<()>,
    /// The highest share of the budget that was told, percent.
    pub(super) told: Option<u32>,
    /// The last look at the processes, and who is none of ours.
    pub(super) looked: Instant,
    pub(super) strangers: Strangers,
    pub(super) exit: Option<Exit>,
    /// Why the program was not started.
    pub(super) why: Option<String>,
    pub(super) synced: bool,
    pub(super) output_lost: bool,
}

impl Supervisor {
    pub(super) fn heart(&self) -> Heart {
        let (run, pulse, events) = (self.settings.run.clone(), self.pulse.clone(), self.sender.clone());
        let Settings { heartbeat, caps, place, .. } = self.settings;
        Heart {
            run,
            epoch: self.epoch,
            place,
            pace: heartbeat,
            caps,
            begun: self.begun,
            begun_at: self.begun_at,
            pulse,
            events,
        }
    }

    /// A program that says it is done while its last checkpoint could not be made safe is worth another start elsewhere.
    pub(super) fn outcome(&self, exit: Exit) -> Outcome {
        match Outcome::of(self.ending.asked, exit) {
            Outcome::Completed if !self.synced => Outcome::Interrupted,
            outcome => outcome,
        }
    }
}
