//! `Contents`: what data a run reads, so that a machine that comes later can tell whether it still is the same.

use serde::{Deserialize, Serialize};

use crate::run::Run;
use crate::store::{Hash, StoreError, StoredObject};

/// The same data has the same digest on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub address: String,
    pub files: usize,
    pub bytes: u64,
    /// SHA-256 of paths, sizes and the store's tags, in hexadecimal digits.
    pub digest: String,
}

impl Contents {
    pub fn of(address: &str, held: &[StoredObject]) -> Self {
        let mut hash = Hash::default();
        for one in held {
            let line = format!("{}\0{}\0{}\n", one.path, one.size, one.tag.as_deref().unwrap_or_default());
            hash.update(line.as_bytes());
        }
        let bytes = held.iter().map(|one| one.size).sum();
        Self { address: address.to_owned(), files: held.len(), bytes, digest: hash.hex() }
    }
}

impl Run {
    /// Whoever is first says what the data is. Gives what it was if that is something else.
    pub async fn keep_contents(&self, contents: &Contents) -> Result<Option<Contents>, StoreError> {
        let key = self.layout.dataset();
        if self.create(&key, contents).await? {
            return Ok(None);
        }
        Ok(self.read(&key).await?.filter(|first: &Contents| first.digest != contents.digest))
    }
}
