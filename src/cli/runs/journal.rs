//! The journal of launches on this machine.

use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::runtime::runtime;
use gpuplan_launch::journal::{JournalError, RunRecord};
use gpuplan_launch::{Journal, RunSpec};
use gpuplan_report::runs::RunState;
use gpuplan_runstore::Run;

/// File of the journal, among what is remembered.
pub const JOURNAL: &str = "launches.sqlite";

pub fn open_journal(session: &Session) -> Result<Journal, Diagnostic> {
    let path = session.home.state_file(JOURNAL).ok_or_else(no_state_folder)?;
    Journal::open(&path).map_err(|error| {
        Diagnostic::from(error).hint("set GPUPLAN_HOME to a folder that can be written").hint(format!(
            "or move a damaged journal away: mv {0} {0}.damaged; `gpuplan gc` then finds machines",
            path.display()
        ))
    })
}

/// `None` where nothing was launched from this machine: looking makes none.
pub fn journal_if_any(session: &Session) -> Result<Option<Journal>, Diagnostic> {
    let is_there = session.home.state_file(JOURNAL).is_some_and(|path| path.is_file());
    is_there.then(|| open_journal(session)).transpose()
}

pub fn no_state_folder() -> Diagnostic {
    Diagnostic::usage("there is no folder to keep a journal in, and nothing is launched without one")
        .hint("set HOME or GPUPLAN_HOME")
}

pub fn unknown_run(run: &str) -> Diagnostic {
    Diagnostic::usage(format!("there is no run `{run}`")).hint("gpuplan status")
}

impl From<JournalError> for Diagnostic {
    fn from(error: JournalError) -> Self {
        Self::unexpected(error)
    }
}

pub fn find_run(run: &str, session: &Session) -> Result<RunRecord, Diagnostic> {
    open_journal(session)?.run(run)?.ok_or_else(|| unknown_run(run))
}

/// The end of a run, as the journal words it, for `status`.
pub fn ended_state(end: &str) -> RunState {
    match end {
        "completed" => RunState::Completed,
        "failed" | "refused" => RunState::Failed,
        _ => RunState::Stopped,
    }
}

/// Records the run in the journal and in its store, before the cloud is asked.
pub fn record_intent(spec: &RunSpec, run: &Run, session: &Session) -> Result<Journal, Diagnostic> {
    let mut journal = open_journal(session)?;
    if !journal.begin(spec)? {
        return Err(Diagnostic::usage(format!("there is already a run `{}`", spec.run))
            .hint(format!("gpuplan watch {}", spec.run)));
    }
    // With it the run can be led from anywhere: `gpuplan take-over`.
    let text = spec.write().map_err(Diagnostic::unexpected)?;
    if runtime()?.block_on(run.write_spec_once(&text))?.is_some() {
        session.printer.note(&format!(
            "warning: {} has a run `{}` already, and this one goes on from its checkpoints",
            spec.store, spec.run
        ));
    }
    Ok(journal)
}
