//! Sends a file: read, hashed and sent at the same time, in parts whose memory is bounded for all files together and used again.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use object_store::{Error, MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::try_join;

use crate::store::{PART, Sent, Store, StoreError, in_background, refused};

/// S3 takes at most 10,000 parts.
const MOST_PARTS: u64 = 9_000;
/// Parts of the smallest size in memory, of all files together: 64 MiB. A file of larger parts has fewer.
const ROOM: u32 = 8;
/// Piece that is hashed at a time where nothing is sent.
const PIECE: u64 = 1 << 20;

/// SHA-256 as it flows. TLS brings this implementation: as fast as any with the instructions of newer processors, and half as
/// fast again as `sha2` on those without (410 against 262 MB/s), as many GPU machines have.
pub struct Hash(Context);

impl Hash {
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In hexadecimal digits.
    pub fn text(self) -> String {
        self.0.finish().as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

/// Memory for parts. It is handed on from part to part: a freed block of this size stays with the allocator, once for each thread.
#[derive(Clone, Debug)]
pub struct Room {
    left: Arc<Semaphore>,
    blocks: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: Arc::new(Semaphore::new(ROOM as usize)), blocks: Arc::default() }
    }
}

/// A block with its share of the room, which it gives back when the last reader is done.
struct Block {
    bytes: Vec<u8>,
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
    async fn block(&self, length: u64) -> io::Result<Block> {
        let shares = u32::try_from(length.div_ceil(PART)).unwrap_or(ROOM).clamp(1, ROOM);
        let share = self.left.clone().acquire_many_owned(shares).await.map_err(io::Error::other)?;
        let kept = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = kept.filter(|_| length == PART).unwrap_or_else(|| Vec::with_capacity(length as usize));
        Ok(Block { bytes, room: self.clone(), _share: share })
    }
}

impl Store {
    /// Sends a file, in parts if it is large, and says what was in it.
    pub async fn send_file(&self, key: &str, from: &Path) -> Result<Sent, StoreError> {
        let local = |source| StoreError::Local { path: from.display().to_string(), source };
        let file = File::open(from).map_err(local)?;
        let length = file.metadata().map_err(local)?.len();
        let part = PART.max(length.div_ceil(MOST_PARTS));
        let mut reading =
            Reading { file, part: part.min(length + 1), room: self.room.clone(), runtime: Handle::current() };
        let (reading, first) = in_background(from, move || {
            let first = reading.next()?;
            Ok((reading, first))
        })
        .await?;
        if (first.len() as u64) < part {
            let mut hash = Hash::new();
            hash.update(&first);
            let sent = Sent { sha256: hash.text(), size: first.len() as u64 };
            self.objects
                .put(&self.at(key), PutPayload::from_bytes(first))
                .await
                .map_err(|error| refused(key, &error))?;
            return Ok(sent);
        }
        let mut upload = self.objects.put_multipart(&self.at(key)).await.map_err(|error| refused(key, &error))?;
        match send_parts(&mut *upload, reading, first, (key, from)).await {
            Ok(sent) => Ok(sent),
            Err(error) => {
                // Parts that stay behind cost storage; a store that cannot be reached now is told by its own lifecycle rule.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }
}

/// One thread reads, one hashes what was read, and parts are on their way meanwhile. None waits for another but for room.
async fn send_parts(
    upload: &mut dyn MultipartUpload,
    mut reading: Reading,
    first: Bytes,
    (key, from): (&str, &Path),
) -> Result<Sent, StoreError> {
    let (parts, mut arriving) = mpsc::unbounded_channel();
    let (to_hash, to_be_hashed) = channel::<Bytes>();
    let hashing = in_background(from, move || {
        let (mut hash, mut size) = (Hash::new(), 0);
        for block in to_be_hashed {
            hash.update(&block);
            size += block.len() as u64;
        }
        Ok(Sent { sha256: hash.text(), size })
    });
    let all_read = in_background(from, move || {
        let mut block = first;
        // Where nobody takes it any more, an error is on its way to the caller.
        while !block.is_empty() && to_hash.send(block.clone()).is_ok() && parts.send(block).is_ok() {
            block = reading.next()?;
        }
        Ok(())
    });
    let sending = async {
        let mut under_way = JoinSet::new();
        while let Some(part) = arriving.recv().await {
            under_way.spawn(upload.put_part(PutPayload::from_bytes(part)));
            while let Some(done) = under_way.try_join_next() {
                ended(done, key)?;
            }
        }
        while let Some(done) = under_way.join_next().await {
            ended(done, key)?;
        }
        Ok(())
    };
    let (sent, (), ()) = try_join!(hashing, all_read, sending)?;
    upload.complete().await.map_err(|error| refused(key, &error))?;
    Ok(sent)
}

fn ended(done: Result<Result<(), Error>, JoinError>, key: &str) -> Result<(), StoreError> {
    match done {
        Ok(sent) => sent.map_err(|error| refused(key, &error)),
        Err(error) => Err(StoreError::Unavailable { key: key.to_owned(), detail: error.to_string() }),
    }
}

struct Reading {
    file: File,
    part: u64,
    room: Room,
    /// To wait for room in a thread that may wait.
    runtime: Handle,
}

impl Reading {
    /// Empty at the end of the file.
    fn next(&mut self) -> io::Result<Bytes> {
        let mut block = self.runtime.block_on(self.room.block(self.part))?;
        block.bytes.clear();
        (&mut self.file).take(self.part).read_to_end(&mut block.bytes)?;
        Ok(Bytes::from_owner(block))
    }
}

/// Size and hash of a file of this machine.
pub async fn hash_file(path: &Path) -> Result<Sent, StoreError> {
    let owned = path.to_owned();
    in_background(path, move || {
        let (mut file, mut hash, mut size, mut block) =
            (File::open(&owned)?, Hash::new(), 0, Vec::with_capacity(PIECE as usize));
        loop {
            block.clear();
            if (&mut file).take(PIECE).read_to_end(&mut block)? == 0 {
                return Ok(Sent { sha256: hash.text(), size });
            }
            hash.update(&block);
            size += block.len() as u64;
        }
    })
    .await
}
