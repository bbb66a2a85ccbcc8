//! The ledger of what runs have cost, among what is remembered of this user.

use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use gpuplan_budget::ledger::{Ledger, LedgerError};

/// File of the ledger, among what is remembered.
pub const LEDGER: &str = "ledger.sqlite";

pub fn open_ledger(session: &Session) -> Result<Ledger, Diagnostic> {
    let path = session
        .home
        .state_file(LEDGER)
        .ok_or_else(|| Diagnostic::usage("there is no folder to keep a ledger in").hint("set HOME or GPUPLAN_HOME"))?;
    Ledger::open(&path).map_err(|error| {
        let mut diagnostic = Diagnostic::from(error);
        diagnostic.message = format!("{}: {}", path.display(), diagnostic.message);
        diagnostic
    })
}

impl From<LedgerError> for Diagnostic {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Newer(_) => {
                Self::usage(error).hint("install the newer program, or set GPUPLAN_HOME to another folder")
            }
            LedgerError::Foreign(_) => {
                Self::usage(error).hint("move the file away, or set GPUPLAN_HOME to another folder")
            }
            LedgerError::Full => Self::unexpected(error).hint("make room on the disk, then run the same command again"),
            LedgerError::Database(_) | LedgerError::Folder(_) | LedgerError::Row { .. } => Self::unexpected(error),
        }
    }
}
