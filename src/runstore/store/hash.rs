//! `Hash`: SHA-256 of what flows, and of a file of this machine.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::store::disk::in_background;
use crate::store::error::StoreError;

/// Piece that is hashed at a time where nothing is sent.
const PIECE: u64 = 1 << 20;

/// What was in a file on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub sha256: String,
    pub size: u64,
}

/// SHA-256 as it flows. TLS brings this implementation, with the instructions of newer processors and in vectors on those without,
/// as many GPU machines are.
pub struct Hash(Context);

impl Default for Hash {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hash {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.finish().as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

/// SHA-256 of bytes that are at hand, in hexadecimal digits.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    let mut hash = Hash::default();
    hash.update(bytes.as_ref());
    hash.hex()
}

/// Size and hash of a file of this machine.
pub async fn hash_file(path: &Path) -> Result<Sent, StoreError> {
    let owned = path.to_owned();
    in_background(path, move || {
        let (mut file, mut hash, mut size, mut block) =
            (File::open(&owned)?, Hash::default(), 0, Vec::with_capacity(PIECE as usize));
        loop {
            block.clear();
            if (&mut file).take(PIECE).read_to_end(&mut block)? == 0 {
                return Ok(Sent { sha256: hash.hex(), size });
            }
            hash.update(&block);
            size += block.len() as u64;
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of FIPS 180-2, B.1.
    #[test]
    fn the_hash_is_that_of_the_standard() {
        assert_eq!(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
