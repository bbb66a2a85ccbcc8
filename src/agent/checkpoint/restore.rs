//! Brings the newest checkpoint that verifies into the checkpoint folder, and puts aside what nobody can vouch for.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::checkpoint::scan::{Place, look_again, scan};
use crate::checkpoint::upload::FILES_AT_ONCE;
use crate::ports::logger::Logger;
use crate::rules::framework::{Completeness, Framework, ROLLING, Seen, place_of, step_of};
use gpuplan_runstore::store::hash_file;
use gpuplan_runstore::{Manifest, ManifestName, Run, StoreError, StoredFile};

/// Checkpoints of which nobody knows whether they are whole. Hidden, so that no framework resumes from them.
pub const QUARANTINE: &str = ".quarantine";
const ARRIVING: &str = ".restore-";

/// What the program starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// `None` if nothing committed was restored.
    pub name: Option<ManifestName>,
    /// File or folder to resume from.
    pub path: Option<PathBuf>,
    /// Where it lies, and where the next ones are expected. `None`: in the checkpoint folder.
    pub folder: Option<PathBuf>,
    /// Files without a step that lie there as the program starts: only another version of them is a new checkpoint.
    pub rolling: Vec<Seen>,
    /// Committed checkpoints that did not verify, with the reason.
    pub rejected: Vec<(ManifestName, String)>,
}

#[derive(Clone, Copy)]
pub struct Restore<'a> {
    pub run: &'a Run,
    pub folder: &'a Path,
    pub place: Place,
    /// The folder of the job: what the program had saved elsewhere in it is restored there. `None`: all is restored in `folder`.
    pub job: Option<&'a Path>,
    pub framework: Framework,
    pub epoch: u64,
    /// This machine.
    pub node: u32,
    /// Where no committed checkpoint verifies.
    pub restart_from_nothing: bool,
    pub logger: &'a dyn Logger,
}

impl Restore<'_> {
    /// An error means that the store or the disk does not work, and nothing was decided: a checkpoint that cannot be fetched
    /// now is never passed over for an older one.
    pub async fn newest(&self) -> Result<Restored, StoreError> {
        self.on_disk(self.prepare())?;
        let mut restored = Restored::default();
        for name in self.run.restore_order().await? {
            let why = match self.run.manifest(name).await? {
                None => "its manifest is gone".to_owned(),
                Some(Err(error)) => error.to_string(),
                Some(Ok(manifest)) => match self.restore(&manifest).await? {
                    Ok(path) => {
                        let rejected = restored.rejected;
                        return Ok(Restored { rejected, ..self.restored(&manifest, path) });
                    }
                    Err(why) => why,
                },
            };
            self.logger.say(&format!(
                "warning: the checkpoint of step {} (epoch {}) is not used: {why}",
                name.step, name.epoch
            ));
            restored.rejected.push((name, why));
        }
        // To start from nothing although there was something is for the user to say.
        if restored.rejected.is_empty() || self.restart_from_nothing {
            restored.path = self.on_disk(self.adopt())?;
        }
        restored.rolling = rolling_in(self.folder, self.place);
        Ok(restored)
    }

    /// Exactly what the first machine restored; `None` is nothing. `Err` inside is why it cannot be used here.
    pub async fn exactly(&self, name: Option<ManifestName>) -> Result<Result<Restored, String>, StoreError> {
        self.on_disk(self.prepare())?;
        let Some(name) = name else {
            return Ok(Ok(Restored { path: self.on_disk(self.adopt())?, ..Restored::default() }));
        };
        let manifest = match self.run.manifest(name).await? {
            None => return Ok(Err("its manifest is gone".to_owned())),
            Some(Err(error)) => return Ok(Err(error.to_string())),
            Some(Ok(manifest)) => manifest,
        };
        let restored = self.restore(&manifest).await?;
        Ok(restored.map(|path| self.restored(&manifest, path)))
    }

    /// On a disk that is shared with the first machine, which has restored it.
    pub async fn there(&self, name: Option<ManifestName>) -> Result<Result<Restored, String>, StoreError> {
        let Some(name) = name else { return Ok(Ok(Restored::default())) };
        match self.run.manifest(name).await? {
            Some(Ok(manifest)) => {
                let path = resumed_from(&self.folder_of(&manifest), &manifest);
                Ok(Ok(self.restored(&manifest, path)))
            }
            Some(Err(error)) => Ok(Err(error.to_string())),
            None => Ok(Err("its manifest is gone".to_owned())),
        }
    }

    fn restored(&self, manifest: &Manifest, path: PathBuf) -> Restored {
        let folder = self.folder_of(manifest);
        let rolling = rolling_in(&folder, self.place_of(manifest));
        Restored { name: Some(manifest.id()), path: Some(path), folder: Some(folder), rolling, rejected: Vec::new() }
    }

    /// Where it lies on every machine.
    fn folder_of(&self, manifest: &Manifest) -> PathBuf {
        let elsewhere = self.job.zip(manifest.folder.as_ref());
        elsewhere.map_or_else(|| self.folder.to_owned(), |(job, below)| job.join(below))
    }

    fn place_of(&self, manifest: &Manifest) -> Place {
        if self.job.is_some() && manifest.folder.is_some() { Place::Found } else { self.place }
    }

    /// Gives the file or folder, or why it cannot be used.
    async fn restore(&self, manifest: &Manifest) -> Result<Result<PathBuf, String>, StoreError> {
        let folder = self.folder_of(manifest);
        let there = Restore { folder: &folder, place: self.place_of(manifest), ..*self };
        there.on_disk(there.prepare())?;
        if let Some(why) = there.bring(manifest).await? {
            return Ok(Err(why));
        }
        there.on_disk(there.settle(manifest))?;
        Ok(Ok(resumed_from(&folder, manifest)))
    }

    /// Files that are written over and over have their names for themselves.
    fn replace_each(&self, arrived: &Path) -> io::Result<()> {
        for found in fs::read_dir(arrived)? {
            let found = found?;
            // Hidden files are never weights.
            let name = found.file_name().into_string().ok().filter(|name| !name.starts_with('.'));
            let Some(name) = name else { continue };
            self.put_aside(&name)?;
            fs::rename(found.path(), self.folder.join(name))?;
        }
        fs::remove_dir_all(arrived)
    }

    fn prepare(&self) -> io::Result<()> {
        fs::create_dir_all(self.folder)?;
        self.sweep()
    }

    fn on_disk<T>(&self, done: io::Result<T>) -> Result<T, StoreError> {
        done.map_err(|source| StoreError::Local { path: self.folder.display().to_string(), source })
    }

    /// Leftovers of a restore that was cut off.
    fn sweep(&self) -> io::Result<()> {
        for found in fs::read_dir(self.folder)? {
            let found = found?;
            if found.file_name().to_string_lossy().starts_with(ARRIVING) {
                fs::remove_dir_all(found.path())?;
            }
        }
        Ok(())
    }

    /// Puts a committed checkpoint in its place; `Some` is why it cannot be used.
    async fn bring(&self, manifest: &Manifest) -> Result<Option<String>, StoreError> {
        if self.is_here(manifest).await? {
            return Ok(None);
        }
        let arriving = self.folder.join(format!("{ARRIVING}{}", manifest.step));
        let mut folders = vec![arriving.clone()];
        let files = manifest.files_of(self.node);
        if files.is_empty() {
            return Ok(Some("it holds nothing for this machine".to_owned()));
        }
        folders.extend(files.iter().filter_map(|file| arriving.join(&file.path).parent().map(Path::to_owned)));
        for folder in &folders {
            self.on_disk(fs::create_dir_all(folder))?;
        }
        let fetching: Vec<_> = files.iter().map(|file| self.fetch(file, &arriving)).collect();
        let damage: Vec<Option<String>> = stream::iter(fetching).buffer_unordered(FILES_AT_ONCE).try_collect().await?;
        if let Some(why) = damage.into_iter().flatten().next() {
            self.on_disk(fs::remove_dir_all(&arriving))?;
            return Ok(Some(why));
        }
        let moved = (|| {
            folders.iter().try_for_each(|folder| flush(folder))?;
            if manifest.name == ROLLING {
                self.replace_each(&arriving.join(ROLLING))?;
            } else {
                self.put_aside(&manifest.name)?;
                fs::rename(arriving.join(&manifest.name), self.folder.join(&manifest.name))?;
            }
            fs::remove_dir(&arriving)?;
            flush(self.folder)
        })();
        self.on_disk(moved)?;
        Ok(None)
    }

    async fn fetch(&self, file: &StoredFile, into: &Path) -> Result<Option<String>, StoreError> {
        match self.run.fetch(&file.key, file.size, &into.join(&file.path)).await {
            Ok(sent) if sent.sha256 == file.sha256 => Ok(None),
            Ok(_) => Ok(Some(format!("{} is not what was sent (its sha256 differs)", file.path))),
            Err(StoreError::Missing { key }) => Ok(Some(format!("{key} is missing"))),
            Err(error) => Err(error),
        }
    }

    /// What lies here already is used if every file of it verifies and there is no other.
    async fn is_here(&self, manifest: &Manifest) -> Result<bool, StoreError> {
        let Ok(Some(found)) = look_again(self.folder, self.place, &manifest.name) else { return Ok(false) };
        let here: BTreeMap<&str, u64> = found.files.iter().map(|file| (file.path.as_str(), file.size)).collect();
        let files = manifest.files_of(self.node);
        let wanted: BTreeMap<&str, u64> = files.iter().map(|file| (file.path.as_str(), file.size)).collect();
        if here != wanted {
            return Ok(false);
        }
        for file in files {
            if hash_file(&place_of(self.folder, &file.path)).await?.sha256 != file.sha256 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frameworks resume from the highest step they find, so nothing newer than what was restored may stay.
    fn settle(&self, manifest: &Manifest) -> io::Result<()> {
        let listing = scan(self.folder, self.place)?;
        for name in listing.entries.iter().map(|found| &found.name).chain(listing.unreadable.keys()) {
            if step_of(name).is_some_and(|step| step > manifest.step) {
                self.put_aside(name)?;
            }
        }
        let framework: Framework = manifest.framework.parse().unwrap_or(self.framework);
        if let Some((tracker, text)) = framework.tracker(&manifest.name) {
            let written = self.folder.join(format!(".{tracker}.new"));
            fs::write(&written, text)?;
            fs::rename(written, self.folder.join(tracker))?;
        }
        Ok(())
    }

    /// Nothing is committed: the user's own checkpoints count if they are complete, those of an earlier epoch, which may have
    /// been killed while it wrote, only with a marker.
    fn adopt(&self) -> io::Result<Option<PathBuf>> {
        let listing = scan(self.folder, self.place)?;
        listing.unreadable.keys().try_for_each(|name| self.put_aside(name))?;
        let mut newest = None;
        for found in listing.entries.into_iter().filter(|found| found.name != ROLLING) {
            match self.framework.judge(&found, &listing.trackers) {
                Completeness::Marked => newest = Some(self.folder.join(found.name)),
                Completeness::Unmarked if self.epoch == 1 => newest = Some(self.folder.join(found.name)),
                _ => self.put_aside(&found.name)?,
            }
        }
        Ok(newest)
    }

    /// Moves an entry into the quarantine of this epoch. Those of earlier epochs make room: they were passed over twice.
    fn put_aside(&self, name: &str) -> io::Result<()> {
        let from = self.folder.join(name);
        if fs::symlink_metadata(&from).is_err() {
            return Ok(());
        }
        let quarantine = self.folder.join(QUARANTINE);
        let own = quarantine.join(format!("e{}", self.epoch));
        fs::create_dir_all(&own)?;
        for found in fs::read_dir(&quarantine)? {
            let found = found?;
            if found.path() != own {
                fs::remove_dir_all(found.path())?;
            }
        }
        let mut to = own.join(name);
        for number in 1_u32.. {
            if fs::symlink_metadata(&to).is_err() {
                break;
            }
            to = own.join(format!("{name}.{number}"));
        }
        self.logger.say(&format!("{name} was not committed and may be torn: moved to {}", to.display()));
        fs::rename(from, to)
    }
}

fn rolling_in(folder: &Path, place: Place) -> Vec<Seen> {
    // What cannot be looked at is new if it can be later.
    look_again(folder, place, ROLLING).ok().flatten().map(|entry| entry.files).unwrap_or_default()
}

/// The file or folder of a checkpoint; of several files without a step, their folder.
fn resumed_from(folder: &Path, manifest: &Manifest) -> PathBuf {
    match manifest.files.as_slice() {
        [file] if manifest.name == ROLLING => place_of(folder, &file.path),
        _ if manifest.name == ROLLING => folder.to_owned(),
        _ => folder.join(&manifest.name),
    }
}

/// A name in a folder is safe when the folder is flushed.
fn flush(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}
