//! `Run`: the objects of one run, read and written by what they mean.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::billed::Billed;
use crate::epoch::Epoch;
use crate::history::{Origins, restore_order};
use crate::layout::{Layout, ManifestName};
use crate::manifest::{Manifest, ManifestError};
use crate::status::Status;
use crate::store::{Sent, Store, StoreError};
use gpuplan_units::Usd;

#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) store: Store,
    pub(crate) layout: Layout,
}

/// What was found where a manifest should be.
pub type Found = Result<Manifest, ManifestError>;

impl Run {
    pub fn new(store: Store, layout: Layout) -> Self {
        Self { store, layout }
    }

    pub fn name(&self) -> &str {
        self.layout.run()
    }

    /// The number of the highest epoch, 0 before the first.
    pub async fn highest_epoch(&self) -> Result<u64, StoreError> {
        Ok(self.epoch_numbers().await?.into_iter().max().unwrap_or(0))
    }

    /// Of every epoch that there is, in no order; one that was adopted leaves many out.
    pub async fn epoch_numbers(&self) -> Result<Vec<u64>, StoreError> {
        let numbers = self.store.list(&self.layout.epochs()).await?;
        Ok(numbers.iter().filter_map(|object| object.file_name().parse().ok()).collect())
    }

    /// `None` for an epoch that is not there or cannot be read: its number counts all the same.
    pub async fn epoch(&self, number: u64) -> Result<Option<Epoch>, StoreError> {
        self.read(&self.layout.epoch(number)).await
    }

    /// False if somebody else has it.
    pub async fn claim(&self, number: u64, epoch: &Epoch) -> Result<bool, StoreError> {
        self.create(&self.layout.epoch(number), epoch).await
    }

    /// Whether an epoch exists. As each claims the next number, a higher owner exists exactly if the next number does.
    pub async fn has_epoch(&self, number: u64) -> Result<bool, StoreError> {
        self.store.exists(&self.layout.epoch(number)).await
    }

    pub async fn manifests(&self) -> Result<Vec<ManifestName>, StoreError> {
        let objects = self.store.list(&self.layout.manifests()).await?;
        Ok(objects.iter().filter_map(|object| ManifestName::parse(object.file_name())).collect())
    }

    /// `None` if it is gone.
    pub async fn manifest(&self, name: ManifestName) -> Result<Option<Found>, StoreError> {
        let bytes = self.store.read(&self.layout.manifest(name)).await?;
        Ok(bytes.map(|bytes| Manifest::read(&bytes, name)))
    }

    /// Every manifest in the order in which a restore tries them.
    pub async fn restore_order(&self) -> Result<Vec<ManifestName>, StoreError> {
        let manifests = self.manifests().await?;
        let mut origins = Origins::new();
        for name in &manifests {
            if origins.contains_key(&name.epoch) {
                continue;
            }
            // One readable manifest tells for the whole epoch.
            if let Some(Ok(manifest)) = self.manifest(*name).await? {
                origins.insert(name.epoch, manifest.restored_from);
            }
        }
        Ok(restore_order(&manifests, &origins))
    }

    /// The commit. False if the name is taken by something else.
    pub async fn commit(&self, manifest: &Manifest) -> Result<bool, StoreError> {
        self.create(&self.layout.manifest(manifest.id()), manifest).await
    }

    /// Steps that somebody wants kept for good. Other names mean nothing.
    pub async fn kept(&self) -> Result<BTreeSet<u64>, StoreError> {
        let named = self.store.list(&self.layout.kept()).await?;
        Ok(named.iter().filter_map(|object| object.file_name().parse().ok()).collect())
    }

    /// Deletes the manifest first: without it nothing points to the data any more.
    pub async fn forget(&self, name: ManifestName) -> Result<(), StoreError> {
        self.store.delete(&self.layout.manifest(name)).await
    }

    pub async fn delete_data(&self, key: &str) -> Result<(), StoreError> {
        self.store.delete(&self.layout.within(key)).await
    }

    pub async fn send(&self, key: &str, from: &std::path::Path) -> Result<Sent, StoreError> {
        self.store.send_file(&self.layout.within(key), from).await
    }

    pub async fn fetch(&self, key: &str, size: u64, to: &std::path::Path) -> Result<Sent, StoreError> {
        self.store.fetch_file(&self.layout.within(key), size, to).await
    }

    pub async fn status(&self, node: u32) -> Result<Option<Status>, StoreError> {
        self.read(&self.layout.status(node)).await
    }

    pub async fn write_status(&self, node: u32, status: &Status) -> Result<(), StoreError> {
        self.store.write(&self.layout.status(node), text(status)).await
    }

    pub async fn write_billed(&self, billed: &Billed) -> Result<(), StoreError> {
        self.store.write(&self.layout.billed(billed.epoch, billed.node), text(billed)).await
    }

    /// Every machine of every epoch.
    pub async fn billed_all(&self) -> Result<Vec<Billed>, StoreError> {
        let mut all = Vec::new();
        for object in self.store.list(&self.layout.billed_all()).await? {
            all.extend(self.read::<Billed>(object.key()).await?);
        }
        Ok(all)
    }

    /// What all other machines and epochs cost.
    pub async fn spent_besides(&self, epoch: u64, node: u32) -> Result<Usd, StoreError> {
        let (mut total, own) = (Usd::ZERO, self.layout.billed(epoch, node));
        for object in self.store.list(&self.layout.billed_all()).await? {
            if object.key() != own
                && let Some(billed) = self.read::<Billed>(object.key()).await?
            {
                total = total + billed.cost();
            }
        }
        Ok(total)
    }

    /// Something that happened, kept for people. Twice the same name is the same event.
    pub async fn event<T: Serialize>(&self, name: &str, what: &T) -> Result<(), StoreError> {
        self.create(&self.layout.event(name), what).await.map(|_| ())
    }

    /// What the program of a node has said so far, over all epochs. A chunk that cannot be read is told in its place.
    pub async fn output(&self, node: u32) -> Result<Vec<u8>, StoreError> {
        let listed = self.store.list(&self.layout.all_logs()).await?;
        let mut chunks: Vec<((u64, u64), &str)> = listed
            .iter()
            .filter_map(|object| Some((self.layout.chunk_of_log(object.key(), node)?, object.key())))
            .collect();
        chunks.sort_unstable();
        let mut output = Vec::new();
        for ((epoch, number), key) in chunks {
            let packed = self.store.read(key).await?.unwrap_or_default();
            match zstd::decode_all(packed.as_slice()) {
                Ok(text) => output.extend(text),
                Err(error) => {
                    output.extend(format!("[chunk {number} of epoch {epoch} cannot be read: {error}]\n").into_bytes());
                }
            }
        }
        Ok(output)
    }

    /// What the last agent wrote as it ended.
    pub async fn result(&self) -> Result<Option<serde_json::Value>, StoreError> {
        self.read(&self.layout.result()).await
    }

    pub async fn write_result<T: Serialize>(&self, result: &T) -> Result<(), StoreError> {
        self.store.write(&self.layout.result(), text(result)).await
    }

    /// Deletes data of earlier epochs that is not `named` and is older than `age` by the store's own clock. Gives how many. An
    /// owner that was fenced without knowing it can do no harm: it never touches its successors' data.
    pub async fn sweep(&self, epoch: u64, age: Duration, named: &BTreeSet<String>) -> Result<usize, StoreError> {
        let named: BTreeSet<String> = named.iter().map(|key| self.layout.within(key)).collect();
        let mut swept = 0;
        for object in self.store.list(&self.layout.data()).await? {
            let is_earlier = self.layout.epoch_of_data(object.key()).is_some_and(|owner| owner < epoch);
            if is_earlier && !named.contains(object.key()) && object.is_older_than(age) {
                self.store.delete_listed(&object).await?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    /// Deletes what only served to commit it.
    pub async fn forget_parts(&self, name: ManifestName, nodes: u32) -> Result<(), StoreError> {
        for node in 1..nodes {
            self.store.delete(&self.layout.part(name.epoch, name.step, node)).await?;
        }
        self.store.delete(&self.layout.wanted(name.epoch, name.step)).await
    }

    /// An object that cannot be read is the same as none: whoever asks has an answer for that.
    pub(crate) async fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        Ok(self.store.read(key).await?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// An answer may be lost on the way and the question repeated, so what is there already may be our own.
    pub(crate) async fn create<T: Serialize>(&self, key: &str, what: &T) -> Result<bool, StoreError> {
        self.create_bytes(key, text(what)).await
    }

    pub(crate) async fn create_bytes(&self, key: &str, bytes: Vec<u8>) -> Result<bool, StoreError> {
        if self.store.create(key, bytes.clone()).await? {
            return Ok(true);
        }
        Ok(self.store.read(key).await?.is_some_and(|there| there == bytes))
    }
}

fn text<T: Serialize>(what: &T) -> Vec<u8> {
    // Types of this stage have text keys only, so they can always be written.
    serde_json::to_vec_pretty(what).unwrap_or_default()
}
