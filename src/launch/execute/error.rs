//! Why a run is not led any more.

use jiff::Timestamp;

use crate::journal::JournalError;
use gpuplan_runstore::StoreError;

/// Why a run is not led any more. Its machines go on until they end themselves.
#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("this program cannot rent machines of {0}")]
    NoLauncher(String),
    /// It was told to go on elsewhere, after a stop or beside this process.
    #[error("another process is leading this run now")]
    Followed,
    #[error("{by} has been leading this run since {at:.0}")]
    LedElsewhere { by: String, at: Timestamp },
    #[error("whether anybody leads this run is unknown: {0}")]
    Store(#[from] StoreError),
}
