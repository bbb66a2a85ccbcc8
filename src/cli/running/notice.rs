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
use gpuplan_launch::controller::liveness::{Liveness, Sign};
use gpuplan_launch::execute::ask_to_stop;
use gpuplan_launch::journal::RunRecord;
use gpuplan_launch::{End, MachineState};
use gpuplan_runstore::{Phase, Run, Status, StoreError};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// An agent looks for a notice at every heartbeat, of ten seconds; one that says nothing for so long does not hear it. Seconds.
const SILENT: f64 = 60.0;
/// Of a silence: what counts at most between two looks. A cloud may take minutes to list its machines, and nobody listens meanwhile. Seconds.
const LONGEST_STEP: f64 = 5.0;
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
    let (begun, mut liveness, mut is_gone) = (Instant::now(), Liveness::watched_since(0.0), false);
    while begun.elapsed() < LONGEST {
        let mut all = Vec::new();
        for node in 0..kept.spec.nodes {
            all.push(store.status(node).await?.filter(|status| status.epoch == epoch));
        }
        if all.iter().all(|status| status.as_ref().is_some_and(|status| status.phase == Phase::Ended)) {
            return Ok(all.into_iter().next().flatten());
        }
        let beat = all.iter().flatten().map(|status| status.beat).fold(0, u64::wrapping_add);
        let is_news = liveness.saw(begun.elapsed().as_secs_f64(), Some(Sign { epoch, beat }), LONGEST_STEP);
        if is_news {
            liveness.lives();
        }
        if is_gone || liveness.silent() >= SILENT {
            return Ok(None);
        }
        if !is_news && are_gone(clouds, &kept.spec.run).await {
            // Their last words may have come after the look above, and before they went.
            is_gone = true;
            continue;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(None)
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
