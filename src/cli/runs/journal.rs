//! The journal of launches on this machine.

use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use gpuplan_launch::Journal;
use gpuplan_launch::journal::{JournalError, RunRecord};
use gpuplan_report::runs::RunState;

pub fn open_journal(session: &Session) -> Result<Journal, Diagnostic> {
    let path = session.home.state_file("launches.sqlite").ok_or_else(no_state_folder)?;
    Ok(Journal::open(&path)?)
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
