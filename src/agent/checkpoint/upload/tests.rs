//! Every place where a machine can vanish: each change of the store, one after the other, is the last that it made.
#![cfg(test)]

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::*;
use crate::checkpoint::restore::Restore;
use crate::checkpoint::scan::{Over, Place, Settling, scan};
use crate::ports::logger::{Logger, Stream};
use crate::rules::framework::Framework;
use gpuplan_runstore::Store;
use gpuplan_runstore::layout::Layout;

/// Objects that live on while the machine has so many changes left to make.
#[derive(Debug)]
struct Vanishing {
    objects: Arc<InMemory>,
    left: AtomicI64,
}

impl Vanishing {
    fn change(&self) -> Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 { Ok(()) } else { Err(gone()) }
    }

    fn read(&self) -> Result<()> {
        if self.left.load(Ordering::SeqCst) >= 0 { Ok(()) } else { Err(gone()) }
    }
}

fn gone() -> Error {
    Error::Generic { store: "vanished", source: "the machine is gone".into() }
}

impl fmt::Display for Vanishing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("vanishing")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Vanishing {
    async fn put_opts(&self, location: &Location, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.change()?;
        self.objects.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.change()?;
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> Result<GetResult> {
        self.read()?;
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Location>>) -> BoxStream<'static, Result<Location>> {
        if let Err(error) = self.change() {
            return stream::once(async { Err(error) }).boxed();
        }
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Location, to: &Location, options: CopyOptions) -> Result<()> {
        self.change()?;
        self.objects.copy_opts(from, to, options).await
    }
}

struct Silent;

impl Logger for Silent {
    fn say(&self, _line: &str) {}

    fn pass(&self, _stream: Stream, _bytes: &[u8]) {}
}

fn run_on(objects: &Arc<InMemory>, changes: i64) -> Run {
    let vanishing = Vanishing { objects: objects.clone(), left: AtomicI64::new(changes) };
    Run::new(Store::new(Arc::new(vanishing)), Layout::new("t").unwrap())
}

fn save(folder: &Path, step: u64) {
    let place = folder.join(format!("step-{step}"));
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("weights"), format!("weights of {step}")).unwrap();
    fs::write(place.join("config"), "the same in all").unwrap();
    fs::write(place.join(".complete"), "").unwrap();
}

fn restore<'a>(run: &'a Run, folder: &'a Path, epoch: u64) -> Restore<'a> {
    let framework = Framework::Auto;
    Restore {
        run,
        folder,
        place: Place::Told,
        job: None,
        framework,
        epoch,
        node: 0,
        restart_from_nothing: false,
        logger: &Silent,
    }
}

/// Saves and ships steps until all are done or the machine is gone. Gives the newest step that was reported safe.
async fn live(run: &Run, epoch: u64, folder: &Path) -> Option<u64> {
    let restored = restore(run, folder, epoch).newest().await.ok()?.name;
    let keep = Keep { last: 2, every: 0 };
    let mut shipper = Shipper::new(run.clone(), epoch, Rank::ALONE, folder.to_owned(), keep, restored);
    let first = restored.map_or(0, |name| name.step);
    let mut safe = restored.map(|name| name.step);
    for step in first + 1..=first + 4 {
        save(folder, step);
        let mut settling = Settling::new(Framework::Auto, Duration::ZERO);
        let ready = settling.ready(scan(folder, Place::Told).unwrap(), Duration::ZERO, Some(Over::Torn)).pop().unwrap();
        match shipper.ship(&ready).await {
            Ok(Shipped::Committed(name)) => safe = Some(name.step),
            _ => return safe,
        }
        if shipper.prune().await.is_err() {
            return safe;
        }
    }
    safe
}

#[tokio::test]
async fn wherever_a_machine_vanishes_the_next_restores_what_was_safe() {
    for first in 0..40 {
        for second in [0, 5, 40] {
            let objects = Arc::new(InMemory::new());
            let mut safe = None;
            for (epoch, changes) in [(1, first), (2, second), (3, 1000)] {
                let folder = tempfile::tempdir().unwrap();
                let run = run_on(&objects, changes);
                let before = safe;
                let reached = live(&run, epoch, folder.path()).await;
                safe = reached.max(before);
                let looking = tempfile::tempdir().unwrap();
                let everything = run_on(&objects, 1000);
                let restored = restore(&everything, looking.path(), 9).newest().await.unwrap();
                assert!(restored.rejected.is_empty(), "{first} {second}: {:?}", restored.rejected);
                assert!(restored.name.map(|name| name.step) >= safe, "{first} {second}: {restored:?} after {safe:?}");
                if let (Some(name), Some(path)) = (restored.name, restored.path) {
                    assert_eq!(fs::read_to_string(path.join("weights")).unwrap(), format!("weights of {}", name.step));
                    assert_eq!(fs::read_to_string(path.join("config")).unwrap(), "the same in all");
                }
                assert_every_manifest_has_its_data(&everything).await;
            }
            assert!(safe >= Some(4), "{first} {second}");
        }
    }
}

async fn assert_every_manifest_has_its_data(run: &Run) {
    let folder = tempfile::tempdir().unwrap();
    for name in run.manifests().await.unwrap() {
        for file in run.manifest(name).await.unwrap().unwrap().unwrap().files {
            let sent = run.fetch(&file.key, file.size, &folder.path().join("x")).await.unwrap();
            assert_eq!(sent.sha256, file.sha256);
        }
    }
}

#[tokio::test]
async fn files_that_stay_the_same_are_sent_once_for_each_checkpoint_that_is_kept_and_no_more() {
    let (objects, folder) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let run = run_on(&objects, 1000);
    live(&run, 1, folder.path()).await;
    let order = run.restore_order().await.unwrap();
    let mut keys = Vec::new();
    for name in &order {
        let manifest = run.manifest(*name).await.unwrap().unwrap().unwrap();
        keys.push(manifest.files.iter().find(|file| file.path.ends_with("config")).unwrap().key.clone());
    }
    // Steps 4 and 3 name what steps 2 and 1 sent, which are pruned.
    assert!(keys.len() == 2 && keys[0].contains("step-2/") && keys[1].contains("step-1/"), "{keys:?}");
    let there: Vec<ObjectMeta> = objects.list(Some(&Location::from("runs/t/data"))).try_collect().await.unwrap();
    let configs = there.iter().filter(|object| object.location.as_ref().ends_with("config")).count();
    assert_eq!(configs, 2, "one for each checkpoint, and nothing is left of others: {there:?}");
    // Any object may be lost: it costs the checkpoints that name it, and only one of them.
    for object in &there {
        let bytes = objects.get(&object.location).await.unwrap().bytes().await.unwrap();
        objects.delete(&object.location).await.unwrap();
        let looking = tempfile::tempdir().unwrap();
        let restored = restore(&run, looking.path(), 9).newest().await.unwrap();
        assert!(restored.name.is_some() && restored.rejected.len() <= 1, "{}: {restored:?}", object.location);
        objects.put(&object.location, PutPayload::from(bytes)).await.unwrap();
    }
}

fn known(key: &str, used_by: &str, used_at: u32, sent_at: Instant) -> Known {
    let sent = StoredFile { path: "s/f".to_owned(), key: key.to_owned(), sha256: "a".to_owned(), size: 1, node: None };
    Known { head: "h".to_owned(), sent, sent_at, used_by: used_by.to_owned(), used_at }
}

#[test]
fn copies_take_turns_are_made_anew_in_time_and_are_not_sent_twice_for_one_checkpoint() {
    let now = Instant::now();
    let copies = [known("a", "step-3", 3, now), known("b", "step-1", 1, now), known("c", "step-2", 2, now)];
    let all: Vec<&Known> = copies.iter().collect();
    let key =
        |same: &[&Known], name, wanted, now| reusable(same, name, wanted, now).map(|known| known.sent.key.clone());
    assert_eq!(key(&all, "step-4", 3, now).as_deref(), Some("b"));
    assert_eq!(key(&all[..2], "step-4", 3, now), None, "there are too few");
    assert_eq!(key(&all[..2], "step-3", 3, now).as_deref(), Some("a"), "an earlier try sent it");
    assert_eq!(key(&all[..2], "step-4", 1, now).as_deref(), Some("b"), "in a hurry one is enough");
    assert_eq!(key(&all, "step-4", 3, now + REFRESH), None, "it is old");
    let mut kept = copies.to_vec();
    remember(&mut kept, known("b", "step-4", 4, now), 3);
    remember(&mut kept, known("d", "step-5", 5, now), 3);
    let keys: Vec<&str> = kept.iter().map(|known| known.sent.key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "d"], "the one that was not named for longest is forgotten");
    let mut other = known("e", "step-6", 6, now);
    other.sent.sha256 = "b".to_owned();
    remember(&mut kept, other, 3);
    assert_eq!(kept.len(), 1, "other contents");
}

#[tokio::test]
async fn a_fenced_owner_commits_and_deletes_nothing() {
    let (objects, folder) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let run = run_on(&objects, 1000);
    live(&run, 1, folder.path()).await;
    let before = run.manifests().await.unwrap();
    let keep = Keep { last: 1, every: 0 };
    // Objects in memory keep the room that they were sent in, so who wakes up has room of its own.
    let awake = run_on(&objects, 1000);
    let mut zombie = Shipper::new(awake, 1, Rank::ALONE, folder.path().to_owned(), keep, None);
    objects.put(&Location::from("runs/t/epochs/2"), PutPayload::from("{}")).await.unwrap();
    save(folder.path(), 9);
    let mut settling = Settling::new(Framework::Auto, Duration::ZERO);
    let ready =
        settling.ready(scan(folder.path(), Place::Told).unwrap(), Duration::ZERO, Some(Over::Torn)).pop().unwrap();
    assert_eq!(zombie.ship(&ready).await.unwrap(), Shipped::Fenced);
    assert_eq!(zombie.prune().await.unwrap(), 0);
    assert_eq!(run.manifests().await.unwrap(), before);
}

#[tokio::test]
async fn a_step_that_somebody_named_is_never_pruned() {
    let (objects, folder) = (Arc::new(InMemory::new()), tempfile::tempdir().unwrap());
    let run = run_on(&objects, 1000);
    for name in ["runs/t/keep/2", "runs/t/keep/README"] {
        objects.put(&Location::from(name), PutPayload::from("")).await.unwrap();
    }
    live(&run, 1, folder.path()).await;
    let steps: Vec<u64> = run.restore_order().await.unwrap().iter().map(|name| name.step).collect();
    assert_eq!(steps, [4, 3, 2]);
}
