//! `Run`: the objects of one run, read and written by what they mean.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checkpoint::history::{Origins, restore_order};
use crate::checkpoint::manifest::{Manifest, ManifestError};
use crate::costs::billed::{Billed, Spent};
use crate::layout::{LAST_NUMBER, Layout, ManifestName, numbered};
use crate::status::Status;
use crate::store::{Sent, Store, StoreError};
use crate::team::epoch::Epoch;
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
        Ok(numbers.iter().filter_map(|object| numbered(object.file_name())).collect())
    }

    /// The number of the epoch that follows.
    pub fn epoch_after(&self, number: u64) -> Result<u64, StoreError> {
        after(number, &self.layout.epoch(number))
    }

    /// `None` for an epoch that is not there: its number counts all the same.
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

    /// Whether the store has data of this size there.
    pub async fn has_data(&self, key: &str, size: u64) -> Result<bool, StoreError> {
        Ok(self.store.size(&self.layout.within(key)).await? == Some(size))
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

    /// What all other machines and epochs cost. A bill that cannot be read is named, not counted as nothing.
    pub async fn spent_by_others(&self, epoch: u64, node: u32) -> Result<Spent, StoreError> {
        let (mut spent, own) = (Spent::default(), self.layout.billed(epoch, node));
        for object in self.store.list(&self.layout.billed_all()).await? {
            if object.key() == own {
                continue;
            }
            match self.read::<Billed>(object.key()).await {
                Ok(billed) => spent.at_least = spent.at_least + billed.map_or(Usd::ZERO, |billed| billed.cost()),
                Err(StoreError::Unreadable { key, .. }) => spent.unreadable.push(key),
                Err(error) => return Err(error),
            }
        }
        Ok(spent)
    }

    /// Something that happened, kept for people. Twice the same name is the same event.
    pub async fn event<T: Serialize>(&self, name: &str, what: &T) -> Result<(), StoreError> {
        self.create(&self.layout.event(name), what).await.map(|_| ())
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

    /// `None`: there is no such object. One that is there and cannot be read is an error.
    pub(crate) async fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self.store.read(key).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let detail = format!("{error}; put a whole copy in its place, or delete it");
            StoreError::Unreadable { key: key.to_owned(), detail }
        })
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

/// The next number. Whoever took an earlier one again would wait for ever for its turn.
pub(crate) fn after(number: u64, key: &str) -> Result<u64, StoreError> {
    if number < LAST_NUMBER {
        return Ok(number + 1);
    }
    let detail = "no run gets to such a number, and none follows it; delete it".to_owned();
    Err(StoreError::Unreadable { key: key.to_owned(), detail })
}

/// An object as it is stored.
pub(crate) fn text<T: Serialize>(what: &T) -> Vec<u8> {
    serde_json::to_vec_pretty(what)
        .expect("maps of the types in this stage have text keys, and writing to memory does not fail")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use gpuplan_units::UsdPerHour;

    fn billed(epoch: u64, seconds: u64) -> Billed {
        Billed {
            epoch,
            node: 0,
            rate_usd_per_hour: UsdPerHour::parse("3.60").unwrap(),
            minimum_seconds: 0,
            from: Timestamp::UNIX_EPOCH,
            elapsed_nanos: seconds * 1_000_000_000,
            free_if_interrupted_within_seconds: 0,
            is_interrupted: false,
            started_after_nanos: None,
            saved: None,
        }
    }

    #[tokio::test]
    async fn a_bill_that_cannot_be_read_is_unknown_and_not_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        for epoch in 1..=3 {
            run.write_billed(&billed(epoch, epoch * 1000)).await.unwrap();
        }
        let whole = run.spent_by_others(3, 0).await.unwrap();
        assert_eq!(whole.known().map(|spent| spent.to_string()).as_deref(), Some("3.00"));
        for torn in [&b"{"[..], b"", b"[]", br#"{"epoch": 2}"#] {
            run.store.write("runs/a/billed/e2-0.json", torn.to_vec()).await.unwrap();
            let spent = run.spent_by_others(3, 0).await.unwrap();
            assert_eq!(
                (spent.known(), spent.at_least.to_string().as_str()),
                (None, "1.00"),
                "only the bill that was read counts"
            );
            assert_eq!(spent.unreadable, ["runs/a/billed/e2-0.json"]);
            let refused = run.billed_all().await.unwrap_err().to_string();
            assert!(refused.starts_with("runs/a/billed/e2-0.json cannot be read: "), "{refused}");
        }
        run.store.delete("runs/a/billed/e2-0.json").await.unwrap();
        assert_eq!(
            run.spent_by_others(3, 0).await.unwrap().known().map(|spent| spent.to_string()).as_deref(),
            Some("1.00")
        );
    }

    #[tokio::test]
    async fn what_is_not_there_is_none_and_what_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        assert!(run.status(0).await.unwrap().is_none() && run.result().await.unwrap().is_none());
        for key in ["status/0.json", "result.json", "epochs/1", "leaving/e1/0.json", "sweep.json", "rented.json"] {
            run.store.write(&format!("runs/a/{key}"), b"{\"torn".to_vec()).await.unwrap();
        }
        let errors = [
            run.status(0).await.err(),
            run.result().await.err(),
            run.epoch(1).await.err(),
            run.leaving(1, 0).await.err(),
            run.sweep_status().await.err(),
            run.rented().await.err(),
        ];
        assert!(errors.iter().all(|error| matches!(error, Some(StoreError::Unreadable { .. }))), "{errors:?}");
        assert_eq!(run.epoch_numbers().await.unwrap(), [1], "its number counts all the same");
    }
}
