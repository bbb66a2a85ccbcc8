//! Data from a store that fails now and then, is cut off anywhere, changes, or does not fit.
#![cfg(test)]

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};

use super::*;

const PAUSE: Duration = Duration::from_millis(1);

/// Objects of which so many may be read; beside, every third request fails.
#[derive(Debug)]
struct Moody {
    objects: InMemory,
    asked: AtomicU64,
    most: u64,
    fetched: AtomicU64,
    /// Each object is refused once at most: how requests mix is nobody's choice.
    refused: Mutex<BTreeSet<Location>>,
}

impl Moody {
    fn new(most: u64) -> Arc<Self> {
        Arc::new(Self {
            objects: InMemory::new(),
            asked: AtomicU64::new(0),
            most,
            fetched: AtomicU64::new(0),
            refused: Mutex::default(),
        })
    }
}

fn refused() -> Error {
    Error::Generic { store: "moody", source: "not now".into() }
}

impl fmt::Display for Moody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("moody")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Moody {
    async fn put_opts(&self, location: &Location, payload: PutPayload, options: PutOptions) -> StoreResult<PutResult> {
        self.objects.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> StoreResult<GetResult> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        if asked % 3 == 1 && self.refused.lock().unwrap().insert(location.clone()) || asked >= self.most {
            return Err(refused());
        }
        self.fetched.fetch_add(1, Ordering::SeqCst);
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Location>>,
    ) -> BoxStream<'static, StoreResult<Location>> {
        self.objects.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> StoreResult<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Location, to: &Location, options: CopyOptions) -> StoreResult<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

/// A file of several pieces, many small ones, an empty one.
async fn fill(objects: &dyn ObjectStore) -> u64 {
    let large: Vec<u8> = (0..2 * PIECE + 77).map(|at| (at % 251) as u8).collect();
    objects.put(&Location::from("train/large.tar"), PutPayload::from(large)).await.unwrap();
    for number in 0..100 {
        objects
            .put(
                &Location::from(format!("train/{}/{number}.jpg", number % 7)),
                PutPayload::from(format!("image {number}")),
            )
            .await
            .unwrap();
    }
    objects.put(&Location::from("empty"), PutPayload::new()).await.unwrap();
    102
}

async fn staged(objects: &Arc<Moody>, folder: &Path) -> Result<Contents, StagingError> {
    let data = Data { address: "s3://b".to_owned(), folder: folder.join("data") };
    stage_from(Store::new(objects.clone()), &data, PAUSE, &|_| (), |_| ()).await
}

fn is_whole(folder: &Path) {
    let large = fs::read(folder.join("data/train/large.tar")).unwrap();
    assert!(
        large.len() as u64 == 2 * PIECE + 77 && large.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8)
    );
    assert_eq!(fs::read_to_string(folder.join("data/train/3/10.jpg")).unwrap(), "image 10");
    assert_eq!(fs::metadata(folder.join("data/empty")).unwrap().len(), 0);
    assert!(
        fs::read_dir(folder.join("data.staging")).unwrap().flatten().all(|entry| entry.file_name() == "index"),
        "no part is left"
    );
}

#[tokio::test]
async fn a_store_that_fails_now_and_then_gives_all_and_nothing_is_fetched_twice() {
    let (objects, folder) = (Moody::new(u64::MAX), tempfile::tempdir().unwrap());
    let files = fill(&objects.objects).await;
    let contents = staged(&objects, folder.path()).await.unwrap();
    assert_eq!(contents.files as u64, files);
    is_whole(folder.path());
    assert_eq!(
        objects.fetched.load(Ordering::SeqCst),
        100 + 3,
        "one request a small file, one a piece, none for an empty one"
    );
    assert_eq!(staged(&objects, folder.path()).await.unwrap(), contents);
    assert_eq!(objects.fetched.load(Ordering::SeqCst), 103, "all was there");
    // What changed comes again, what went away goes, and no more.
    objects.objects.put(&Location::from("train/1/1.jpg"), PutPayload::from("another")).await.unwrap();
    objects.objects.delete(&Location::from("train/2/2.jpg")).await.unwrap();
    fs::write(folder.path().join("data/train/3/3.jpg"), "cut").unwrap();
    assert_ne!(staged(&objects, folder.path()).await.unwrap().digest, contents.digest);
    assert_eq!(objects.fetched.load(Ordering::SeqCst), 105);
    let read = |name: &str| fs::read_to_string(folder.path().join("data/train").join(name)).ok();
    assert_eq!(
        (read("1/1.jpg"), read("2/2.jpg"), read("3/3.jpg")),
        (Some("another".to_owned()), None, Some("image 3".to_owned()))
    );
}

#[tokio::test]
async fn cut_off_anywhere_it_goes_on_inside_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Moody::new(u64::MAX);
    fill(&kept.objects).await;
    // After so many requests the store is gone for good, and the next agent finds it again.
    for most in [0, 1, 5, 40, 40] {
        let cut = Arc::new(Moody {
            objects: kept.objects.fork(),
            asked: AtomicU64::new(0),
            most,
            fetched: AtomicU64::new(0),
            refused: Mutex::default(),
        });
        let error = staged(&cut, folder.path()).await.unwrap_err();
        assert!(error.is_for_now(), "{error}");
    }
    staged(&kept, folder.path()).await.unwrap();
    is_whole(folder.path());
    assert!(kept.fetched.load(Ordering::SeqCst) < 80, "what had arrived stayed");
    // Two of three pieces are there; the third alone is asked for.
    let one = &Store::new(kept.clone()).held().await.unwrap()[101];
    assert_eq!(one.path, "train/large.tar");
    let beside = folder.path().join("data.staging");
    let whole = fs::read(folder.path().join("data/train/large.tar")).unwrap();
    fs::write(part(&beside, one), &whole[..2 * PIECE as usize + 5]).unwrap();
    fs::remove_file(folder.path().join("data/train/large.tar")).unwrap();
    let before = kept.fetched.load(Ordering::SeqCst);
    staged(&kept, folder.path()).await.unwrap();
    is_whole(folder.path());
    assert_eq!(kept.fetched.load(Ordering::SeqCst), before + 1);
}

#[tokio::test]
async fn what_is_wrong_is_said_by_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = staged(&Moody::new(u64::MAX), folder.path()).await.unwrap_err();
    assert!(matches!(nothing, StagingError::Missing { .. }) && !nothing.is_for_now(), "{nothing}");
    let full = has_room(folder.path(), u64::MAX / 2).unwrap_err();
    assert!(matches!(full, StagingError::NoRoom { .. }) && full.to_string().contains("has room for"), "{full}");
    has_room(folder.path(), 1).unwrap();
    let objects = Moody::new(u64::MAX);
    fill(&objects.objects).await;
    // A file stands where a folder has to be.
    fs::create_dir_all(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/train"), "").unwrap();
    let disk = staged(&objects, folder.path()).await.unwrap_err();
    assert!(matches!(disk, StagingError::Disk { .. }), "{disk}");
    let nowhere =
        Data { address: format!("file://{}/none", folder.path().display()), folder: folder.path().join("data") };
    let nowhere = stage(&nowhere, PAUSE, &|_| (), |_| ()).await.unwrap_err();
    assert!(matches!(nowhere, StagingError::Missing { .. }), "{nowhere}");
    assert!(!folder.path().join("none").exists(), "a folder to read from is not made");
}

#[tokio::test]
async fn an_object_that_changes_is_never_mixed() {
    let objects = Moody::new(u64::MAX);
    fill(&objects.objects).await;
    let store = Store::new(objects.clone());
    let one = store.held().await.unwrap().pop().unwrap();
    objects
        .objects
        .put(&Location::from("train/large.tar"), PutPayload::from(vec![0; one.size as usize]))
        .await
        .unwrap();
    let mut answer = store.piece(&one, 0..5).await;
    while matches!(answer, Err(StoreError::Unavailable { .. })) {
        answer = store.piece(&one, 0..5).await;
    }
    let error = StagingError::from_store("s3://b", answer.unwrap_err());
    assert!(
        matches!(&error, StagingError::Changed { path, .. } if path == "train/large.tar") && !error.is_for_now(),
        "{error}"
    );
}
