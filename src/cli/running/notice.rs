//! A notice before an end: the program saves, its last checkpoint goes into the store, and only then are machines ended.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::running::terminate::depose_elsewhere;
use crate::runs::journal::open_journal;
use crate::runs::launchers::{Launchers, launchers_of_run};
use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::progress::with_progress;
use crate::session::runtime::runtime;
use gpuplan_launch::execute::ask_to_stop;
use gpuplan_launch::journal::RunRecord;
use gpuplan_launch::{End, MachineState};
use gpuplan_runstore::{Phase, Run, Status, StoreError};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// An agent looks for a notice at every heartbeat, of ten seconds; one that says nothing for so long does not hear it.
const SILENT: Duration = Duration::from_mins(1);
/// Of a silence: what counts at most between two looks. A cloud may take minutes to list its machines, and nobody listens meanwhile.
const LONGEST_STEP: Duration = Duration::from_secs(5);
/// A checkpoint that is not in the store by then is given up.
const LONGEST: Duration = Duration::from_mins(15);

/// Tells the machines of a run to save and end, and waits until they did. Whoever leads the run starts nothing any more. What cannot be
/// told or waited for is said, and keeps nobody from ending the machines.
pub fn give(kept: &RunRecord, session: &Session) -> Result<(), Diagnostic> {
    let run = &kept.spec.run;
    if kept.end.is_some() || kept.machines.iter().all(|machine| machine.is_over) {
        return Ok(());
    }
    let mut journal = open_journal(session)?;
    journal.end(run, &End::Stopped, Timestamp::now())?;
    depose_elsewhere(kept, &mut journal, session);
    let waiting = || format!("waiting for {run} to save; `gpuplan stop --at-once` does not wait");
    let saved = with_progress(&session.printer, waiting, || {
        let (store, clouds) = (store_of_run(&kept.spec)?, launchers_of_run(&kept.spec, session)?);
        runtime()?.block_on(until_saved(&store, &clouds, kept)).map_err(Diagnostic::from)
    });
    match saved {
        Ok(Some(status)) => {
            session.printer.note(&match status.committed {
                Some(name) => format!("gpuplan: {run} has saved and ended: step {} is safe", name.step),
                None => format!(
                    "gpuplan: {run} has ended, and nothing of it is safe: no whole checkpoint was seen; `--checkpoints DIR` says where a program saves"
                ),
            });
        }
        Ok(None) => session.printer.warning(&format!("{run} did not answer its notice; what it has not saved is lost")),
        Err(error) => session.printer.warning(&format!("{run} could not be told to save: {}", error.message)),
    }
    Ok(())
}

/// The last status of the first machine, once every machine has ended by itself; `None`: they do not answer, or take too long.
async fn until_saved(store: &Run, clouds: &Launchers, kept: &RunRecord) -> Result<Option<Status>, StoreError> {
    if !ask_to_stop(store).await? {
        return Ok(None);
    }
    let epoch = store.highest_epoch().await?;
    let (begun, mut silence, mut known, mut is_gone) = (Instant::now(), Silence::default(), Vec::new(), false);
    while begun.elapsed() < LONGEST {
        let mut all = Vec::new();
        for node in 0..kept.spec.nodes {
            all.push(store.status(node).await?.filter(|status| status.epoch == epoch));
        }
        if all.iter().all(|status| status.as_ref().is_some_and(|status| status.phase == Phase::Ended)) {
            return Ok(all.into_iter().next().flatten());
        }
        let is_news = all != known;
        if is_gone || silence.after_a_look(Instant::now(), is_news) >= SILENT {
            return Ok(None);
        }
        if is_news {
            known = all;
        } else if are_gone(clouds, &kept.spec.run).await {
            // Their last words may have come after the look above, and before they went.
            is_gone = true;
            continue;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
}

/// For how long looks have shown nothing new.
#[derive(Default)]
struct Silence {
    lasted: Duration,
    looked_at: Option<Instant>,
}

impl Silence {
    fn after_a_look(&mut self, now: Instant, is_news: bool) -> Duration {
        let step = self.looked_at.map_or(Duration::ZERO, |before| now - before).min(LONGEST_STEP);
        self.lasted = if is_news { Duration::ZERO } else { self.lasted + step };
        self.looked_at = Some(now);
        self.lasted
    }
}

/// Whether nothing is left that could save. A cloud that does not answer may have something.
async fn are_gone(clouds: &Launchers, run: &str) -> bool {
    for cloud in clouds {
        let listed = cloud.list(Some(run)).await;
        if listed.is_ok_and(|machines| machines.iter().all(|machine| machine.state == MachineState::Gone)) {
            continue;
        }
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_that_takes_minutes_to_answer_makes_no_machine_silent() {
        let (mut silence, begun) = (Silence::default(), Instant::now());
        let mut look = |seconds, is_news| silence.after_a_look(begun + Duration::from_secs(seconds), is_news) >= SILENT;
        assert!(!look(0, true) && !look(1, false), "it has spoken a moment ago");
        assert!(!look(181, false), "nobody looked for three minutes");
        assert!(!look(182, true));
        assert!(!(183..242).any(|second| look(second, false)));
        assert!(look(242, false), "a minute of looks in which it says nothing");
    }
}
