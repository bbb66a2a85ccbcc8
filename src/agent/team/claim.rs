//! Fencing: becomes the owner of a run, at once where the former owner is known to be gone, else after watching it be silent.

use std::io;
use std::time::Duration;

use jiff::Timestamp;

use crate::ports::logger::Logger;
use crate::process::tree;
use crate::team::members;
use crate::team::rank::Rank;
use gpuplan_runstore::epoch::{OwnerActivity, takeover};
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
    /// Who leads has ordered this machine: an owner that is alive saves and ends before it, and is waited for.
    pub is_ordered: bool,
    /// Machines that run together.
    pub nodes: u32,
    pub logger: &'a dyn Logger,
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Exit as fenced.
    #[error("epoch {epoch} of the run is alive on {owner}")]
    Alive { epoch: u64, owner: String },
    /// The leader that rented this machine leads no more. Exit as fenced.
    #[error("leader {lead}, which rented this machine, was followed by {by}, who does not go on with it")]
    Deposed { lead: u64, by: String },
    #[error("{0}")]
    Predecessor(io::Error),
}

impl Claim<'_> {
    /// The number of the new epoch. Afterwards no process of an earlier owner runs on this machine.
    pub async fn take(&self) -> Result<u64, ClaimError> {
        loop {
            let highest = self.run.highest_epoch().await?;
            let former = if highest == 0 { None } else { self.owner_of(highest).await? };
            let next = self.run.epoch_after(highest)?;
            if highest > 0 {
                self.watch(highest, former.as_ref()).await?;
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
            if self.run.claim(next, &epoch).await? {
                let same_machine = former.map(|former| former.owner).filter(|owner| owner.machine == self.me.machine);
                tree::end_predecessor(same_machine.as_ref(), self.prefix, self.mark)
                    .map_err(ClaimError::Predecessor)?;
                return Ok(next);
            }
            // Somebody was faster. Now it is the owner to be watched.
        }
    }

    /// Joins the epoch of the first machine. Afterwards no process of an earlier agent for this node runs on this machine.
    pub async fn join(&self, rank: Rank) -> Result<(u64, Start), ClaimError> {
        let highest = self.run.highest_epoch().await?;
        let former = match self.run.member(highest, rank.node).await {
            // On this machine it is found by its mark.
            Err(StoreError::Unreadable { .. }) => None,
            former => former?,
        };
        let same_machine = former.map(|former| former.owner).filter(|owner| owner.machine == self.me.machine);
        // One that still lives sees by itself that its epoch is over.
        while same_machine.as_ref().is_some_and(tree::is_alive) {
            tokio::time::sleep(members::LOOK).await;
        }
        tree::end_predecessor(same_machine.as_ref(), self.prefix, self.mark).map_err(ClaimError::Predecessor)?;
        Ok(members::join(self.run, rank, self.me, self.logger).await?)
    }

    /// `None`: nobody can tell who it is.
    async fn owner_of(&self, number: u64) -> Result<Option<Epoch>, StoreError> {
        match self.run.epoch(number).await {
            Err(error @ StoreError::Unreadable { .. }) => {
                self.logger.say(&format!("warning: who owns the run is not known: {error}"));
                Ok(None)
            }
            former => former,
        }
    }

    /// Returns when the former owner may be replaced. One that is not known may live anywhere, with heartbeats like ours.
    async fn watch(&self, number: u64, former: Option<&Epoch>) -> Result<(), ClaimError> {
        let same_machine = former.is_some_and(|former| former.owner.machine == self.me.machine);
        let pace = former.map_or(self.heartbeat, |former| {
            Duration::from_secs_f64(former.heartbeat_seconds.clamp(0.01, LONGEST_HEARTBEAT))
        });
        let host = former.map_or("an unknown host", |former| former.owner.host.as_str());
        let mut activity =
            OwnerActivity { same_machine, alive: false, phase: None, silent: 0, beats: false, force: self.force };
        let mut last = None;
        loop {
            let status = match self.run.status(0).await {
                // What cannot be read is no sign of life.
                Err(StoreError::Unreadable { .. }) => None,
                status => status?.filter(|status| status.epoch == number),
            };
            let beat = status.as_ref().map(|status| status.beat);
            activity.phase = status.map(|status| status.phase);
            activity.alive = same_machine && former.is_some_and(|former| tree::is_alive(&former.owner));
            if let Some(last) = last.replace(beat) {
                activity.beats = last != beat;
                activity.silent = if activity.beats { 0 } else { activity.silent + 1 };
            }
            match takeover(activity) {
                Takeover::Now => return Ok(()),
                Takeover::Refuse if self.is_ordered => tokio::time::sleep(pace).await,
                Takeover::Refuse => {
                    let process = former.map_or_else(String::new, |former| format!(", process {}", former.owner.pid));
                    return Err(ClaimError::Alive { epoch: number, owner: format!("{host}{process}") });
                }
                Takeover::Watch => {
                    if activity.silent == 0 {
                        self.logger.say(&format!(
                            "epoch {number} may still run on {host}; watching for its heartbeat ({pace:?})"
                        ));
                    }
                    tokio::time::sleep(pace).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::ports::logger::Stream;
    use gpuplan_runstore::layout::Layout;
    use gpuplan_runstore::status::MachineStatus;
    use gpuplan_runstore::{Phase, Status, Store};

    /// An owner that beats whenever somebody says that it is watched for, if it lives.
    struct Watched {
        status: PathBuf,
        is_alive: bool,
        beat: AtomicU64,
    }

    impl Watched {
        fn beat(&self) {
            let (beat, at) = (self.beat.fetch_add(1, Ordering::SeqCst), Timestamp::now());
            let status = Status {
                epoch: 1,
                ordered_epoch: None,
                launched_at: None,
                phase: Phase::Running,
                beat,
                at,
                committed: None,
                progress: None,
                starts: 1,
                backlog_bytes: 0,
                upload_bytes_per_second: None,
                spent_usd: None,
                staged: None,
                is_done: None,
                warnings: Vec::new(),
                machine: MachineStatus::default(),
            };
            std::fs::create_dir_all(self.status.parent().unwrap()).unwrap();
            std::fs::write(&self.status, serde_json::to_vec(&status).unwrap()).unwrap();
        }
    }

    impl Logger for Watched {
        fn say(&self, line: &str) {
            if line.contains("watching for its heartbeat") && self.is_alive {
                self.beat();
            }
        }

        fn pass(&self, _: Stream, _: &[u8]) {}
    }

    /// What comes of a claim where the object that names the owner is torn.
    async fn claimed(is_alive: bool, is_ordered: bool) -> Result<u64, ClaimError> {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().display().to_string()).unwrap();
        store.write("runs/t/epochs/1", b"{\"owner\"".to_vec()).await.unwrap();
        let run = Run::new(store, Layout::new("t").unwrap());
        let logger = Watched { status: folder.path().join("runs/t/status/0.json"), is_alive, beat: AtomicU64::new(1) };
        logger.beat();
        let (me, prefix) = (tree::myself(Some("here")).unwrap(), format!("{}|", folder.path().display()));
        let heartbeat = Duration::from_millis(1);
        let claim = Claim {
            run: &run,
            me: &me,
            mark: "mine",
            prefix: &prefix,
            heartbeat,
            force: false,
            is_ordered,
            nodes: 1,
            logger: &logger,
        };
        claim.take().await
    }

    /// The next number would be 0, which is taken or forgotten: agents went round in a circle, a request a turn.
    #[tokio::test]
    async fn a_number_that_no_run_gets_to_is_no_epoch_and_the_last_one_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().display().to_string()).unwrap();
        let run = Run::new(store.clone(), Layout::new("t").unwrap());
        let logger = Watched { status: folder.path().join("none"), is_alive: false, beat: AtomicU64::new(1) };
        let (me, prefix) = (tree::myself(Some("here")).unwrap(), format!("{}|", folder.path().display()));
        let claim = || Claim {
            run: &run,
            me: &me,
            mark: "mine",
            prefix: &prefix,
            heartbeat: Duration::from_millis(1),
            force: true,
            is_ordered: false,
            nodes: 1,
            logger: &logger,
        };
        store.write(&format!("runs/t/epochs/{}", u64::MAX), b"{}".to_vec()).await.unwrap();
        assert_eq!(claim().take().await.unwrap(), 1, "somebody else put it there, and it is none");
        let last = (1_u64 << 53) - 1;
        store.write(&format!("runs/t/epochs/{last}"), b"{}".to_vec()).await.unwrap();
        let refused = claim().take().await.unwrap_err().to_string();
        assert!(refused.starts_with(&format!("runs/t/epochs/{last} cannot be read: no run gets")), "{refused}");
    }

    #[tokio::test]
    async fn an_owner_that_nobody_can_name_is_watched_and_left_alone_while_it_lives() {
        let refused = claimed(true, false).await.unwrap_err();
        assert_eq!(refused.to_string(), "epoch 1 of the run is alive on an unknown host");
        assert_eq!(claimed(false, false).await.unwrap(), 2, "one that is silent is replaced");
        assert_eq!(claimed(true, true).await.unwrap(), 2, "whoever was ordered beside it waits until it is silent");
    }
}
