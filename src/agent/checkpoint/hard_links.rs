//! `HardLinks`: second names (hard links) of a checkpoint's files, so that they can be sent though the program deletes them meanwhile.
//!
//! Frameworks keep the last few checkpoints and delete the others. Where sending one takes longer than writing the next few, each would
//! be gone before it was sent, and none would ever be safe.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::checkpoint::scan::entry;
use crate::rules::framework::{Entry, place_of};

/// Folder for them in the agent's own, which lies on the same file system.
const NAME: &str = "sending";

/// Takes no room of its own until the program deletes what it holds. Gone when it is dropped.
#[derive(Debug)]
pub struct HardLinks {
    folder: PathBuf,
}

impl HardLinks {
    /// `own` is the agent's folder. `None` where the files cannot have second names, or are no longer those of `ready`.
    pub fn create(own: &Path, checkpoints: &Path, ready: &Entry) -> Option<Self> {
        release(own).ok()?;
        let links = Self { folder: own.join(NAME) };
        ready.files.iter().try_for_each(|file| links.link(&place_of(checkpoints, &file.path), &file.path)).ok()?;
        links.has(ready).then_some(links)
    }

    /// What lies here is where the checkpoint folder has it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file that was written into since then is another one.
    pub fn has(&self, ready: &Entry) -> bool {
        entry(&self.folder.join(&ready.name), ready.name.clone())
            .is_ok_and(|held| held.is_some_and(|held| held.files == ready.files))
    }

    fn link(&self, from: &Path, name: &str) -> io::Result<()> {
        let to = self.folder.join(name);
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        // What a link leads to is what a restore needs.
        fs::hard_link(fs::canonicalize(from)?, to)
    }
}

impl Drop for HardLinks {
    fn drop(&mut self) {
        // What stays behind is released with the next one.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Gives up what an agent that is gone held.
pub fn release(own: &Path) -> io::Result<()> {
    match fs::remove_dir_all(own.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_outlives_its_name_and_tells_when_it_was_written_into() {
        let folder = tempfile::tempdir().unwrap();
        let (place, own) = (folder.path().join("step-1"), folder.path().join(".gpuplan"));
        fs::create_dir_all(place.join("shards")).unwrap();
        fs::write(place.join("shards/0"), "weights").unwrap();
        fs::write(folder.path().join("elsewhere"), "linked").unwrap();
        std::os::unix::fs::symlink("../elsewhere", place.join("link")).unwrap();
        let ready = entry(&place, "step-1".to_owned()).unwrap().unwrap();
        let links = HardLinks::create(&own, folder.path(), &ready).unwrap();
        fs::remove_dir_all(&place).unwrap();
        assert!(links.has(&ready));
        assert_eq!(fs::read_to_string(links.folder().join("step-1/shards/0")).unwrap(), "weights");
        assert_eq!(fs::read_to_string(links.folder().join("step-1/link")).unwrap(), "linked");
        fs::write(links.folder().join("step-1/shards/0"), "other weights").unwrap();
        assert!(!links.has(&ready));
        drop(links);
        assert!(!own.join(NAME).exists());
        assert!(HardLinks::create(&own, folder.path(), &ready).is_none(), "it is gone");
    }
}
