//! `Settings`: what an agent is told as it starts.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::ports::notice::NoticeSource;
use crate::ports::notify::Notifier;
use crate::process::program::Signal;
use crate::rules::caps::Caps;
use crate::rules::framework::Framework;
use crate::rules::improvement::MetricQuestion;
use crate::rules::stall::OnStall;
use crate::staging::Data;
use crate::team::rank::Rank;
use gpuplan_runstore::history::Keep;
use gpuplan_runstore::{OrderedBy, Run};

/// What an agent is told as it starts.
pub struct Settings {
    pub run: Run,
    /// Address of the store, as the user wrote it.
    pub store: String,
    pub program: ProgramSettings,
    /// What the program reads; it is brought here first.
    pub data: Option<Data>,
    pub checkpoints: CheckpointSettings,
    pub team: TeamSettings,
    pub caps: Caps,
    /// Terms in which this machine lives; `None`: until `caps` says.
    pub lease: Option<LeaseSettings>,
    pub stall: StallSettings,
    pub notices: NoticeSettings,
    pub notifier: Option<Arc<dyn Notifier>>,
    /// What one more percent of a metric may cost.
    pub improvement: Option<MetricQuestion>,
    /// The program that tells of GPUs where there is no NVML.
    pub nvidia_smi: String,
}

/// How the program is started, heard and ended.
pub struct ProgramSettings {
    pub command: Vec<String>,
    /// What is started in place of the command: what carries the runs of a sweep.
    pub carrier: Option<Vec<String>>,
    /// What asks it to save and end.
    pub signal: Signal,
    /// Time to save and end where a signal or a cap asks for it; a cloud's notice says its own.
    pub grace: Duration,
    /// Before the first restart after a crash; `None`: it is not started again.
    pub first_pause: Option<Duration>,
    /// Keep its output in the store.
    pub keep_output: bool,
}

/// Where checkpoints appear, when they are complete and which are kept.
#[derive(Clone)]
pub struct CheckpointSettings {
    /// Absolute.
    pub folder: PathBuf,
    /// The folder of the job, somewhere below which the program may save all the same. `None`: the user said where it saves.
    pub job: Option<PathBuf>,
    pub framework: Framework,
    /// Without a marker a checkpoint is complete once nothing in it has changed for so long.
    pub settle: Duration,
    pub keep: Keep,
    /// Go on without a checkpoint although there were some, none of which verifies.
    pub restart_from_nothing: bool,
}

/// This machine among those of the run, and how it becomes the owner.
pub struct TeamSettings {
    pub rank: Rank,
    /// Who rented this machine, which begins only while it is wanted; `None`: nobody has to want it.
    pub ordered_by: Option<OrderedBy>,
    /// At which other machines reach this one; `None`: that of its default route.
    pub address: Option<IpAddr>,
    pub heartbeat: Duration,
    /// Take the run over from an owner that is alive.
    pub force: bool,
    /// Stands for this machine, in tests.
    pub machine: Option<String>,
}

/// How the machine lives on the share that was granted for it.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    /// Token of its order.
    pub order: String,
    pub term: Duration,
    /// From the start of the agent until the present term ends.
    pub ends: Duration,
    /// Until the share does.
    pub share_ends: Duration,
    /// Where the machine reads it, in seconds since it booted.
    pub file: PathBuf,
}

/// When a program counts as stalled, and what becomes of it.
pub struct StallSettings {
    /// Without a sign of life for so long; `None`: never.
    pub after: Option<Duration>,
    pub action: OnStall,
}

/// Who says that this machine will be taken away.
pub struct NoticeSettings {
    pub sources: Vec<Arc<dyn NoticeSource>>,
    /// A file whose appearance is a notice.
    pub file: Option<PathBuf>,
}
