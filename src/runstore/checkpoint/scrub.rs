//! Reads what is kept of a run: whether every checkpoint could be restored, before anybody needs it.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::layout::ManifestName;
use crate::manifest::StoredFile;
use crate::run::Run;
use crate::store::StoreError;

/// Objects under way at the same time.
const AT_ONCE: usize = 8;

/// How much of an object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Whether it is there and how large it is: a question for each.
    Sizes,
    /// All of it, against its hash: as much traffic as restoring.
    Hashes,
}

/// What was found of one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    pub name: ManifestName,
    pub files: usize,
    pub bytes: u64,
    /// Why it cannot be restored; none: it can.
    pub faults: Vec<String>,
}

/// Objects that were looked at, by key: `None` is sound, else what is wrong. Checkpoints share files that stay the same.
pub type Looked = BTreeMap<String, Option<String>>;

impl Run {
    /// Looks at a checkpoint with everything that it names.
    ///
    /// # Errors
    /// If the store does not answer: then nothing is known, which is neither sound nor lost.
    pub async fn scrub(&self, name: ManifestName, depth: Depth, looked: &mut Looked) -> Result<Scrubbed, StoreError> {
        let broken = |fault: String| Scrubbed { name, files: 0, bytes: 0, faults: vec![fault] };
        let manifest = match self.manifest(name).await? {
            None => return Ok(broken("its manifest is gone".to_owned())),
            Some(Err(error)) => return Ok(broken(error.to_string())),
            Some(Ok(manifest)) => manifest,
        };
        let new: Vec<&StoredFile> = manifest.files.iter().filter(|file| !looked.contains_key(&file.key)).collect();
        let looks: Vec<_> = new.iter().map(|file| self.look(file, depth)).collect();
        let found: Vec<Option<String>> = stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
        looked.extend(new.iter().map(|file| file.key.clone()).zip(found));
        let faults = manifest.files.iter().filter_map(|file| {
            let fault = looked.get(&file.key)?.as_ref()?;
            Some(format!("{}: {fault}", file.path))
        });
        Ok(Scrubbed { name, files: manifest.files.len(), bytes: manifest.bytes(), faults: faults.collect() })
    }

    async fn look(&self, file: &StoredFile, depth: Depth) -> Result<Option<String>, StoreError> {
        let key = self.layout.within(&file.key);
        let Some(size) = self.store.size(&key).await? else { return Ok(Some("its data is gone".to_owned())) };
        if size != file.size {
            return Ok(Some(format!("it has {size} bytes of {}", file.size)));
        }
        if depth == Depth::Sizes {
            return Ok(None);
        }
        let found = self.store.digest(&key, size).await?;
        let is_sound = found.sha256.eq_ignore_ascii_case(&file.sha256) && found.size == file.size;
        Ok((!is_sound).then(|| "its contents are not those that were committed".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Layout, data_key};
    use crate::manifest::Manifest;
    use crate::store::{Store, sha256};

    #[tokio::test]
    async fn every_fault_is_named_and_a_shared_file_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        for step in 1..=5 {
            let file = |path: &str, text: &str, of: u64| StoredFile {
                path: format!("s{step}/{path}"),
                key: data_key(1, 0, 1, &format!("s{of}/{path}")),
                sha256: sha256(text),
                size: text.len() as u64,
                node: None,
            };
            let files = vec![file("weights", "wwww", step), file("config", "the same", 1)];
            for (file, text) in files.iter().zip(["wwww", "the same"]) {
                run.store.write(&run.layout.within(&file.key), text.into()).await.unwrap();
            }
            let name = ManifestName { step, epoch: 1 };
            assert!(run.commit(&Manifest::new(name, &format!("s{step}"), "files", None, files)).await.unwrap());
        }
        let key = |step: u64| run.layout.within(&data_key(1, 0, 1, &format!("s{step}/weights")));
        run.store.write(&key(2), b"xxxx".to_vec()).await.unwrap();
        run.store.write(&key(3), b"www".to_vec()).await.unwrap();
        run.store.delete(&key(4)).await.unwrap();
        run.store.write(&run.layout.manifest(ManifestName { step: 5, epoch: 1 }), b"{".to_vec()).await.unwrap();
        let scrub = async |depth| {
            let (mut looked, mut all) = (Looked::new(), Vec::new());
            for name in run.restore_order().await.unwrap() {
                let scrubbed = run.scrub(name, depth, &mut looked).await.unwrap();
                all.push((name.step, scrubbed.faults.join("; ")));
            }
            assert_eq!(looked.len(), 5, "four weights and one config");
            all
        };
        let expected = [
            (5, "it is not a valid manifest"),
            (4, "s4/weights: its data is gone"),
            (3, "s3/weights: it has 3 bytes of 4"),
            (2, "s2/weights: its contents are not those"),
            (1, ""),
        ];
        for ((step, said), (number, why)) in scrub(Depth::Hashes).await.iter().zip(expected) {
            assert!(*step == number && said.starts_with(why) && said.is_empty() == why.is_empty(), "{step}: {said}");
        }
        assert_eq!(scrub(Depth::Sizes).await[3], (2, String::new()), "a size tells nothing of the contents");
    }
}
