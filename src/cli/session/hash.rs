//! SHA-256 as lowercase hex.

use sha2::{Digest, Sha256};

/// Of bytes that are at hand.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
