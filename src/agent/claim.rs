//! Fencing: becomes the owner of a run, at once where the former owner is known to be gone, else after watching it be silent.

use std::io;
use std::time::Duration;

use jiff::Timestamp;

use crate::supervise::Talk;
use crate::team::{self, Place};
use crate::tree;
use gpuplan_runstore::epoch::{Sight, takeover};
use gpuplan_runstore::{Epoch, Owner, Run, Start, StoreError, Takeover};

/// Heartbeats that a broken object may claim to have are not believed beyond this.
const LONGEST_HEARTBEAT: f64 = 120.0;

pub struct Claim<'a> {
    pub run: &'a Run,
    pub me: &'a Owner,
    /// Mark of this agent's children, and what the marks of the run's earlier agents on this machine begin with.
    pub mark: &'a str,
    pub prefix: &'a str,
    pub heartbeat: Duration,
    pub force: bool,
    /// Machines that run together.
    pub nodes: u32,
    pub talk: &'a dyn Talk,
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Exit as fenced.
    #[error("epoch {epoch} of the run is alive on {host}, process {pid}")]
    Alive { epoch: u64, host: String, pid: i32 },
    #[error("{0}")]
    Predecessor(io::Error),
}

impl Claim<'_> {
    /// The number of the new epoch. Afterwards no process of an earlier owner runs on this machine.
    pub async fn take(&self) -> Result<u64, ClaimError> {
        loop {
            let highest = self.run.highest_epoch().await?;
            let former = if highest == 0 { None } else { self.run.epoch(highest).await? };
            if let Some(former) = &former {
                self.watch(highest, former).await?;
            }
            let restored_from = self.run.restore_order().await?.first().copied();
            let heartbeat_seconds = self.heartbeat.as_secs_f64();
            let epoch = Epoch {
                owner: self.me.clone(),
                started_at: Timestamp::now(),
                heartbeat_seconds,
                restored_from,
                nodes: self.nodes,
            };
            if self.run.claim(highest + 1, &epoch).await? {
                let same_machine = former.map(|former| former.owner).filter(|owner| owner.machine == self.me.machine);
                tree::end_predecessor(same_machine.as_ref(), self.prefix, self.mark)
                    .map_err(ClaimError::Predecessor)?;
                return Ok(highest + 1);
            }
            // Somebody was faster. Now it is the owner to be watched.
        }
    }

    /// Joins the epoch of the first machine. Afterwards no process of an earlier agent for this node runs on this machine.
    pub async fn join(&self, place: Place) -> Result<(u64, Start), ClaimError> {
        let highest = self.run.highest_epoch().await?;
        let former = if highest == 0 { None } else { self.run.member(highest, place.node).await? };
        let same_machine = former.map(|former| former.owner).filter(|owner| owner.machine == self.me.machine);
        // One that still lives sees by itself that its epoch is over.
        while same_machine.as_ref().is_some_and(tree::is_alive) {
            tokio::time::sleep(team::LOOK).await;
        }
        tree::end_predecessor(same_machine.as_ref(), self.prefix, self.mark).map_err(ClaimError::Predecessor)?;
        Ok(team::join(self.run, place, self.me, self.talk).await?)
    }

    /// Returns when the former owner may be replaced.
    async fn watch(&self, number: u64, former: &Epoch) -> Result<(), ClaimError> {
        let same_machine = former.owner.machine == self.me.machine;
        let pace = Duration::from_secs_f64(former.heartbeat_seconds.clamp(0.01, LONGEST_HEARTBEAT));
        let mut sight = Sight { same_machine, alive: false, phase: None, silent: 0, beats: false, force: self.force };
        let mut last = None;
        loop {
            let status = self.run.status(0).await?.filter(|status| status.epoch == number);
            let beat = status.as_ref().map(|status| status.beat);
            sight.phase = status.map(|status| status.phase);
            sight.alive = same_machine && tree::is_alive(&former.owner);
            if let Some(last) = last.replace(beat) {
                sight.beats = last != beat;
                sight.silent = if sight.beats { 0 } else { sight.silent + 1 };
            }
            match takeover(sight) {
                Takeover::Now => return Ok(()),
                Takeover::Refuse => {
                    return Err(ClaimError::Alive {
                        epoch: number,
                        host: former.owner.host.clone(),
                        pid: former.owner.pid,
                    });
                }
                Takeover::Watch => {
                    if sight.silent == 0 {
                        let host = &former.owner.host;
                        self.talk.say(&format!(
                            "epoch {number} may still run on {host}; watching for its heartbeat ({pace:?})"
                        ));
                    }
                    tokio::time::sleep(pace).await;
                }
            }
        }
    }
}
