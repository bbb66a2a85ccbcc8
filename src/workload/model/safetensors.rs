//! Reads `model.safetensors.index.json`: the exact size of a published checkpoint.

use std::io::BufRead;

use serde::Deserialize;

use gpuplan_units::Bytes;

#[derive(Deserialize)]
struct Index {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    total_size: f64,
}

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("not a safetensors index: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("`metadata.total_size` is {0}, which is not a size")]
    Impossible(f64),
}

/// Bytes of all weights together.
pub fn total_size(reader: impl BufRead) -> Result<Bytes, IndexError> {
    let index: Index = serde_json::from_reader(reader)?;
    let size = index.metadata.total_size;
    if size.is_finite() && size > 0.0 && size < 1e18 { Ok(Bytes(size)) } else { Err(IndexError::Impossible(size)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_and_nonsense_is_refused() {
        let text = br#"{"metadata":{"total_size":16060522496},"weight_map":{}}"#;
        assert_eq!(total_size(&text[..]).unwrap().0, 16_060_522_496.0);
        assert!(total_size(&br#"{"metadata":{"total_size":-1}}"#[..]).is_err());
        assert!(total_size(&br#"{"metadata":{}}"#[..]).is_err());
        assert!(total_size(&b"{"[..]).is_err());
    }
}
