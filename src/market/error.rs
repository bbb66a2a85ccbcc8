//! `MarketError`: why the market catalog cannot be used.

use gpuplan_embedded::EmbeddedError;

/// Why the market catalog cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MarketError {
    #[error(transparent)]
    Packed(#[from] EmbeddedError),
    #[error("catalogs/SNAPSHOT.toml: {0}")]
    Manifest(String),
    #[error("catalogs/{file}.csv, row {row}: {detail}")]
    Row { file: String, row: usize, detail: String },
}
