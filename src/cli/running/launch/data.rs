//! The data of a job before anything is rented: whether it exists, how much it is, and what has to be uploaded.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::runs::clouds::rental_cloud;
use crate::session::diagnostic::Diagnostic;
use crate::session::printer::Printer;
use crate::session::runtime::runtime;
use gpuplan_clouds::fake;
use gpuplan_launch::Data;
use gpuplan_runstore::store::StoredObject;
use gpuplan_runstore::{Contents, Run, Store, StoreError};
use gpuplan_units::Bytes;
use gpuplan_workload::{DataSet, Storage};

/// Where all of it goes.
pub struct Receiver<'a> {
    /// Whose machines fetch it.
    pub cloud: &'a str,
    /// Address of the run's store.
    pub store: &'a str,
    pub run: &'a Run,
    /// Nothing is rented or sent, so what a launch needs may be missing.
    pub is_dry: bool,
}

/// Files under way at the same time.
const FILES_AT_ONCE: usize = 8;

/// Between two words about what is sent.
const WORD: Duration = Duration::from_secs(5);

/// Files of a folder here, on their way to where machines can read them.
pub struct Upload {
    folder: PathBuf,
    held: Vec<StoredObject>,
    /// In the run's store, named by what the files are: another try goes on with it.
    key: String,
}

/// What the machines fetch, and what has to be sent for it. A bucket that may not be looked into from here is left to them: they
/// have an identity of their own.
pub fn find_data(data: Option<&DataSet>, to: &Receiver) -> Result<Option<(Data, Option<Upload>)>, Diagnostic> {
    let Some((data, location)) = data.and_then(|data| Some((data, data.location.as_deref()?))) else { return Ok(None) };
    let (address, folder) = address(location, to.cloud)?;
    let is_mounted = data.reading.storage == Storage::ObjectStore;
    let held = match list_files(&address)? {
        Ok(held) => held,
        Err(StoreError::Denied { .. }) => return Ok(Some((Data { address, files: 0, bytes: 0, is_mounted }, None))),
        Err(StoreError::Missing { .. }) => {
            let why = format!("there is nothing at {address}, which `location` of [data] names; nothing was rented");
            return Err(Diagnostic::usage(why).hint("location = \"s3://BUCKET/FOLDER\""));
        }
        Err(error) => return Err(error.into()),
    };
    let Contents { files, bytes, digest, .. } = Contents::of(&address, &held);
    if bytes as f64 > data.size.0 {
        let (is, stated, gb) = (Bytes(bytes as f64), data.size, (bytes as f64 / 1e9).ceil());
        let why = format!(
            "{is} are stored at {address}, but `size` of [data] states {stated}, which disks and time were planned for; nothing was rented"
        );
        return Err(Diagnostic::usage(why)
            .hint(format!("size = \"{gb:.0}GB\""))
            .hint(format!("--data-size {gb:.0}GB")));
    }
    Ok(Some(match folder.filter(|_| to.cloud != fake::CLOUD) {
        Some(folder) => {
            let key = to.run.data_key(&digest[..16]);
            (
                Data { address: format!("{}/{key}", to.store.trim_end_matches('/')), files, bytes, is_mounted },
                Some(Upload { folder, held, key }),
            )
        }
        None => (Data { address, files, bytes, is_mounted }, None),
    }))
}

/// With the folder, where it is one of this machine. A machine reads the buckets of its own cloud.
fn address(location: &str, cloud: &str) -> Result<(String, Option<PathBuf>), Diagnostic> {
    match location.split_once("://") {
        None | Some(("file", _)) => {
            let path = PathBuf::from(location.strip_prefix("file://").unwrap_or(location));
            let path = std::path::absolute(&path).map_err(|error| Diagnostic::file(&path, &error))?;
            Ok((format!("file://{}", path.display()), Some(path)))
        }
        Some((scheme, _)) => {
            let own = rental_cloud(cloud).map_or(scheme, |cloud| cloud.bucket_scheme);
            if scheme != own {
                let why = format!("machines of {cloud} have no identity to read {location} with; nothing was rented");
                return Err(Diagnostic::usage(why).hint(format!("location = \"{own}://BUCKET/FOLDER\"")));
            }
            Ok((location.to_owned(), None))
        }
    }
}

fn list_files(address: &str) -> Result<Result<Vec<StoredObject>, StoreError>, Diagnostic> {
    let runtime = runtime()?;
    Ok(runtime.block_on(async {
        let keys = if address.starts_with("s3://") { gpuplan_clouds::store_keys().await } else { None };
        Store::reading(address, keys)?.held().await
    }))
}

impl Upload {
    /// What is there already is not sent again.
    pub fn send(self, run: &Run, printer: &Printer) -> Result<(), Diagnostic> {
        let (mut sent, mut spoke) = (0, Instant::now());
        let all: u64 = self.held.iter().map(|one| one.size).sum();
        runtime()?.block_on(async {
            let sending = stream::iter(&self.held).map(async |one| {
                run.keep_file(&format!("{}/{}", self.key, one.path), &self.folder.join(&one.path))
                    .await
                    .map(|()| one.size)
            });
            let mut sending = std::pin::pin!(sending.buffer_unordered(FILES_AT_ONCE));
            while let Some(size) = sending.try_next().await? {
                sent += size;
                if spoke.elapsed() >= WORD {
                    spoke = Instant::now();
                    printer.note(&format!(
                        "gpuplan: sent {} of {} of the data to the store",
                        Bytes(sent as f64),
                        Bytes(all as f64)
                    ));
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_reads_buckets_of_its_own_cloud_and_folders_are_those_of_here() {
        assert_eq!(address("s3://b/x", "aws").unwrap(), ("s3://b/x".to_owned(), None));
        assert!(address("s3://b/x", "gcp").is_err() && address("gs://b/x", "aws").is_err());
        assert_eq!(address("gs://b/x", "fake").unwrap().0, "gs://b/x");
        for location in ["/d/x", "file:///d/x"] {
            assert_eq!(address(location, "aws").unwrap(), ("file:///d/x".to_owned(), Some(PathBuf::from("/d/x"))));
        }
    }
}
