//! The journal of launches on this machine.

use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_launch::Journal;
use gpuplan_launch::journal::{JournalError, Kept};
use gpuplan_report::runs::RunState;

pub fn open_journal(session: &Session) -> Result<Journal, Diagnostic> {
    let path = session.home.state_file("launches.sqlite").ok_or_else(no_state_folder)?;
    Journal::open(&path).map_err(|error| Diagnostic::new(Exit::Unexpected, error.to_string()))
}

pub fn no_state_folder() -> Diagnostic {
    Diagnostic::new(Exit::Usage, "there is no folder to keep a journal in, and nothing is launched without one")
        .hint("set HOME or GPUPLAN_HOME")
}

pub fn unknown_run(run: &str) -> Diagnostic {
    Diagnostic::new(Exit::Usage, format!("there is no run `{run}`")).hint("gpuplan status")
}

pub fn journal_error(error: &JournalError) -> Diagnostic {
    Diagnostic::new(Exit::Unexpected, error.to_string())
}

pub fn find_run(run: &str, session: &Session) -> Result<Kept, Diagnostic> {
    open_journal(session)?.run(run).map_err(|error| journal_error(&error))?.ok_or_else(|| unknown_run(run))
}

/// The end of a run, as the journal words it, for `status`.
pub fn ended_state(end: &str) -> RunState {
    match end {
        "completed" => RunState::Completed,
        "failed" | "refused" => RunState::Failed,
        _ => RunState::Stopped,
    }
}
