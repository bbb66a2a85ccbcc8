//! `Status`: what an owner says about itself at every heartbeat. The only object besides the bill that is written again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::layout::ManifestName;
use gpuplan_units::Usd;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The data of the job is brought to this machine; nothing trains yet.
    Staging,
    Running,
    /// A notice came or a cap was reached: it saves and ends.
    Draining,
    Ended,
}

/// What an owner says about itself at every heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub epoch: u64,
    /// The gang that its leader ordered it for, as the leader counts them; `None`: nobody ordered it, or its agent is from before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered_epoch: Option<u64>,
    /// The launch that its machine was rented for; `None`: nobody launched it, or its agent is from before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched_at: Option<Timestamp>,
    pub phase: Phase,
    /// Counts up, so that two statuses are never the same.
    pub beat: u64,
    pub at: Timestamp,
    /// Newest checkpoint that is safe.
    pub committed: Option<ManifestName>,
    /// Step that the program reported itself.
    pub progress: Option<u64>,
    /// Times that the program was started in this epoch.
    pub starts: u32,
    /// Bytes of complete checkpoints that are not safe yet.
    pub backlog_bytes: u64,
    /// Measured while sending; `None` before the first file.
    pub upload_bytes_per_second: Option<f64>,
    /// Of all epochs; `None` without a price, or while a bill of another machine is not known.
    pub spent_usd: Option<Usd>,
    /// While and after data is staged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Staged>,
    /// Once it has ended: whether there is nothing left to do.
    #[serde(default)]
    pub is_done: Option<bool>,
    /// What went wrong and did not stop the run.
    pub warnings: Vec<String>,
    #[serde(flatten)]
    pub machine: MachineStatus,
}

impl Status {
    /// An agent of this launch has said that nothing is left to do. An earlier launch of the same name may have said so of its own.
    pub fn has_completed(&self, launch: Timestamp) -> bool {
        self.phase == Phase::Ended && self.is_done == Some(true) && self.launched_at == Some(launch)
    }
}

/// The machine as its agent last sampled it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineStatus {
    /// GPUs and host, in the words of a line of `profile run --jsonl`. `None` before the first look.
    #[serde(default)]
    pub sample: Option<serde_json::Value>,
    /// What costs time by the newest samples, the dearest first.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Room for checkpoints on the disk of this machine.
    #[serde(default)]
    pub disk_free_bytes: Option<u64>,
}

/// How much of the job's data is on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Staged {
    pub bytes: u64,
    pub of_bytes: u64,
    /// Of those that were fetched.
    pub bytes_per_second: f64,
}

/// Something that costs time and can be changed, by a rule of `profile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub rule: String,
    /// What was measured, in words and figures.
    pub evidence: String,
    pub advice: String,
    /// It holds since then without a break.
    pub since: Timestamp,
}
