//! Several machines on one run: the first owns the epoch and commits; the others join it, start from the same checkpoint and give
//! their files of each. Whoever has to leave, all leave; who falls silent is missed by the others.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::heart::{Event, Shared, with};
use crate::supervise::Talk;
use gpuplan_runstore::epoch::SILENT_HEARTBEATS;
use gpuplan_runstore::team::union;
use gpuplan_runstore::{Leaving, Member, Owner, Phase, Run, Start, StoreError, StoredFile, Wanted};

/// Between two looks at what the others say. A notice may leave 30 s for everything.
pub const LOOK: Duration = Duration::from_secs(1);
/// The others' files of a checkpoint are waited for so long; then a newer one has its turn.
const PARTS_WITHIN: Duration = Duration::from_mins(5);
/// Between two looks for them.
const PART_LOOK: Duration = Duration::from_millis(250);

/// Folder of the first machine's agent among the checkpoints; others' have their number behind it.
const OWN_FOLDER: &str = ".gpuplan";

/// Which machine of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub node: u32,
    pub nodes: u32,
}

impl Place {
    pub const ALONE: Self = Self { node: 0, nodes: 1 };

    pub fn is_first(self) -> bool {
        self.node == 0
    }

    /// The agent's own folder among the checkpoints, where several machines may share them.
    pub fn own_folder(self, checkpoints: &Path) -> PathBuf {
        checkpoints.join(if self.is_first() { OWN_FOLDER.to_owned() } else { format!("{OWN_FOLDER}-{}", self.node) })
    }

    pub fn is_alone(self) -> bool {
        self.nodes <= 1
    }

    fn others(self) -> impl Iterator<Item = u32> {
        (0..self.nodes).filter(move |node| *node != self.node)
    }
}

/// Joins the epoch of a first machine that is seen to work, and waits for what it starts from. The number of the epoch.
pub async fn join(run: &Run, place: Place, me: &Owner, talk: &dyn Talk) -> Result<(u64, Start), StoreError> {
    talk.say(&format!("node {} of {}: waiting for the first machine", place.node, place.nodes));
    let (mut seen, mut joined) = (None, None);
    loop {
        let epoch = run.highest_epoch().await?;
        let beat = run
            .status(0)
            .await?
            .filter(|status| status.epoch == epoch && status.phase == Phase::Running)
            .map(|status| status.beat);
        let now = beat.map(|beat| (epoch, beat));
        // A status that stays the same may be of a machine that is gone; one that changed is of a machine that works.
        let is_alive =
            matches!((seen, now), (Some((before, first)), Some((after, second))) if before == after && first != second);
        if joined.is_none_or(|joined| joined != epoch) && is_alive {
            let is_ours = run.join(epoch, place.node, &Member { owner: me.clone() }).await?;
            joined = is_ours.then_some(epoch);
        }
        seen = now.or(seen);
        if let Some(epoch) = joined.filter(|joined| *joined == epoch)
            && let Some(start) = run.started(epoch).await?
        {
            return Ok((epoch, start));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until every other machine takes part.
pub async fn gather(run: &Run, epoch: u64, place: Place, talk: &dyn Talk) -> Result<(), StoreError> {
    for node in place.others() {
        let mut is_told = false;
        while !run.has_joined(epoch, node).await? {
            if !is_told {
                let nodes = place.nodes;
                talk.say(&format!(
                    "waiting for node {node} of {nodes}; without it: end all and start them with a smaller --nodes"
                ));
            }
            is_told = true;
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// Hears what the other machines say: the first hears all, the others hear all about leaving and watch the first.
pub async fn listen(
    run: Run,
    epoch: u64,
    place: Place,
    heartbeat: Duration,
    (pulse, events): (Shared, mpsc::Sender<Event>),
) {
    let watched: Vec<u32> = place.others().filter(|node| place.is_first() || *node == 0).collect();
    let mut sights: Vec<(u32, Option<u64>, Instant)> =
        watched.into_iter().map(|node| (node, None, Instant::now())).collect();
    loop {
        for node in place.others() {
            if let Ok(Some(leaving)) = run.leaving(epoch, node).await {
                let _ = events.send(Event::PeerLeaves { node, leaving }).await;
                return;
            }
        }
        for (node, last, changed) in &mut sights {
            // A store that is away says nothing about the machine.
            let Ok(status) = run.status(*node).await else {
                *changed = Instant::now();
                continue;
            };
            let status = status.filter(|status| status.epoch == epoch);
            let beat = status.as_ref().map(|status| status.beat);
            // Machines boot at different times: who has not come yet is not missed.
            let may_still_come = beat.is_none() && !with(&pulse, |pulse| pulse.is_assembled);
            if beat != *last || may_still_come {
                (*last, *changed) = (beat, Instant::now());
            }
            let why = match status {
                Some(status) if status.phase == Phase::Ended && status.is_done == Some(true) => {
                    *changed = Instant::now();
                    continue;
                }
                Some(status) if status.phase == Phase::Ended => "failed",
                _ if changed.elapsed() > heartbeat * SILENT_HEARTBEATS + LOOK * 2 => "has fallen silent",
                _ => continue,
            };
            let leaving = Leaving { from: why.to_owned(), seconds_left: 0.0, is_cap: false, is_failure: false };
            let _ = events.send(Event::PeerLeaves { node: *node, leaving }).await;
            return;
        }
        tokio::time::sleep(LOOK.min(heartbeat)).await;
    }
}

/// Whether the first machine has ended, so that nobody will ask for files any more.
pub async fn first_has_ended(run: &Run, epoch: u64) -> bool {
    let status = run.status(0).await;
    let has_ended =
        status.is_ok_and(|status| status.is_some_and(|status| status.epoch == epoch && status.phase == Phase::Ended));
    has_ended || run.has_epoch(epoch + 1).await.unwrap_or(false)
}

/// The files of all machines of a checkpoint that the first one has complete and in the store.
pub async fn collect(
    run: &Run,
    epoch: u64,
    place: Place,
    wanted: &Wanted,
    own: Vec<StoredFile>,
) -> Result<Vec<StoredFile>, StoreError> {
    run.want(epoch, wanted).await?;
    let begun = Instant::now();
    let mut parts = vec![(place.node, own)];
    for node in place.others() {
        loop {
            if let Some(part) = run.part(epoch, wanted.step, node).await? {
                parts.push((node, part.files));
                break;
            }
            if begun.elapsed() > PARTS_WITHIN {
                let detail = format!("node {node} did not send its files of step {}", wanted.step);
                return Err(StoreError::Unavailable { key: wanted.name.clone(), detail });
            }
            tokio::time::sleep(PART_LOOK).await;
        }
    }
    Ok(union(parts))
}
