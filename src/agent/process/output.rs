//! The program's output: passed on as it comes, and kept in the store in numbered chunks, each byte once, over every epoch.
//!
//! What was read is on the disk at once (`e3.log`). A full or old log is renamed to its number (`e3-00000007.raw`), compressed
//! (`.zst`), sent create-only and deleted. Each of these is one step of the disk, so wherever an agent is killed, the next one
//! on this machine finds what was not sent and sends it under the number that it has.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::ports::logger::{Logger, Stream};
use crate::state::{SharedState, with};
use gpuplan_runstore::{Run, StoreError};

/// A log of so many bytes becomes a chunk at once, and any other after this time.
const CHUNK: u64 = 256 << 10;
pub const CHUNK_AGE: Duration = Duration::from_secs(5);
/// Text compresses well at any level; this one costs next to nothing.
const LEVEL: i32 = 3;
/// A longer line is looked at in pieces.
const LONGEST_LINE: usize = 4096;

/// The log of one epoch on the disk of this machine.
#[derive(Debug)]
struct Log {
    folder: PathBuf,
    epoch: u64,
    file: Option<File>,
    bytes: u64,
    next: u64,
}

impl Log {
    fn open(&self) -> PathBuf {
        self.folder.join(format!("e{}.log", self.epoch))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(OpenOptions::new().create(true).append(true).open(self.open())?);
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
        }
        self.bytes += bytes.len() as u64;
        if self.bytes >= CHUNK { self.close() } else { Ok(()) }
    }

    /// Gives what is there its number.
    fn close(&mut self) -> io::Result<()> {
        if self.bytes > 0 {
            self.file = None;
            fs::rename(self.open(), self.folder.join(chunk_name(self.epoch, self.next, "raw")))?;
            (self.bytes, self.next) = (0, self.next + 1);
        }
        Ok(())
    }
}

/// Output of the program in this epoch and what earlier epochs left behind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Logs {
    log: Arc<Mutex<Log>>,
    folder: PathBuf,
    run: Run,
    epoch: u64,
    node: u32,
}

impl Logs {
    /// `folder` belongs to this run and node alone.
    pub fn new(run: Run, folder: PathBuf, epoch: u64, node: u32) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let log = Log { folder: folder.clone(), epoch, file: None, bytes: 0, next: 0 };
        Ok(Self { log: Arc::new(Mutex::new(log)), folder, run, epoch, node })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent's own words, in their place among the program's. Without room on the disk they were only shown.
    pub fn add(&self, text: &str) {
        let _ = self.log().append(text.as_bytes());
    }

    /// Passes a stream on until it ends. A thread of its own, so that a terminal that is held up holds up nothing else.
    pub fn follow(
        &self,
        mut from: impl Read + Send + 'static,
        stream: Stream,
        logger: Arc<dyn Logger>,
        state: SharedState,
    ) -> thread::JoinHandle<()> {
        let logs = self.clone();
        thread::spawn(move || {
            let (mut block, mut line) = (vec![0; 64 << 10], Vec::new());
            loop {
                let length = match from.read(&mut block) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => {
                        with(&state, |state| state.output.is_lost = true);
                        break;
                    }
                };
                // Kept before it is shown, so that the store has all that anybody saw. Without room on the disk it is only shown.
                let is_kept = logs.log().append(&block[..length]).is_ok();
                logger.pass(stream, &block[..length]);
                with(&state, |state| {
                    state.output.bytes += length as u64;
                    state.output.is_lost |= !is_kept;
                    for piece in block[..length].split_inclusive(|byte| *byte == b'\n') {
                        line.extend_from_slice(piece);
                        if piece.ends_with(b"\n") || line.len() > LONGEST_LINE {
                            state.read(&String::from_utf8_lossy(&line));
                            line.clear();
                        }
                    }
                });
            }
        })
    }

    /// Sends every chunk that is due, oldest first, those of earlier epochs before. `Err` leaves the rest for the next time.
    pub async fn send(&self) -> Result<(), StoreError> {
        let local = |source| StoreError::Local { path: self.folder.display().to_string(), source };
        self.log().close().map_err(local)?;
        for chunk in chunks(&self.folder).map_err(local)? {
            let packed = chunk.pack(&self.folder).map_err(local)?;
            let bytes = fs::read(&packed).map_err(local)?;
            let is_ours = self.run.add_log(chunk.epoch, self.node, chunk.number, bytes).await?;
            if !is_ours {
                // The number went to another machine of the same epoch, which only a copied folder can bring about.
                return Err(local(io::Error::other(format!(
                    "log chunk {} of epoch {} is somebody else's",
                    chunk.number, chunk.epoch
                ))));
            }
            fs::remove_file(packed).map_err(local)?;
        }
        Ok(())
    }

    /// Gives numbers to what agents of earlier epochs had no time to number. They are gone, so nobody writes to it.
    pub async fn inherit(&self) -> Result<(), StoreError> {
        let local = |source| StoreError::Local { path: self.folder.display().to_string(), source };
        for epoch in open_logs(&self.folder).map_err(local)?.into_iter().filter(|epoch| *epoch < self.epoch) {
            let sent = self.run.last_log(epoch, self.node).await?;
            let waiting = chunks(&self.folder)
                .map_err(local)?
                .into_iter()
                .filter(|chunk| chunk.epoch == epoch)
                .map(|chunk| chunk.number);
            let next = waiting.chain(sent).max().map_or(0, |last| last + 1);
            let to = self.folder.join(chunk_name(epoch, next, "raw"));
            fs::rename(self.folder.join(format!("e{epoch}.log")), to).map_err(local)?;
        }
        Ok(())
    }
}

/// A chunk that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Chunk {
    epoch: u64,
    number: u64,
}

impl Chunk {
    /// Compresses it, unless that is done. The same bytes again, should an agent have died before it could delete the rest.
    fn pack(self, folder: &Path) -> io::Result<PathBuf> {
        let (raw, packed) = (
            folder.join(chunk_name(self.epoch, self.number, "raw")),
            folder.join(chunk_name(self.epoch, self.number, "zst")),
        );
        if raw.exists() {
            let written = folder.join("packing");
            fs::write(&written, zstd::bulk::compress(&fs::read(&raw)?, LEVEL)?)?;
            fs::rename(written, &packed)?;
            fs::remove_file(raw)?;
        }
        Ok(packed)
    }
}

fn chunk_name(epoch: u64, number: u64, end: &str) -> String {
    format!("e{epoch}-{number:08}.{end}")
}

fn chunks(folder: &Path) -> io::Result<Vec<Chunk>> {
    let mut found: Vec<Chunk> = names(folder)?.iter().filter_map(|name| read_chunk_name(name)).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn read_chunk_name(name: &str) -> Option<Chunk> {
    let (stem, end) = name.strip_prefix('e')?.split_once('.')?;
    let (epoch, number) = stem.split_once('-').filter(|_| ["raw", "zst"].contains(&end))?;
    Some(Chunk { epoch: epoch.parse().ok()?, number: number.parse().ok()? })
}

fn open_logs(folder: &Path) -> io::Result<Vec<u64>> {
    Ok(names(folder)?.iter().filter_map(|name| name.strip_prefix('e')?.strip_suffix(".log")?.parse().ok()).collect())
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?.map(|found| Ok(found?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_runstore::Store;
    use gpuplan_runstore::layout::Layout;

    fn run(folder: &Path) -> Run {
        Run::new(Store::open(&folder.join("store").display().to_string()).unwrap(), Layout::new("t").unwrap())
    }

    fn kept(folder: &Path, epoch: u64) -> String {
        let place = folder.join(format!("store/runs/t/logs/e{epoch}/0"));
        let mut names: Vec<_> = fs::read_dir(place).unwrap().map(|found| found.unwrap().path()).collect();
        names.sort();
        let numbers: Vec<u64> =
            names.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "no number is missing");
        let unpack = |path: &PathBuf| zstd::decode_all(File::open(path).unwrap()).unwrap();
        String::from_utf8(names.iter().flat_map(unpack).collect()).unwrap()
    }

    /// The agent vanishes after each step of the disk in turn.
    #[tokio::test]
    async fn every_byte_is_kept_once_wherever_an_agent_is_killed() {
        for (vanished_after, _) in ["append", "close", "pack", "send", "delete"].iter().enumerate() {
            let folder = tempfile::tempdir().unwrap();
            let spool = folder.path().join("spool");
            let first = Logs::new(run(folder.path()), spool.clone(), 1, 0).unwrap();
            first.log().append(b"one\n").unwrap();
            first.send().await.unwrap();
            first.log().append(b"two\n").unwrap();
            let chunk = Chunk { epoch: 1, number: 1 };
            if vanished_after >= 1 {
                first.log().close().unwrap();
            }
            let packed = if vanished_after >= 2 { Some(chunk.pack(&spool).unwrap()) } else { None };
            if vanished_after >= 3 {
                assert!(first.run.add_log(1, 0, 1, fs::read(packed.clone().unwrap()).unwrap()).await.unwrap());
            }
            if vanished_after >= 4 {
                fs::remove_file(packed.unwrap()).unwrap();
            }
            let second = Logs::new(run(folder.path()), spool.clone(), 2, 0).unwrap();
            second.inherit().await.unwrap();
            second.log().append(b"three\n").unwrap();
            second.send().await.unwrap();
            assert_eq!(
                (kept(folder.path(), 1).as_str(), kept(folder.path(), 2).as_str()),
                ("one\ntwo\n", "three\n"),
                "{vanished_after}"
            );
            assert_eq!(names(&spool).unwrap(), [""; 0]);
        }
    }

    #[test]
    fn names_of_chunks_read_back() {
        assert_eq!(read_chunk_name("e3-00000007.raw"), Some(Chunk { epoch: 3, number: 7 }));
        for other in ["e3.log", "packing", "e3-7.txt", "3-7.raw", "e-1.zst", "e1-x.zst"] {
            assert_eq!(read_chunk_name(other), None, "{other}");
        }
    }
}
