//! `Epoch`: who owns a run, and when somebody else may take it over.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::layout::ManifestName;
use crate::status::Phase;

/// A living owner writes a status at every heartbeat; after so many without one it is taken to be gone.
pub const SILENT_HEARTBEATS: u32 = 3;

/// An object `epochs/<n>`, create-only: the highest number owns the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    pub owner: Owner,
    pub started_at: Timestamp,
    /// Seconds between two status objects of this owner.
    pub heartbeat_seconds: f64,
    /// The newest committed checkpoint at that time; what was in fact restored stands in the manifests that follow.
    pub restored_from: Option<ManifestName>,
    /// Machines that run together; this owner is the first of them.
    #[serde(default = "one")]
    pub nodes: u32,
}

fn one() -> u32 {
    1
}

/// One process of one boot of one machine; no other process ever has the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Boot and process namespace, so that a machine that started again and a second container count as others.
    pub machine: String,
    pub host: String,
    pub pid: i32,
    /// Clock ticks between boot and the start of the process: a process id is used again, this pair is not.
    pub start_ticks: u64,
    /// Folder of the control group that holds the program, if there is one.
    #[serde(default)]
    pub control_group: Option<String>,
}

impl Owner {
    /// A text that the owner's children carry in their environment, by which they are found when the owner is gone.
    pub fn mark(&self) -> String {
        format!("{}:{}:{}", self.machine, self.pid, self.start_ticks)
    }
}

/// What is known about the owner of the highest epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerActivity {
    pub same_machine: bool,
    /// Only known on the same machine.
    pub alive: bool,
    /// As its last status says; `None` if it wrote none in this epoch.
    pub phase: Option<Phase>,
    /// Heartbeats that were watched, by the watcher's own clock, without a new status.
    pub silent: u32,
    /// A new status came while watching.
    pub beats: bool,
    /// The user says that nobody else runs.
    pub force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    Now,
    /// Look again after a heartbeat.
    Watch,
    /// Somebody else works on the run.
    Refuse,
}

/// Clocks of two machines are never compared: time is counted in heartbeats that the watcher waited itself.
pub fn takeover(activity: OwnerActivity) -> Takeover {
    let is_gone = activity.same_machine && !activity.alive;
    if activity.force || is_gone || activity.phase == Some(Phase::Ended) || activity.silent >= SILENT_HEARTBEATS {
        return Takeover::Now;
    }
    // Who is about to stop is waited for.
    if activity.beats && activity.phase == Some(Phase::Running) { Takeover::Refuse } else { Takeover::Watch }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: OwnerActivity = OwnerActivity {
        same_machine: false,
        alive: false,
        phase: Some(Phase::Running),
        silent: 0,
        beats: false,
        force: false,
    };

    #[test]
    fn only_an_owner_known_to_be_gone_is_replaced_at_once() {
        assert_eq!(takeover(FAR), Takeover::Watch);
        assert_eq!(takeover(OwnerActivity { same_machine: true, alive: true, ..FAR }), Takeover::Watch);
        assert_eq!(takeover(OwnerActivity { same_machine: true, ..FAR }), Takeover::Now);
        assert_eq!(takeover(OwnerActivity { phase: Some(Phase::Ended), ..FAR }), Takeover::Now);
        assert_eq!(takeover(OwnerActivity { force: true, beats: true, ..FAR }), Takeover::Now);
    }

    #[test]
    fn a_silent_owner_is_replaced_and_a_working_one_left_alone() {
        assert_eq!(takeover(OwnerActivity { silent: 2, ..FAR }), Takeover::Watch);
        assert_eq!(takeover(OwnerActivity { silent: 3, ..FAR }), Takeover::Now);
        assert_eq!(takeover(OwnerActivity { beats: true, ..FAR }), Takeover::Refuse);
        assert_eq!(takeover(OwnerActivity { beats: true, phase: Some(Phase::Draining), ..FAR }), Takeover::Watch);
    }
}
