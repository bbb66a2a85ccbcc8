//! Brings the data of a job to a disk of this machine before the program starts: in parallel, with bounded memory, and only what
//! is not there yet.
//!
//! A file arrives under another name beside the folder and is renamed when it is whole, so the program never sees a part of one.
//! What arrived is written down with the store's own tag of it; an agent that was killed goes on where it was, inside a file too.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use backon::Retryable;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinSet, spawn_blocking};

use crate::retry::growing_pauses;
use gpuplan_runstore::status::Staged;
use gpuplan_runstore::store::StoredObject;
use gpuplan_runstore::{Contents, Store, StoreError, sha256};
use gpuplan_units::Bytes;

/// Of one request. A large file is fetched in so many at once as there is room for.
const PIECE: u64 = 8 << 20;
/// Memory for pieces under way, of all files together: 256 MiB, in units of a MiB. Nothing trains yet.
const ROOM: usize = 256;
const UNIT: u64 = 1 << 20;
/// Small files wait for answers and not for the network, so many are asked for at once.
const FILES_AT_ONCE: usize = 64;
const PIECES_AT_ONCE: usize = 16;
/// Of a request that fails, beside the tries of the client itself.
const TRIES: usize = 5;
/// Between two looks at how far it is, and between two words about it.
const LOOK: Duration = Duration::from_secs(1);
const WORD: Duration = Duration::from_secs(20);
/// A file system keeps some room for itself. Bytes. Judged.
const KEPT_FREE: u64 = 64 << 20;

/// Where the data lies, and where the program wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// `file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`.
    pub address: String,
    pub folder: PathBuf,
}

/// Why the data is not here.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    #[error("the data is not at {address}: {detail}")]
    Missing { address: String, detail: String },
    #[error("the data at {address} may not be read by this machine: {detail}")]
    Denied { address: String, detail: String },
    #[error(
        "the data at {address} changes while it is fetched ({path}): start again when nobody writes there any more"
    )]
    Changed { address: String, path: String },
    #[error("{folder} has room for {free} and the data needs {needed}")]
    NoRoom { folder: String, free: Bytes, needed: Bytes },
    #[error("the data cannot be written: {path}: {source}")]
    Disk { path: String, source: io::Error },
    /// Another machine, or a later time, may have more luck.
    #[error("the data at {address} cannot be fetched now: {detail}")]
    Unavailable { address: String, detail: String },
}

impl StagingError {
    pub fn is_for_now(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    fn from_store(address: &str, error: StoreError) -> Self {
        let (address, detail) = (address.to_owned(), error.to_string());
        match error {
            StoreError::Missing { .. } | StoreError::Address { .. } | StoreError::Unreadable { .. } => {
                Self::Missing { address, detail }
            }
            StoreError::Denied { .. } => Self::Denied { address, detail },
            StoreError::Changed { key } => Self::Changed { address, path: key },
            StoreError::Local { path, source } => Self::Disk { path, source },
            StoreError::Unavailable { .. } => Self::Unavailable { address, detail },
        }
    }
}

/// A line of the index.
#[derive(Serialize, Deserialize)]
struct Arrived {
    path: String,
    size: u64,
    tag: Option<String>,
}

/// Fetches what is not there; `show` hears how far it is every second. Dropped at any moment, the next one goes on.
pub async fn stage(
    data: &Data,
    first_pause: Duration,
    say: &dyn Fn(&str),
    show: impl Fn(Staged),
) -> Result<Contents, StagingError> {
    let store = Store::reading(&data.address, None).map_err(|error| StagingError::from_store(&data.address, error))?;
    stage_from(store, data, first_pause, say, show).await
}

/// One staging, shared by the tasks that fetch.
struct Staging {
    store: Store,
    data: Data,
    /// Beside the folder, on the same disk: the index, and files that are not whole yet.
    beside: PathBuf,
    room: Arc<Semaphore>,
    first_pause: Duration,
    index: Mutex<File>,
    bytes: Mutex<u64>,
}

async fn stage_from(
    store: Store,
    data: &Data,
    first_pause: Duration,
    say: &dyn Fn(&str),
    show: impl Fn(Staged),
) -> Result<Contents, StagingError> {
    let begun = Instant::now();
    let held =
        tries(first_pause, || store.held()).await.map_err(|error| StagingError::from_store(&data.address, error))?;
    let contents = Contents::of(&data.address, &held);
    let beside = staging_folder(&data.folder);
    for folder in [&data.folder, &beside] {
        fs::create_dir_all(folder).map_err(disk(folder))?;
    }
    let missing = missing(&data.folder, &beside, held).map_err(disk(&beside))?;
    let needed: u64 = missing.iter().map(|one| one.size - arrived(&beside, one)).sum();
    let shown = format!("{} files, {}, at {}", contents.files, Bytes(contents.bytes as f64), data.address);
    if missing.is_empty() {
        say(&format!("the data is here already: {shown}"));
        return Ok(contents);
    }
    has_room(&data.folder, needed)?;
    say(&format!("staging {shown}; {} to fetch into {}", Bytes(needed as f64), data.folder.display()));
    let index = beside.join("index");
    let file = OpenOptions::new().create(true).append(true).open(&index).map_err(disk(&index))?;
    let staging = Staging {
        store,
        data: data.clone(),
        beside,
        room: Arc::new(Semaphore::new(ROOM)),
        first_pause,
        index: Mutex::new(file),
        bytes: Mutex::new(0),
    };
    Arc::new(staging).fetch_all(missing, needed, contents.bytes, begun, say, show).await?;
    let seconds = begun.elapsed().as_secs_f64();
    say(&format!(
        "the data is staged: {} in {seconds:.0} s, {}/s",
        Bytes(needed as f64),
        Bytes(needed as f64 / seconds.max(1e-3))
    ));
    Ok(contents)
}

/// The disk of this machine did not take or give it.
fn disk(path: &Path) -> impl FnOnce(io::Error) -> StagingError + use<> {
    let path = path.display().to_string();
    move |source| StagingError::Disk { path, source }
}

/// Folders that jobs look through whole, as those of images, must have nothing of ours in them.
fn staging_folder(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".staging");
    folder.with_file_name(name)
}

/// Objects of which the folder has no file as they are now. Files of objects that are there no more go.
fn missing(folder: &Path, beside: &Path, held: Vec<StoredObject>) -> io::Result<Vec<StoredObject>> {
    let mut index = BTreeMap::new();
    match File::open(beside.join("index")) {
        Ok(file) => {
            // A line that a killed agent did not finish is none.
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            index.extend(
                lines.filter_map(|line| serde_json::from_str(&line).ok()).map(|one: Arrived| (one.path.clone(), one)),
            );
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut missing = Vec::new();
    for one in held {
        let known = index.remove(&one.path);
        let is_same =
            known.is_some_and(|known| (known.size, &known.tag) == (one.size, &one.tag) && known.tag.is_some());
        let is_whole =
            || fs::metadata(folder.join(&one.path)).is_ok_and(|file| file.is_file() && file.len() == one.size);
        if !is_same || !is_whole() {
            missing.push(one);
        }
    }
    for path in index.into_keys() {
        match fs::remove_file(folder.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(missing)
}

/// Where a file arrives: of this object, as it is now.
fn part(beside: &Path, one: &StoredObject) -> PathBuf {
    let name = sha256(format!("{}\0{}\0{}", one.path, one.size, one.tag.as_deref().unwrap_or_default()));
    beside.join(format!("{name}.part"))
}

/// Bytes of an object that an earlier agent has fetched, in whole pieces. Without a tag nobody knows of which object they are.
fn arrived(beside: &Path, one: &StoredObject) -> u64 {
    let length = fs::metadata(part(beside, one)).map_or(0, |file| file.len().min(one.size));
    if one.tag.is_some() { length / PIECE * PIECE } else { 0 }
}

fn has_room(folder: &Path, needed: u64) -> Result<(), StagingError> {
    // A file system that does not say how much room it has is tried.
    let free = rustix::fs::statvfs(folder).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match free {
        Some(free) if free < needed.saturating_add(KEPT_FREE) => {
            let folder = folder.display().to_string();
            Err(StagingError::NoRoom { folder, free: Bytes(free as f64), needed: Bytes((needed + KEPT_FREE) as f64) })
        }
        _ => Ok(()),
    }
}

/// What a store refuses for a moment is asked for again.
async fn tries<T, F: Future<Output = Result<T, StoreError>>>(
    first_pause: Duration,
    ask: impl FnMut() -> F,
) -> Result<T, StoreError> {
    ask.retry(growing_pauses(first_pause).with_max_times(TRIES - 1)).when(StoreError::may_pass).await
}

impl Staging {
    async fn fetch_all(
        self: Arc<Self>,
        missing: Vec<StoredObject>,
        needed: u64,
        of_bytes: u64,
        begun: Instant,
        say: &dyn Fn(&str),
        show: impl Fn(Staged),
    ) -> Result<(), StagingError> {
        let (mut waiting, mut fetching, mut spoke) = (missing.into_iter(), JoinSet::new(), begun);
        let mut tick = tokio::time::interval(LOOK);
        loop {
            while fetching.len() < FILES_AT_ONCE
                && let Some(one) = waiting.next()
            {
                let me = self.clone();
                fetching.spawn(async move { me.fetch(&one).await });
            }
            tokio::select! {
                // Whoever is dropped with the set stops where it is.
                done = fetching.join_next() => match done {
                    None => return Ok(()),
                    Some(Ok(done)) => done?,
                    Some(Err(error)) => return Err(disk(&self.data.folder)(io::Error::other(error))),
                },
                _ = tick.tick() => {
                    let bytes = *self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
                    let rate = bytes as f64 / begun.elapsed().as_secs_f64().max(1e-3);
                    show(Staged { bytes: of_bytes - needed + bytes, of_bytes, bytes_per_second: rate });
                    if spoke.elapsed() >= WORD {
                        spoke = Instant::now();
                        let left = (needed - bytes.min(needed)) as f64 / rate.max(1.0) / 60.0;
                        let (bytes, needed, rate) = (Bytes(bytes as f64), Bytes(needed as f64), Bytes(rate));
                        say(&format!("staged {bytes} of {needed}, {rate}/s, {left:.0} min left"));
                    }
                }
            }
        }
    }

    async fn fetch(&self, one: &StoredObject) -> Result<(), StagingError> {
        let (part, to) = (part(&self.beside, one), self.data.folder.join(&one.path));
        let from = arrived(&self.beside, one);
        let opened = (|| {
            let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&part)?;
            file.set_len(from)?;
            io::Seek::seek(&mut file, io::SeekFrom::Start(from)).map(|_| file)
        })();
        let file = opened.map_err(disk(&part))?;
        let (pieces, arriving) = mpsc::channel(1);
        let (read, written) = tokio::join!(self.read(one, from, pieces), self.write(file, &part, arriving));
        // A disk that takes no more ends the reading, too, and is the reason.
        written?;
        read?;
        let finished = (|| {
            to.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::rename(&part, &to)?;
            let line =
                serde_json::to_string(&Arrived { path: one.path.clone(), size: one.size, tag: one.tag.clone() })?;
            writeln!(self.index.lock().unwrap_or_else(PoisonError::into_inner), "{line}")
        })();
        finished.map_err(disk(&to))
    }

    /// Pieces in their order. Each takes its share of the room before any later one of the file, so the first is never kept
    /// waiting by those behind it.
    async fn read(&self, one: &StoredObject, from: u64, pieces: mpsc::Sender<Share>) -> Result<(), StagingError> {
        let (mut begin, mut under_way) = (from, FuturesOrdered::new());
        loop {
            let end = one.size.min(begin + PIECE);
            let units = u32::try_from((end - begin).div_ceil(UNIT)).unwrap_or(1);
            tokio::select! {
                share = self.room.clone().acquire_many_owned(units), if begin < end && under_way.len() < PIECES_AT_ONCE => {
                    let share = share.map_err(io::Error::other).map_err(disk(&self.beside))?;
                    under_way.push_back(self.piece(one, begin..end, share));
                    begin = end;
                }
                Some(piece) = under_way.next() => {
                    if pieces.send(piece?).await.is_err() {
                        // The disk takes no more, which whoever writes tells.
                        return Ok(());
                    }
                }
                else => return Ok(()),
            }
        }
    }

    async fn piece(
        &self,
        one: &StoredObject,
        range: Range<u64>,
        share: OwnedSemaphorePermit,
    ) -> Result<Share, StagingError> {
        let piece = tries(self.first_pause, || self.store.piece(one, range.clone())).await;
        Ok((piece.map_err(|error| StagingError::from_store(&self.data.address, error))?, share))
    }

    async fn write(
        &self,
        mut file: File,
        part: &Path,
        mut arriving: mpsc::Receiver<Share>,
    ) -> Result<(), StagingError> {
        while let Some((piece, _share)) = arriving.recv().await {
            let length = piece.len() as u64;
            let written = spawn_blocking(move || file.write_all(&piece).map(|()| file)).await;
            file = written.map_err(io::Error::other).and_then(|written| written).map_err(disk(part))?;
            *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) += length;
        }
        Ok(())
    }
}

/// A piece with its share of the room.
type Share = (bytes::Bytes, OwnedSemaphorePermit);

#[cfg(test)]
mod tests;
