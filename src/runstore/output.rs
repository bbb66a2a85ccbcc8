//! What the programs of a run said, read from the store: in chunks, several at a time, and only those that are asked for.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::run::Run;
use crate::store::StoreError;

/// Chunks under way at the same time. A day has up to 17,280 of a few kilobytes.
const AT_ONCE: usize = 32;
/// Chunks that are read before any is shown, so that a long output does not have to fit into memory.
pub const BATCH: usize = 64;
/// An agent closes a chunk at 256 KiB and a block. What unpacks to more was not written by one. Bytes.
const LARGEST: u64 = 16 << 20;
/// The same of a packed chunk: it is not even fetched.
const LARGEST_PACKED: u64 = 4 << 20;
/// What unpacking may take to look back, as a power of two; the agent's own chunks need less.
const WINDOW: u32 = 24;

/// A piece of what the program of a node said, as a listing shows it. In the order in which it was said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chunk {
    pub epoch: u64,
    pub number: u64,
    /// When it was sent, by the clock of the store, since 1970: after what is in it was said, by five seconds at most while the
    /// store can be reached.
    pub sent_seconds: i64,
    bytes: u64,
    key: Arc<str>,
}

/// The chunks that somebody has seen, so that only newer ones are listed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    newest: BTreeMap<u64, u64>,
}

impl Run {
    /// Chunks of a node's output that are new since the last call with this `Seen`. Machines of earlier epochs may still add to theirs.
    ///
    /// # Errors
    /// If the store cannot be listed.
    pub async fn new_output(&self, node: u32, seen: &mut Seen) -> Result<Vec<Chunk>, StoreError> {
        let epochs = self.store.folders(&self.layout.all_logs()).await?;
        let mut chunks = Vec::new();
        for epoch in epochs.iter().filter_map(|name| name.strip_prefix('e')?.parse::<u64>().ok()) {
            let after = seen.newest.get(&epoch).map(|number| self.layout.log(epoch, node, *number));
            let listed = self.store.list_after(&self.layout.logs(epoch, node), after.as_deref()).await?;
            for object in listed {
                let Some((epoch, number)) = self.layout.chunk_of_log(object.key(), node) else { continue };
                let newest = seen.newest.entry(epoch).or_insert(number);
                *newest = number.max(*newest);
                let (bytes, sent_seconds) = (object.bytes(), object.modified_seconds());
                chunks.push(Chunk { epoch, number, sent_seconds, bytes, key: object.key().into() });
            }
        }
        chunks.sort_unstable();
        Ok(chunks)
    }

    /// What is in these chunks, in their order. One that cannot be read is told in its place.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn output_of(&self, chunks: &[Chunk]) -> Result<Vec<Vec<u8>>, StoreError> {
        let reads: Vec<_> = chunks.iter().map(|chunk| self.read_chunk(chunk)).collect();
        stream::iter(reads).buffered(AT_ONCE).try_collect().await
    }

    /// The last lines of these chunks that are wanted, fetched from the end.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn last_lines(
        &self,
        chunks: &[Chunk],
        count: usize,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<u8>, StoreError> {
        let (mut pieces, mut found, mut rest) = (Vec::new(), 0, chunks);
        // The first line of a piece may have begun in an older one, so one more is looked for.
        while !rest.is_empty() && found <= count {
            let (older, newer) = rest.split_at(rest.len().saturating_sub(BATCH));
            let piece = self.output_of(newer).await?.concat();
            found += piece.split_inclusive(|byte| *byte == b'\n').filter(|line| is_wanted(line)).count();
            pieces.push(piece);
            rest = older;
        }
        pieces.reverse();
        let text = pieces.concat();
        let wanted: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').filter(|line| is_wanted(line)).collect();
        Ok(wanted[wanted.len().saturating_sub(count)..].concat())
    }

    async fn read_chunk(&self, chunk: &Chunk) -> Result<Vec<u8>, StoreError> {
        let packed = match chunk.bytes {
            0..=LARGEST_PACKED => self.store.read(&chunk.key).await?.ok_or_else(|| "it is gone".to_owned()),
            bytes => Err(format!("it has {bytes} bytes, more than an agent writes")),
        };
        let text = packed.and_then(|packed| unpack(&packed).map_err(|error| error.to_string()));
        let (number, epoch) = (chunk.number, chunk.epoch);
        Ok(text.unwrap_or_else(|why| format!("[chunk {number} of epoch {epoch} cannot be read: {why}]\n").into_bytes()))
    }
}

/// A few bytes may stand for gigabytes.
fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut decoder = zstd::Decoder::new(packed)?;
    decoder.window_log_max(WINDOW)?;
    let mut text = Vec::new();
    if decoder.take(LARGEST + 1).read_to_end(&mut text)? as u64 > LARGEST {
        return Err(io::Error::other(format!("it unpacks to more than {} MiB", LARGEST >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::store::Store;

    fn run(folder: &std::path::Path) -> Run {
        Run::new(Store::open(&folder.display().to_string()).unwrap(), Layout::new("a").unwrap())
    }

    async fn say(run: &Run, (epoch, node, number): (u64, u32, u64), text: &[u8]) {
        let packed = zstd::bulk::compress(text, 1).unwrap();
        run.store.write(&run.layout.log(epoch, node, number), packed).await.unwrap();
    }

    #[tokio::test]
    async fn only_new_chunks_are_listed_and_each_comes_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (run, mut seen) = (run(folder.path()), Seen::default());
        for number in 0..40 {
            say(&run, (2, 0, number), format!("2.{number}\n").as_bytes()).await;
        }
        say(&run, (1, 0, 0), b"1.0\n").await;
        say(&run, (1, 1, 0), b"of another machine\n").await;
        let first = run.new_output(0, &mut seen).await.unwrap();
        let text = run.output_of(&first).await.unwrap().concat();
        let said: Vec<String> = (0..40).map(|number| format!("2.{number}")).collect();
        assert_eq!(String::from_utf8(text).unwrap(), format!("1.0\n{}\n", said.join("\n")));
        assert!(run.new_output(0, &mut seen).await.unwrap().is_empty());
        say(&run, (1, 0, 1), b"late\n").await;
        say(&run, (3, 0, 0), b"3.0\n").await;
        let next = run.new_output(0, &mut seen).await.unwrap();
        assert_eq!(run.output_of(&next).await.unwrap().concat(), b"late\n3.0\n");
    }

    #[tokio::test]
    async fn the_last_lines_are_found_without_reading_all() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        for number in 0..300 {
            // Lines lie across chunks.
            say(&run, (1, 0, number), format!("e {number}\nlin").as_bytes()).await;
        }
        let chunks = run.new_output(0, &mut Seen::default()).await.unwrap();
        for chunk in &chunks[..100] {
            run.store.delete(&chunk.key).await.unwrap();
        }
        let last = run.last_lines(&chunks, 3, |_| true).await.unwrap();
        assert_eq!(String::from_utf8(last).unwrap(), "line 298\nline 299\nlin");
        let ninth = |line: &[u8]| line.ends_with(b"9\n");
        let last = run.last_lines(&chunks, 12, ninth).await.unwrap();
        let text = String::from_utf8(last).unwrap();
        assert_eq!((text.lines().count(), text.lines().next()), (12, Some("line 189")));
        // Only who wants more than there is reads on to what is gone.
        let all = run.last_lines(&chunks, 1000, |line| line.starts_with(b"[chunk")).await.unwrap();
        assert!(String::from_utf8(all).unwrap().starts_with("[chunk 0 of epoch 1 cannot be read: it is gone]\n"));
    }

    #[tokio::test]
    async fn a_chunk_that_unpacks_to_gigabytes_or_to_nothing_is_told_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let run = run(folder.path());
        let mut bomb = zstd::Encoder::new(Vec::new(), 1).unwrap();
        for _ in 0..64 {
            io::copy(&mut io::repeat(b'a').take(1 << 20), &mut bomb).unwrap();
        }
        let bomb = bomb.finish().unwrap();
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        run.store.write(&run.layout.log(1, 0, 0), bomb).await.unwrap();
        run.store.write(&run.layout.log(1, 0, 1), b"torn".to_vec()).await.unwrap();
        say(&run, (1, 0, 2), b"fine\n").await;
        let chunks = run.new_output(0, &mut Seen::default()).await.unwrap();
        let text = String::from_utf8(run.output_of(&chunks).await.unwrap().concat()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "[chunk 0 of epoch 1 cannot be read: it unpacks to more than 16 MiB]");
        assert!(lines[1].starts_with("[chunk 1 of epoch 1 cannot be read: ") && lines[2] == "fine", "{text}");
    }
}
