//! Several machines on one run: the first owns the epoch and commits; the others join it, start from the same checkpoint and give
//! their files of each. Whoever has to leave, all leave; who falls silent is missed by the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::event::Event;
use crate::life::Life;
use crate::ports::logger::Logger;
use crate::state::with;
use crate::team::rank::Rank;
use gpuplan_runstore::epoch::SILENT_HEARTBEATS;
use gpuplan_runstore::team::union;
use gpuplan_runstore::{Leaving, Member, Owner, Phase, Run, Start, Status, StoreError, StoredFile, Wanted};

/// Between two looks at what the others say. A notice may leave 30 s for everything.
pub const LOOK: Duration = Duration::from_secs(1);
/// The others' files of a checkpoint are waited for so long; then a newer one has its turn.
const PARTS_WITHIN: Duration = Duration::from_mins(5);
/// Between two looks for them.
const PART_LOOK: Duration = Duration::from_millis(250);
/// Looks in a row without a new heartbeat before a machine is missed, however long they took: where this machine stood still, the
/// others may have, too, and are about to speak.
const SILENT_LOOKS: u32 = SILENT_HEARTBEATS + 2;

/// Joins the epoch of a first machine that is seen to work, and waits for what it starts from. The number of the epoch.
pub async fn join(run: &Run, rank: Rank, me: &Owner, logger: &dyn Logger) -> Result<(u64, Start), StoreError> {
    logger.say(&format!("node {} of {}: waiting for the first machine", rank.node, rank.nodes));
    let (mut seen, mut joined) = (None, None);
    loop {
        let epoch = run.highest_epoch().await?;
        let status = status_of(run, epoch, 0).await?;
        let beat = status.filter(|status| status.phase == Phase::Running).map(|status| status.beat);
        let now = beat.map(|beat| (epoch, beat));
        // A status that stays the same may be of a machine that is gone; one that changed is of a machine that works.
        let is_alive =
            matches!((seen, now), (Some((before, first)), Some((after, second))) if before == after && first != second);
        if joined.is_none_or(|joined| joined != epoch) && is_alive {
            let is_ours = run.join(epoch, rank.node, &Member { owner: me.clone() }).await?;
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
pub async fn gather(run: &Run, epoch: u64, rank: Rank, logger: &dyn Logger) -> Result<(), StoreError> {
    for node in rank.others() {
        let mut is_told = false;
        while !run.has_joined(epoch, node).await? {
            if !is_told {
                let nodes = rank.nodes;
                logger.say(&format!(
                    "waiting for node {node} of {nodes}; to go on without it, stop all machines and start them with a smaller --nodes"
                ));
            }
            is_told = true;
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}

/// The last news of a machine.
struct LastSeen {
    node: u32,
    beat: Option<u64>,
    since: Instant,
    /// Looks since then.
    looks: u32,
}

impl LastSeen {
    fn new(node: u32, beat: Option<u64>) -> Self {
        Self { node, beat, since: Instant::now(), looks: 0 }
    }

    fn is_silent(&self, heartbeat: Duration) -> bool {
        self.looks >= SILENT_LOOKS && self.since.elapsed() > heartbeat * SILENT_HEARTBEATS + LOOK * 2
    }
}

/// Of a machine in this epoch. `None`: it has not come yet, or what it says cannot be read, which is no sign of life.
async fn status_of(run: &Run, epoch: u64, node: u32) -> Result<Option<Status>, StoreError> {
    match run.status(node).await {
        Err(StoreError::Unreadable { .. }) => Ok(None),
        status => Ok(status?.filter(|status| status.epoch == epoch)),
    }
}

/// Why all leave, where any other machine does. A store that is away says nothing.
pub async fn leaving(run: &Run, epoch: u64, rank: Rank) -> Option<(u32, Leaving)> {
    let leaves = |from: &str| Leaving {
        from: from.to_owned(),
        seconds_left: 0.0,
        is_cap: false,
        is_stall: false,
        is_failure: false,
    };
    for node in rank.others() {
        match run.leaving(epoch, node).await {
            Ok(Some(leaving)) => return Some((node, leaving)),
            Err(error @ StoreError::Unreadable { .. }) => {
                return Some((node, leaves(&format!("has to leave ({error})"))));
            }
            Ok(None) | Err(_) => {}
        }
    }
    None
}

/// Hears what the other machines say: the first hears all, the others hear all about leaving and watch the first.
pub async fn listen(life: Life) {
    let Life { run, epoch, rank, heartbeat, state, events, .. } = life;
    let watched = rank.others().filter(|node| rank.is_first() || *node == 0);
    let mut others: Vec<LastSeen> = watched.map(|node| LastSeen::new(node, None)).collect();
    loop {
        if let Some((node, leaving)) = leaving(&run, epoch, rank).await {
            let _ = events.send(Event::PeerLeaves { node, leaving }).await;
            return;
        }
        for other in &mut others {
            // A store that is away says nothing about the machine.
            let Ok(status) = status_of(&run, epoch, other.node).await else {
                *other = LastSeen::new(other.node, other.beat);
                continue;
            };
            let beat = status.as_ref().map(|status| status.beat);
            // Machines boot at different times: who has not come yet is not missed.
            let may_still_come = beat.is_none() && !with(&state, |state| state.is_assembled);
            let is_done =
                status.as_ref().is_some_and(|status| status.phase == Phase::Ended && status.is_done == Some(true));
            if beat != other.beat || may_still_come || is_done {
                *other = LastSeen::new(other.node, beat);
            }
            other.looks += 1;
            let why = match status {
                Some(status) if status.phase == Phase::Ended && !is_done => "failed",
                _ if other.is_silent(heartbeat) => "has fallen silent",
                _ => continue,
            };
            let leaving =
                Leaving { from: why.to_owned(), seconds_left: 0.0, is_cap: false, is_stall: false, is_failure: false };
            let _ = events.send(Event::PeerLeaves { node: other.node, leaving }).await;
            return;
        }
        tokio::time::sleep(LOOK.min(heartbeat)).await;
    }
}

/// Returns when every other machine that takes part has been seen to work on, or to be done, since the call. Who is told to leave, or is
/// gone, never is: then `listen` says so.
///
/// A status that is there at the first look may have been written before, and the next one may have been under way; the one after that
/// was not.
pub async fn all_work_on(run: &Run, epoch: u64, rank: Rank, heartbeat: Duration) {
    let mut first: BTreeMap<u32, u64> = BTreeMap::new();
    let mut waiting: Vec<u32> = rank.others().collect();
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for node in waiting {
            let works_on = match run.status(node).await {
                Ok(Some(status)) if status.epoch == epoch => match (status.phase, status.is_done) {
                    (Phase::Ended, Some(true)) => true,
                    (Phase::Running | Phase::Staging, _) => {
                        *first.entry(node).or_insert(status.beat) + 2 <= status.beat
                    }
                    _ => false,
                },
                // It has not come yet, so it has not gone.
                Ok(_) => true,
                Err(_) => false,
            };
            if !works_on {
                still.push(node);
            }
        }
        waiting = still;
        if !waiting.is_empty() {
            tokio::time::sleep(LOOK.min(heartbeat)).await;
        }
    }
}

/// Whether the first machine has ended, so that nobody will ask for files any more.
pub async fn first_has_ended(run: &Run, epoch: u64) -> bool {
    let status = status_of(run, epoch, 0).await;
    let has_ended = status.is_ok_and(|status| status.is_some_and(|status| status.phase == Phase::Ended));
    has_ended || run.has_epoch(epoch + 1).await.unwrap_or(false)
}

/// The files of all machines of a checkpoint that the first one has complete and in the store.
pub async fn collect(
    run: &Run,
    epoch: u64,
    rank: Rank,
    wanted: &Wanted,
    own: Vec<StoredFile>,
) -> Result<Vec<StoredFile>, StoreError> {
    run.want(epoch, wanted).await?;
    let begun = Instant::now();
    let mut parts = vec![(rank.node, own)];
    for node in rank.others() {
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use gpuplan_runstore::Store;
    use gpuplan_runstore::layout::Layout;
    use gpuplan_runstore::status::MachineStatus;

    fn status(phase: Phase, beat: u64) -> Status {
        Status {
            epoch: 1,
            ordered_epoch: None,
            launched_at: None,
            phase,
            beat,
            at: Timestamp::UNIX_EPOCH,
            committed: None,
            progress: None,
            starts: 1,
            backlog_bytes: 0,
            upload_bytes_per_second: None,
            spent_usd: None,
            staged: None,
            is_done: (phase == Phase::Ended).then_some(true),
            warnings: Vec::new(),
            machine: MachineStatus::default(),
        }
    }

    #[tokio::test]
    async fn a_machine_works_on_if_it_is_heard_of_anew_and_who_was_told_to_leave_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("t").unwrap());
        let rank = Rank { node: 0, nodes: 4 };
        // The third is done, and the fourth has not come yet.
        run.write_status(1, &status(Phase::Running, 5)).await.unwrap();
        run.write_status(2, &status(Phase::Ended, 0)).await.unwrap();
        let looking = all_work_on(&run, 1, rank, Duration::from_millis(1));
        tokio::pin!(looking);
        for (phase, beat) in [(Phase::Running, 5), (Phase::Running, 6), (Phase::Draining, 9)] {
            run.write_status(1, &status(phase, beat)).await.unwrap();
            let a_while = tokio::time::timeout(Duration::from_millis(50), looking.as_mut()).await;
            assert!(a_while.is_err(), "{phase:?} {beat}");
        }
        run.write_status(1, &status(Phase::Running, 10)).await.unwrap();
        tokio::time::timeout(Duration::from_mins(3), looking).await.unwrap();
    }

    #[tokio::test]
    async fn a_word_of_leaving_that_cannot_be_read_is_one_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().display().to_string()).unwrap();
        let run = Run::new(store.clone(), Layout::new("t").unwrap());
        let rank = Rank { node: 0, nodes: 3 };
        assert_eq!(leaving(&run, 1, rank).await, None);
        store.write("runs/t/leaving/e1/2.json", b"{".to_vec()).await.unwrap();
        let (node, told) = leaving(&run, 1, rank).await.unwrap();
        assert!(node == 2 && told.from.contains("leaving/e1/2.json") && !told.is_failure, "{told:?}");
    }
}
