//! Sends a file: read, hashed and sent at the same time, in parts.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::channel;

use bytes::Bytes;
use object_store::{Error, MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::try_join;

use crate::store::disk::in_background;
use crate::store::error::{StoreError, refused};
use crate::store::hash::{Hash, Sent};
use crate::store::objects::Store;
use crate::store::room::{PART, Room};

/// S3 takes at most 10,000 parts.
pub const MOST_PARTS: u64 = 9_000;
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
            let mut hash = Hash::default();
            hash.update(&first);
            let sent = Sent { sha256: hash.hex(), size: first.len() as u64 };
            self.objects
                .put(&self.at(key), PutPayload::from_bytes(first))
                .await
                .map_err(|error| refused(key, &error))?;
            return Ok(sent);
        }
        let mut upload = self.objects.put_multipart(&self.at(key)).await.map_err(|error| refused(key, &error))?;
        match send_parts(&mut *upload, reading, first, key, from).await {
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
    key: &str,
    from: &Path,
) -> Result<Sent, StoreError> {
    let (parts, mut arriving) = mpsc::unbounded_channel();
    let (to_hash, to_be_hashed) = channel::<Bytes>();
    let hashing = in_background(from, move || {
        let (mut hash, mut size) = (Hash::default(), 0);
        for block in to_be_hashed {
            hash.update(&block);
            size += block.len() as u64;
        }
        Ok(Sent { sha256: hash.hex(), size })
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
