//! Sends complete checkpoints away: data first, the manifest last, then what is no longer kept is deleted, manifest first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use crate::checkpoint::hard_links::HardLinks;
use crate::checkpoint::scan::{Place, Ready, look_again};
use crate::rules::framework::place_of;
use crate::team::members::collect;
use crate::team::rank::Rank;
use gpuplan_runstore::history::{Keep, to_prune};
use gpuplan_runstore::layout::data_key;
use gpuplan_runstore::store::hash_file;
use gpuplan_runstore::{Manifest, ManifestName, Run, StoreError, StoredFile, Wanted, sha256};

/// Files under way at the same time.
pub const FILES_AT_ONCE: usize = 2;
/// Data of an earlier epoch that no manifest names is deleted when it is so old that nobody can still be sending it.
const ABANDONED: Duration = Duration::from_hours(24);
/// So much of a file is hashed before it is read whole to see whether it was sent before.
const HEAD: u64 = 1 << 20;

/// What became of a checkpoint that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shipped {
    Committed(ManifestName),
    /// It changed on the way, so it was not complete after all.
    Changed,
    /// A higher epoch owns the run. Nothing was committed.
    Fenced,
}

/// After this a file that stays the same is sent anew: a bucket's rule that deletes what is old knows nothing of checkpoints.
const REFRESH: Duration = Duration::from_hours(7 * 24);

/// A copy of a file that this epoch has sent.
#[derive(Clone, Debug)]
struct Known {
    head: String,
    sent: StoredFile,
    sent_at: Instant,
    /// The newest checkpoint that names it, and by which try that was.
    used_by: String,
    used_at: u32,
}

/// Sends for one epoch.
#[derive(Debug)]
pub struct Shipper {
    run: Run,
    folder: PathBuf,
    /// The same below the folder of the job, where the program was not told to save there.
    elsewhere: Option<String>,
    epoch: u64,
    rank: Rank,
    keep: Keep,
    /// What the program started from; not pruned before this epoch has a commit of its own.
    restored_from: Option<ManifestName>,
    committed: Option<ManifestName>,
    /// By the path within the checkpoint: copies of a file that stays the same, as many as checkpoints are kept. Each is named by
    /// every so-manieth checkpoint, so that no object that is lost costs more than one of those that are kept.
    known: BTreeMap<String, Vec<Known>>,
    /// Manifests as they were read, as they never change.
    manifests: BTreeMap<ManifestName, Manifest>,
    attempt: u32,
    rate: Option<f64>,
    has_swept: bool,
    is_hurried: bool,
}

impl Shipper {
    pub fn new(
        run: Run,
        epoch: u64,
        rank: Rank,
        folder: PathBuf,
        keep: Keep,
        restored_from: Option<ManifestName>,
    ) -> Self {
        let (known, manifests) = (BTreeMap::new(), BTreeMap::new());
        let (committed, attempt, rate, has_swept, is_hurried) = (None, 0, None, false, false);
        Self {
            run,
            folder,
            elsewhere: None,
            epoch,
            rank,
            keep,
            restored_from,
            committed,
            known,
            manifests,
            attempt,
            rate,
            has_swept,
            is_hurried,
        }
    }

    fn place(&self) -> Place {
        if self.elsewhere.is_some() { Place::Found } else { Place::Told }
    }

    /// A checkpoint of this folder is restored in it, `below` the folder of the job.
    pub fn lies_in(mut self, below: Option<String>) -> Self {
        self.elsewhere = below;
        self
    }

    /// The machine will soon be gone: what the store has one copy of is not sent again for a second.
    pub fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// The newest checkpoint that is safe.
    pub fn safe(&self) -> Option<ManifestName> {
        self.committed.or(self.restored_from)
    }

    /// Bytes per second of what was really sent so far.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Sends a checkpoint and commits it. May be repeated after an error: what was sent is not sent again.
    pub async fn ship(&mut self, ready: &Ready) -> Result<Shipped, StoreError> {
        let Some(mut files) = self.upload(ready).await? else { return Ok(Shipped::Changed) };
        if self.run.has_epoch(self.epoch + 1).await? {
            return Ok(Shipped::Fenced);
        }
        let (framework, entry) = (ready.framework.name(), &ready.entry.name);
        if !self.rank.is_alone() {
            let wanted = Wanted { step: ready.step, name: entry.clone(), framework: framework.to_owned() };
            files = collect(&self.run, self.epoch, self.rank, &wanted, files).await?;
            if self.run.has_epoch(self.epoch + 1).await? {
                return Ok(Shipped::Fenced);
            }
        }
        let name = ManifestName { step: ready.step, epoch: self.epoch };
        let mut manifest = Manifest::new(name, entry, framework, self.restored_from, files);
        manifest.folder.clone_from(&self.elsewhere);
        // If the name is taken, this step is safe already, from an earlier start of the program in this epoch.
        if self.run.commit(&manifest).await? {
            self.manifests.insert(name, manifest);
        }
        self.committed = self.committed.max(Some(name));
        Ok(Shipped::Committed(name))
    }

    /// Sends the files of a checkpoint; `None` if one of them changed on the way, so that it was not complete after all.
    pub async fn upload(&mut self, ready: &Ready) -> Result<Option<Vec<StoredFile>>, StoreError> {
        self.attempt += 1;
        let begun = Instant::now();
        // Where the file system gives no second names, what is deleted meanwhile was not complete.
        let links = HardLinks::create(&self.rank.own_folder(&self.folder), &self.folder, &ready.entry);
        let root = links.as_ref().map_or(self.folder.as_path(), HardLinks::folder);
        let sends: Vec<_> =
            ready.entry.files.iter().map(|file| self.send(root, &ready.entry.name, &file.path)).collect();
        let files: Vec<Result<(Known, u64), StoreError>> = stream::iter(sends).buffered(FILES_AT_ONCE).collect().await;
        let (mut stored, mut bytes, mut failed) = (Vec::new(), 0, None);
        for file in files {
            match file {
                Ok((known, sent)) => {
                    bytes += sent;
                    stored.push(known.sent.clone());
                    let copies = self.known.entry(within(&ready.entry.name, &known.sent.path)).or_default();
                    remember(copies, known, self.keep.last.max(1));
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            // The program deleted it meanwhile, as it does with old ones.
            Some(StoreError::Local { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
            Some(error) => return Err(error),
            None => {}
        }
        self.measure(bytes, begun.elapsed());
        Ok(self.is_the_same(ready, links.as_ref()).then_some(stored))
    }

    /// Nothing was written into it or beside it meanwhile. The program may have deleted what is held.
    fn is_the_same(&self, ready: &Ready, links: Option<&HardLinks>) -> bool {
        // Of what cannot be looked at nobody can tell.
        let Ok(now) = look_again(&self.folder, self.place(), &ready.entry.name) else { return false };
        match links {
            None => now.as_ref() == Some(&ready.entry),
            Some(links) => {
                links.has(&ready.entry)
                    && now.is_none_or(|now| now.files.iter().all(|file| ready.entry.files.contains(file)))
            }
        }
    }

    fn measure(&mut self, bytes: u64, took: Duration) {
        if bytes > 0 {
            let rate = bytes as f64 / took.as_secs_f64().max(1e-6);
            self.rate = Some(self.rate.map_or(rate, |before| f64::midpoint(before, rate)));
        }
    }

    /// The file as it is stored, and how many bytes had to be sent for it.
    async fn send(&self, root: &Path, name: &str, path: &str) -> Result<(Known, u64), StoreError> {
        let from = if root == self.folder { place_of(root, path) } else { root.join(path) };
        let head = head(&from).map_err(|source| StoreError::Local { path: from.display().to_string(), source })?;
        let copies = self.known.get(&within(name, path)).map(Vec::as_slice).unwrap_or_default();
        if copies.iter().any(|known| known.head == head) {
            let here = hash_file(&from).await?;
            let same: Vec<&Known> = copies
                .iter()
                .filter(|known| known.sent.sha256 == here.sha256 && known.sent.size == here.size)
                .collect();
            let wanted = if self.is_hurried { 1 } else { self.keep.last.max(1) };
            if let Some(known) = reusable(&same, name, wanted, Instant::now())
                && self.run.has_data(&known.sent.key, known.sent.size).await?
            {
                let sent = StoredFile { path: path.to_owned(), ..known.sent.clone() };
                let (used_by, used_at) = (name.to_owned(), self.attempt);
                return Ok((Known { sent, used_by, used_at, ..known.clone() }, 0));
            }
        }
        let key = data_key(self.epoch, self.rank.node, self.attempt, path);
        let sent = self.run.send(&key, &from).await?;
        let stored = StoredFile { path: path.to_owned(), key, sha256: sent.sha256, size: sent.size, node: None };
        let (used_by, used_at) = (name.to_owned(), self.attempt);
        Ok((Known { head, sent: stored, sent_at: Instant::now(), used_by, used_at }, sent.size))
    }

    /// Deletes what is no longer kept. Cut off anywhere, it leaves every manifest with its data.
    pub async fn prune(&mut self) -> Result<usize, StoreError> {
        if self.run.has_epoch(self.epoch + 1).await? {
            return Ok(0);
        }
        let order = self.run.restore_order().await?;
        let in_use = if self.committed.is_some() { None } else { self.restored_from };
        let kept = self.run.kept().await?;
        let gone: BTreeSet<ManifestName> = to_prune(&order, self.keep, &kept, in_use).into_iter().collect();
        let mut keys: BTreeMap<ManifestName, Vec<String>> = BTreeMap::new();
        for name in &order {
            keys.insert(*name, self.keys(*name).await?);
        }
        let named: BTreeSet<String> =
            order.iter().filter(|name| !gone.contains(name)).flat_map(|name| keys[name].clone()).collect();
        for name in &gone {
            self.run.forget(*name).await?;
            if !self.rank.is_alone() {
                self.run.forget_parts(*name, self.rank.nodes).await?;
            }
            self.manifests.remove(name);
            let is_there = |known: &Known| !keys[name].contains(&known.sent.key) || named.contains(&known.sent.key);
            self.known.values_mut().for_each(|copies| copies.retain(is_there));
            let unnamed: Vec<String> = keys[name].iter().filter(|key| !named.contains(*key)).cloned().collect();
            for key in unnamed {
                self.run.delete_data(&key).await?;
            }
        }
        // A manifest that cannot be read may still name data, so then nothing is swept.
        let all_read = named_by_all(&order, &gone, &self.manifests);
        if !self.has_swept && all_read {
            self.run.sweep(self.epoch, ABANDONED, &named).await?;
            self.has_swept = true;
        }
        Ok(gone.len())
    }

    /// Data of a manifest; none for one that cannot be read, whose data is swept when it is old.
    async fn keys(&mut self, name: ManifestName) -> Result<Vec<String>, StoreError> {
        if !self.manifests.contains_key(&name)
            && let Some(Ok(manifest)) = self.run.manifest(name).await?
        {
            self.manifests.insert(name, manifest);
        }
        let files =
            self.manifests.get(&name).map(|manifest| manifest.files.iter().map(|file| file.key.clone()).collect());
        Ok(files.unwrap_or_default())
    }
}

fn named_by_all(
    order: &[ManifestName],
    gone: &BTreeSet<ManifestName>,
    read: &BTreeMap<ManifestName, Manifest>,
) -> bool {
    order.iter().all(|name| gone.contains(name) || read.contains_key(name))
}

fn within(name: &str, path: &str) -> String {
    path.strip_prefix(name).unwrap_or(path).to_owned()
}

/// The copy that a checkpoint names: the one that it named in an earlier try; else, where there are as many as wanted, the one that
/// others have not named for longest. `None`: the file has to be sent.
fn reusable<'k>(same: &[&'k Known], checkpoint: &str, wanted: usize, now: Instant) -> Option<&'k Known> {
    let own = same.iter().find(|known| known.used_by == checkpoint);
    let is_young = |known: &&&Known| now.saturating_duration_since(known.sent_at) < REFRESH;
    let of_others = || same.iter().filter(|_| same.len() >= wanted).min_by_key(|known| known.used_at).filter(is_young);
    own.or_else(of_others).copied()
}

/// One more copy, or another checkpoint of one. Those of other contents are of no use any more, nor is the oldest of too many.
fn remember(copies: &mut Vec<Known>, newest: Known, most: usize) {
    copies.retain(|known| known.sent.sha256 == newest.sent.sha256 && known.sent.key != newest.sent.key);
    if copies.len() >= most
        && let Some(oldest) = (0..copies.len()).min_by_key(|index| copies[*index].used_at)
    {
        copies.remove(oldest);
    }
    copies.push(newest);
}

/// Hash of the beginning of a file, with its size.
fn head(path: &Path) -> std::io::Result<String> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut beginning = Vec::new();
    file.take(HEAD).read_to_end(&mut beginning)?;
    Ok(format!("{size}:{}", sha256(&beginning)))
}

#[cfg(test)]
mod tests;
