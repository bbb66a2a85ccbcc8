//! `Store`: where runs lie, and everything that is done with its objects but to send files and to read what others keep.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig};

use crate::store::disk::in_background;
use crate::store::error::{StoreError, refused, words};
use crate::store::hash::{Hash, Sent};
use crate::store::keys::{KeySource, Signing};
use crate::store::link::{Link, Linker};
use crate::store::room::{PART, Room};
use crate::store::tls::install_tls;

/// Ranges of one file that are fetched at the same time. With `agent::upload::FILES_AT_ONCE` this bounds the memory.
const RANGES_AT_ONCE: usize = 4;
/// A manifest of a hundred thousand shards is smaller.
const LARGEST_TEXT: u64 = 256 << 20;
/// A notice may leave two minutes for everything, so one request gives up earlier.
const RETRY_FOR: Duration = Duration::from_secs(40);
const REQUEST: Duration = Duration::from_mins(1);
const CONNECT: Duration = Duration::from_secs(5);

/// Where runs lie. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) root: Location,
    pub(super) linker: Linker,
    /// What parts under way may take, of all files together.
    pub(super) room: Room,
}

/// An object as a listing shows it.
#[derive(Clone, Debug)]
pub struct Listed {
    key: String,
    location: Location,
    modified_seconds: i64,
    bytes: u64,
}

impl Listed {
    /// Below the address of the store.
    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn file_name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// By the clock of the store, since 1970.
    pub fn modified_seconds(&self) -> i64 {
        self.modified_seconds
    }

    /// The store says when an object was written and this machine what time it is: good for hours, not for seconds.
    pub fn is_older_than(&self, age: Duration) -> bool {
        jiff::Timestamp::now().as_second() - self.modified_seconds > age.as_secs() as i64
    }
}

impl Store {
    /// `file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, or a bare path of a folder.
    /// Credentials and endpoints come from the environment and the machine's own identity, as the clouds' tools take them.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        Self::signed(address, None)
    }

    /// As `open`; S3 is asked in a region and with keys that somebody else found.
    pub fn signed(address: &str, signing: Option<(String, Arc<dyn KeySource>)>) -> Result<Self, StoreError> {
        let wrong = |detail: String| StoreError::Address { address: address.to_owned(), detail };
        let refuse = |error: Error| wrong(words(&error));
        let (scheme, rest) = address.split_once("://").unwrap_or(("file", address));
        if rest.is_empty() {
            return Err(wrong("it names no place".to_owned()));
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let (objects, linker): (Arc<dyn ObjectStore>, Linker) = match scheme {
            "file" => return Self::folder(Path::new(rest)).map_err(|error| wrong(error.to_string())),
            "s3" => {
                let mut builder = AmazonS3Builder::from_env();
                if let Some((region, keys)) = signing {
                    builder = builder.with_region(region).with_credentials(Arc::new(Signing(keys)));
                }
                let built = builder
                    .with_bucket_name(bucket)
                    // TLS keeps what is under way; a second hash of every part would take a core.
                    .with_unsigned_payload(true)
                    .with_client_options(client("AWS_ENDPOINT_URL"))
                    .with_retry(retry())
                    .build();
                let s3 = Arc::new(built.map_err(refuse)?);
                (s3.clone(), Linker::Signer(s3))
            }
            "gs" => {
                let built = GoogleCloudStorageBuilder::from_env()
                    .with_bucket_name(bucket)
                    .with_client_options(client("GOOGLE_BASE_URL"))
                    .with_retry(retry())
                    .build();
                let base = std::env::var("GOOGLE_BASE_URL").ok().filter(|base| !base.is_empty());
                (Arc::new(built.map_err(refuse)?), Linker::Google { base, bucket: bucket.to_owned() })
            }
            "az" => {
                let built = MicrosoftAzureBuilder::from_env()
                    .with_container_name(bucket)
                    .with_client_options(client("AZURITE_BLOB_STORAGE_URL"))
                    .with_retry(retry())
                    .build();
                let azure = Arc::new(built.map_err(refuse)?);
                (azure.clone(), Linker::Signer(azure))
            }
            _ => return Err(wrong("write file://, s3://, gs:// or az://".to_owned())),
        };
        Ok(Self { objects, root: Location::from(prefix), linker, room: Room::default() })
    }

    /// A folder of this machine or of a shared disk. What was written is flushed before it counts.
    fn folder(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let objects = LocalFileSystem::new_with_prefix(folder).map_err(io::Error::other)?.with_fsync(true);
        let linker = Linker::Folder(std::path::absolute(folder)?);
        Ok(Self { objects: Arc::new(objects), root: Location::default(), linker, room: Room::default() })
    }

    /// As `open`, for what is only read: a folder that is not there is not made.
    pub fn reading(address: &str, signing: Option<(String, Arc<dyn KeySource>)>) -> Result<Self, StoreError> {
        let (scheme, rest) = address.split_once("://").unwrap_or(("file", address));
        if scheme == "file" && !Path::new(rest).is_dir() {
            return Err(StoreError::Missing { key: format!("the folder {rest}") });
        }
        Self::signed(address, signing)
    }

    /// Over any objects, such as those of a test that fail.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects, root: Location::default(), linker: Linker::None, room: Room::default() }
    }

    pub(super) fn at(&self, key: &str) -> Location {
        self.root.parts().chain(Location::from(key).parts()).map(|part| part.as_ref().to_owned()).collect()
    }

    /// Writes an object that must not be there. False if it is.
    pub async fn create(&self, key: &str, bytes: Vec<u8>) -> Result<bool, StoreError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.objects.put_opts(&self.at(key), bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(refused(key, &error)),
        }
    }

    /// Writes an object whether or not it is there.
    pub async fn write(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.objects.put(&self.at(key), bytes.into()).await.map(|_| ()).map_err(|error| refused(key, &error))
    }

    pub async fn read(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let found = match self.objects.get(&self.at(key)).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(|error| refused(key, &error))?,
        };
        if found.meta.size > LARGEST_TEXT {
            return Err(StoreError::Missing { key: format!("{key} (what is there is too large to be it)") });
        }
        found.bytes().await.map(|bytes| Some(bytes.to_vec())).map_err(|error| refused(key, &error))
    }

    pub async fn exists(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.size(key).await?.is_some())
    }

    /// In bytes; `None`: it is not there.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, StoreError> {
        match self.objects.head(&self.at(key)).await {
            Ok(about) => Ok(Some(about.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(refused(key, &error)),
        }
    }

    /// Reads an object of `size` bytes in ranges, several at once, and says what is in it. Nothing is kept.
    pub async fn digest(&self, key: &str, size: u64) -> Result<Sent, StoreError> {
        let location = self.at(key);
        let ranges = (0..size.div_ceil(PART)).map(|number| number * PART..size.min((number + 1) * PART));
        let mut pieces =
            stream::iter(ranges).map(|range| self.objects.get_range(&location, range)).buffered(RANGES_AT_ONCE);
        let (mut hash, mut read) = (Hash::default(), 0);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| refused(key, &error))?;
            hash.update(&piece);
            read += piece.len() as u64;
        }
        Ok(Sent { sha256: hash.hex(), size: read })
    }

    /// How a machine without this program fetches an object, for so long.
    pub async fn link(&self, key: &str, valid: Duration) -> Result<Link, StoreError> {
        self.linker.link(&self.at(key), valid).await.map_err(|error| refused(key, &error))
    }

    /// Every object below a folder.
    pub async fn list(&self, folder: &str) -> Result<Vec<Listed>, StoreError> {
        self.list_after(folder, None).await
    }

    /// Those objects below a folder whose names come after that of `key`.
    pub async fn list_after(&self, folder: &str, key: Option<&str>) -> Result<Vec<Listed>, StoreError> {
        let above = if self.root.as_ref().is_empty() { 0 } else { self.root.as_ref().len() + 1 };
        let below = self.at(folder);
        let found = match key {
            Some(key) => self.objects.list_with_offset(Some(&below), &self.at(key)),
            None => self.objects.list(Some(&below)),
        };
        let found = found.map_ok(|object| Listed {
            key: object.location.as_ref().get(above..).unwrap_or_default().to_owned(),
            location: object.location,
            modified_seconds: object.last_modified.timestamp(),
            bytes: object.size,
        });
        found.try_collect().await.map_err(|error| refused(folder, &error))
    }

    /// Names of the folders directly below a folder, without what is in them.
    pub async fn folders(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let found =
            self.objects.list_with_delimiter(Some(&self.at(folder))).await.map_err(|error| refused(folder, &error))?;
        let mut names: Vec<String> =
            found.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    /// What is gone already is deleted.
    pub async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.delete_at(key, &self.at(key)).await
    }

    pub async fn delete_listed(&self, object: &Listed) -> Result<(), StoreError> {
        self.delete_at(&object.key, &object.location).await
    }

    async fn delete_at(&self, key: &str, location: &Location) -> Result<(), StoreError> {
        match self.objects.delete(location).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(refused(key, &error)),
        }
    }

    /// Fetches an object of `size` bytes into a new file, flushed to the disk, and says what was in it. In ranges, several at
    /// once: a request that hangs costs its range and not the file. An object of another size is missing, not unavailable:
    /// to ask again would change nothing.
    pub async fn fetch_file(&self, key: &str, size: u64, to: &Path) -> Result<Sent, StoreError> {
        let local = |source| StoreError::Local { path: to.display().to_string(), source };
        let mut writing = Writing { file: File::create(to).map_err(local)?, hash: Hash::default(), size: 0 };
        let location = self.at(key);
        let found = self.objects.head(&location).await.map_err(|error| refused(key, &error))?.size;
        if found != size {
            return Err(StoreError::Missing { key: format!("{key} with {size} bytes (it has {found})") });
        }
        let ranges = (0..size.div_ceil(PART)).map(|number| number * PART..size.min((number + 1) * PART));
        let mut pieces =
            stream::iter(ranges).map(|range| self.objects.get_range(&location, range)).buffered(RANGES_AT_ONCE);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| refused(key, &error))?;
            writing = in_background(to, move || writing.add(&piece)).await?;
        }
        in_background(to, move || {
            writing.file.sync_all()?;
            Ok(Sent { sha256: writing.hash.hex(), size: writing.size })
        })
        .await
    }
}

struct Writing {
    file: File,
    hash: Hash,
    size: u64,
}

impl Writing {
    fn add(mut self, bytes: &[u8]) -> io::Result<Self> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(self)
    }
}

fn retry() -> RetryConfig {
    RetryConfig { retry_timeout: RETRY_FOR, ..RetryConfig::default() }
}

/// Plain HTTP is spoken only where the user's own endpoint says so.
fn client(endpoint: &str) -> ClientOptions {
    install_tls();
    let names = [endpoint.to_owned(), format!("{endpoint}_S3")];
    let is_plain = names.iter().any(|name| std::env::var(name).is_ok_and(|value| value.starts_with("http://")));
    ClientOptions::new().with_connect_timeout(CONNECT).with_timeout(REQUEST).with_allow_http(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::hash::{hash_file, sha256};

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Runtime::new().unwrap().block_on(future)
    }

    #[test]
    fn an_object_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&format!("file://{}", folder.path().display())).unwrap();
        wait(async {
            assert!(store.create("runs/a/epochs/1", b"x".to_vec()).await.unwrap());
            assert!(!store.create("runs/a/epochs/1", b"y".to_vec()).await.unwrap());
            assert_eq!(store.read("runs/a/epochs/1").await.unwrap().unwrap(), b"x");
            assert!(store.exists("runs/a/epochs/1").await.unwrap() && !store.exists("runs/a/epochs/2").await.unwrap());
            assert_eq!(store.read("runs/a/epochs/2").await.unwrap(), None);
            let listed = store.list("runs/a/epochs").await.unwrap();
            assert_eq!(listed.iter().map(Listed::key).collect::<Vec<_>>(), ["runs/a/epochs/1"]);
            store.delete("runs/a/epochs/1").await.unwrap();
            store.delete("runs/a/epochs/1").await.unwrap();
            assert!(store.list("runs/a/epochs").await.unwrap().is_empty());
        });
    }

    #[test]
    fn files_of_every_size_come_back_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store").display().to_string()).unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for size in [0, 1, PART - 1, PART, PART + 1, 3 * PART + 5] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            std::fs::write(&from, &bytes).unwrap();
            wait(async {
                let sent = store.send_file("data/e1/1/a@20b=5.x_y-z", &from).await.unwrap();
                assert_eq!(sent, Sent { sha256: sha256(&bytes), size });
                assert_eq!(sent, hash_file(&from).await.unwrap());
                assert_eq!(store.fetch_file("data/e1/1/a@20b=5.x_y-z", size, &to).await.unwrap(), sent);
                let listed = store.list("data").await.unwrap();
                assert_eq!(listed[0].key(), "data/e1/1/a@20b=5.x_y-z");
            });
            assert!(std::fs::read(&to).unwrap() == bytes);
        }
        assert!(matches!(wait(store.fetch_file("data/none", 1, &to)), Err(StoreError::Missing { .. })));
    }

    #[test]
    fn an_address_is_a_store_or_refused() {
        for address in ["ftp://x/y", "file://", "", "s3://"] {
            assert!(matches!(Store::open(address), Err(StoreError::Address { .. })), "{address}");
        }
    }
}
