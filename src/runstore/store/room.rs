//! `Room`: memory for parts, bounded for all files together and used again.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Smallest part of a large object. S3 wants at least 5 MiB and at most 10,000 parts.
pub const PART: u64 = 8 << 20;
/// Parts of the smallest size in memory, of all files together: 64 MiB. A file of larger parts has fewer.
pub const PARTS_AT_ONCE: u32 = 8;
/// Memory for parts. It is handed on from part to part: a freed block of this size stays with the allocator, once for each thread.
#[derive(Clone, Debug)]
pub struct Room {
    left: Arc<Semaphore>,
    blocks: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: Arc::new(Semaphore::new(PARTS_AT_ONCE as usize)), blocks: Arc::default() }
    }
}

/// A block with its share of the room, which it gives back when the last reader is done.
pub struct Block {
    pub bytes: Vec<u8>,
    room: Room,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // Only blocks of the usual size are worth keeping.
        if bytes.capacity() as u64 == PART {
            self.room.blocks.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}

impl Room {
    /// Waits until there is room for `length` bytes. Parts under way give theirs back, so this ends.
    pub async fn block(&self, length: u64) -> io::Result<Block> {
        let shares = u32::try_from(length.div_ceil(PART)).unwrap_or(PARTS_AT_ONCE).clamp(1, PARTS_AT_ONCE);
        let share = self.left.clone().acquire_many_owned(shares).await.map_err(io::Error::other)?;
        let kept = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = kept.filter(|_| length == PART).unwrap_or_else(|| Vec::with_capacity(length as usize));
        Ok(Block { bytes, room: self.clone(), _share: share })
    }
}
