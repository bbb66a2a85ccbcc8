//! The journal of launches on this machine.

use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_launch::Journal;
use gpuplan_launch::journal::{JournalError, Kept};

pub fn journal(session: &Session) -> Result<Journal, Diagnostic> {
    let path = session.home.state_file("launches.sqlite").ok_or_else(no_home)?;
    Journal::open(&path).map_err(|error| Diagnostic::new(Exit::Unexpected, error.to_string()))
}

pub fn no_home() -> Diagnostic {
    Diagnostic::new(Exit::Usage, "there is no folder to keep a journal in, and nothing is launched without one")
        .hint("set HOME or GPUPLAN_HOME")
}

pub fn unknown_run(run: &str) -> Diagnostic {
    Diagnostic::new(Exit::Usage, format!("no run is called `{run}`")).hint("gpuplan status")
}

pub fn journal_said(error: &JournalError) -> Diagnostic {
    Diagnostic::new(Exit::Unexpected, error.to_string())
}

pub fn kept(run: &str, session: &Session) -> Result<Kept, Diagnostic> {
    journal(session)?.run(run).map_err(|error| journal_said(&error))?.ok_or_else(|| unknown_run(run))
}
