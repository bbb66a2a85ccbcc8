//! `Manifest`: the list of files that makes a checkpoint committed, and the checks before one is believed.

use serde::{Deserialize, Serialize};

use crate::layout::{ManifestName, data_prefix, is_plain_key};

const VERSION: u32 = 1;
/// The folder of the job, as the place of a checkpoint in it.
pub const HERE: &str = ".";

/// A checkpoint with everything needed to restore and verify it. Written last and create-only: it is the commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    pub step: u64,
    pub epoch: u64,
    /// File or folder in the checkpoint folder.
    pub name: String,
    pub files: Vec<StoredFile>,
    /// How it was known to be complete.
    pub framework: String,
    /// What the epoch that committed it had started from; `None` is from nothing.
    pub restored_from: Option<ManifestName>,
    /// A user asked to keep it for good.
    #[serde(default)]
    pub keep: bool,
    /// Where the program had saved it, below the folder of the job and with `/`, if that is not the checkpoint folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Below the checkpoint folder, with `/`; begins with the manifest's name.
    pub path: String,
    /// Below the folder of the run.
    pub key: String,
    pub sha256: String,
    /// Bytes.
    pub size: u64,
    /// The only machine that restores it; `None` for a file that all machines restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
}

/// Why an object is not a manifest that may be restored. The next older one may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("it is not a valid manifest: {0}")]
    Malformed(String),
    #[error("it was written by a newer version ({0})")]
    Newer(u32),
    #[error("it names itself step {}, epoch {}", .0.step, .0.epoch)]
    Misplaced(ManifestName),
    #[error("`{0}` would lie outside the checkpoint folder")]
    Escapes(String),
    #[error("`{0}` is not data of its epoch")]
    Foreign(String),
    #[error("`{0}` has no sha256")]
    Unhashed(String),
    #[error("it lists no file")]
    Empty,
    #[error("`{0}` is listed twice")]
    Repeated(String),
}

impl Manifest {
    pub fn new(
        name: ManifestName,
        entry: &str,
        framework: &str,
        restored_from: Option<ManifestName>,
        files: Vec<StoredFile>,
    ) -> Self {
        let (framework, entry) = (framework.to_owned(), entry.to_owned());
        Self {
            version: VERSION,
            step: name.step,
            epoch: name.epoch,
            name: entry,
            files,
            framework,
            restored_from,
            keep: false,
            folder: None,
        }
    }

    pub fn id(&self) -> ManifestName {
        ManifestName { step: self.step, epoch: self.epoch }
    }

    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Reads the object of this name. Nothing in it may point outside the checkpoint folder or to another epoch's data.
    pub fn read(bytes: &[u8], name: ManifestName) -> Result<Self, ManifestError> {
        let manifest: Self =
            serde_json::from_slice(bytes).map_err(|error| ManifestError::Malformed(error.to_string()))?;
        if manifest.version != VERSION {
            return Err(ManifestError::Newer(manifest.version));
        }
        if manifest.id() != name {
            return Err(ManifestError::Misplaced(manifest.id()));
        }
        if !is_plain(&manifest.name) || manifest.name.starts_with('.') {
            return Err(ManifestError::Escapes(manifest.name));
        }
        // No program is followed into hidden folders, where tools keep what they run.
        let is_below = |folder: &str| folder.split('/').all(|part| is_plain(part) && !part.starts_with('.'));
        if let Some(folder) = manifest.folder.as_ref().filter(|folder| *folder != HERE && !is_below(folder)) {
            return Err(ManifestError::Escapes(folder.clone()));
        }
        if manifest.files.is_empty() {
            return Err(ManifestError::Empty);
        }
        let mut paths: Vec<_> = manifest.files.iter().map(|file| (file.path.as_str(), file.node)).collect();
        paths.sort_unstable();
        // No machine has it twice: the same path again is another machine's.
        if let Some(twice) =
            paths.windows(2).find(|pair| pair[0].0 == pair[1].0 && (pair[0].1.is_none() || pair[0].1 == pair[1].1))
        {
            return Err(ManifestError::Repeated(twice[0].0.to_owned()));
        }
        for file in &manifest.files {
            check(file, &manifest.name, name.epoch)?;
        }
        Ok(manifest)
    }
}

fn check(file: &StoredFile, entry: &str, epoch: u64) -> Result<(), ManifestError> {
    let mut parts = file.path.split('/');
    if parts.next() != Some(entry) || !parts.all(is_plain) {
        return Err(ManifestError::Escapes(file.path.clone()));
    }
    if !file.key.starts_with(&data_prefix(epoch)) || !is_plain_key(&file.key) || !file.key.split('/').all(is_plain) {
        return Err(ManifestError::Foreign(file.key.clone()));
    }
    if file.sha256.len() != 64 || !file.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(ManifestError::Unhashed(file.path.clone()));
    }
    Ok(())
}

/// One part of a path that leads down and nowhere else.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::data_key;

    const NAME: ManifestName = ManifestName { step: 5, epoch: 2 };

    fn file(path: &str, key: &str) -> StoredFile {
        StoredFile { path: path.to_owned(), key: key.to_owned(), sha256: "a".repeat(64), size: 3, node: None }
    }

    fn read(change: impl FnOnce(&mut Manifest)) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::new(NAME, "step-5", "files", None, vec![file("step-5/w", "data/e2/0/step-5/w")]);
        change(&mut manifest);
        Manifest::read(&serde_json::to_vec(&manifest).unwrap(), NAME)
    }

    #[test]
    fn what_was_written_reads_back() {
        let read = read(|_| {}).unwrap();
        assert_eq!((read.id(), read.bytes(), read.files.len()), (NAME, 3, 1));
    }

    #[test]
    fn nothing_leads_outside_the_folder_or_the_epoch() {
        for path in ["step-5/../../x", "/etc/passwd", "other/w", "step-5//w", "step-5/.", ""] {
            let refused = read(|manifest| manifest.files = vec![file(path, "data/e2/0/w")]);
            assert!(matches!(refused, Err(ManifestError::Escapes(_))), "{path}: {refused:?}");
        }
        for (folder, is_fine) in [
            ("out/llama", true),
            (".", true),
            ("./..", false),
            ("/etc", false),
            (".git/hooks", false),
            ("../up", false),
            ("out/../..", false),
            ("", false),
        ] {
            assert_eq!(read(|manifest| manifest.folder = Some(folder.to_owned())).is_ok(), is_fine, "{folder}");
        }
        for key in ["data/e1/0/w", "data/e2/../e1/w", "spec.json", "data/e22/w"] {
            let refused = read(|manifest| manifest.files = vec![file("step-5/w", key)]);
            assert!(matches!(refused, Err(ManifestError::Foreign(_))), "{key}: {refused:?}");
        }
        assert!(matches!(read(|manifest| manifest.name = "..".to_owned()), Err(ManifestError::Escapes(_))));
        assert_eq!(read(|manifest| manifest.files.clear()), Err(ManifestError::Empty));
        assert_eq!(
            read(|manifest| manifest.files[0].sha256.clear()),
            Err(ManifestError::Unhashed("step-5/w".to_owned()))
        );
        assert_eq!(
            read(|manifest| manifest.step = 6),
            Err(ManifestError::Misplaced(ManifestName { step: 6, epoch: 2 }))
        );
        assert_eq!(read(|manifest| manifest.version = 2), Err(ManifestError::Newer(2)));
        assert!(matches!(
            read(|manifest| manifest.files.push(manifest.files[0].clone())),
            Err(ManifestError::Repeated(_))
        ));
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_manifest_are_refused_as_such(bytes: Vec<u8>) {
            prop_assert!(matches!(Manifest::read(&bytes, NAME), Err(ManifestError::Malformed(_))));
        }

        #[test]
        fn files_of_any_name_read_back_and_no_part_of_the_list_does(
            (step, epoch, cut) in (any::<u64>(), any::<u64>(), 0.0_f64..1.0),
            files in proptest::collection::btree_map("[^/\\\\\0]{1,12}", (any::<u64>(), "[0-9a-f]{64}"), 1..6),
        ) {
            prop_assume!(!files.keys().any(|name| name == "." || name == ".."));
            let id = ManifestName { step, epoch };
            let files = files.into_iter().map(|(name, (size, sha256))| {
                let path = format!("step/{name}");
                StoredFile { key: data_key(epoch, 0, 1, &path), path, sha256, size, node: None }
            });
            let written = Manifest::new(id, "step", "files", None, files.collect());
            let whole = serde_json::to_vec(&written).unwrap();
            prop_assert_eq!(Manifest::read(&whole, id), Ok(written));
            let part = &whole[..(cut * whole.len() as f64) as usize];
            prop_assert!(matches!(Manifest::read(part, id), Err(ManifestError::Malformed(_))));
        }
    }
}
