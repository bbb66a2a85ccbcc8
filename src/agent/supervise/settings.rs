//! `Settings`: what an agent is told as it starts.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::caps::Caps;
use crate::checkpoint::Framework;
use crate::notice::NoticeSource;
use crate::notify::Notifier;
use crate::place::Place;
use crate::program::Signal;
use crate::staging::Data;
use crate::stall::OnStall;
use crate::worth::Question;
use gpuplan_runstore::Run;
use gpuplan_runstore::history::Keep;

pub struct Settings {
    pub run: Run,
    /// As the user wrote it.
    pub store: String,
    pub command: Vec<String>,
    /// What is started in place of the command: what carries the runs of a sweep.
    pub carrier: Option<Vec<String>>,
    /// Checkpoint folder, absolute.
    pub folder: PathBuf,
    /// What the program reads; it is brought here first.
    pub data: Option<Data>,
    pub framework: Framework,
    pub settle: Duration,
    pub heartbeat: Duration,
    /// Time to save and end where a signal or a cap asks for it; a cloud's notice says its own.
    pub grace: Duration,
    /// Before the first restart after a crash.
    pub first_pause: Duration,
    pub keep: Keep,
    pub caps: Caps,
    pub force: bool,
    /// Go on without a checkpoint although there were some, none of which verifies.
    pub restart_from_nothing: bool,
    pub place: Place,
    /// At which other machines reach this one; `None`: that of its default route.
    pub address: Option<IpAddr>,
    /// Keep the program's output in the store.
    pub keep_output: bool,
    /// Without a sign of life for so long the program is stalled.
    pub stall: Option<Duration>,
    pub on_stall: OnStall,
    /// What asks the program to save and end.
    pub signal: Signal,
    pub worth: Option<Question>,
    /// The program that tells of GPUs where there is no NVML.
    pub nvidia_smi: String,
    pub notifier: Option<Arc<dyn Notifier>>,
    /// Stands for this machine, in tests.
    pub machine: Option<String>,
    /// A file whose appearance is a notice.
    pub notice_from: Option<PathBuf>,
    pub notices: Vec<Arc<dyn NoticeSource>>,
}
