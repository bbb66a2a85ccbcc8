//! `HardwareError`: why catalog text cannot be used.

use gpuplan_embedded::EmbeddedError;

/// Why catalog text cannot be used. The row is counted from 1 after the header.
#[derive(Debug, thiserror::Error)]
pub enum HardwareError {
    #[error(transparent)]
    Packed(#[from] EmbeddedError),
    #[error("catalogs/{file}: {detail}")]
    Document { file: &'static str, detail: String },
    #[error("catalogs/{file}.csv, row {row}: {detail}")]
    Row { file: String, row: usize, detail: String },
}
