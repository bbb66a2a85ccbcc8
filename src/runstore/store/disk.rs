//! Work on the disk of this machine, beside what waits for the network.

use std::io;
use std::path::Path;

use tokio::task::spawn_blocking;

use crate::store::error::StoreError;

/// Disk work, where it holds up nothing else.
pub async fn in_background<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StoreError> {
    let local = |source| StoreError::Local { path: path.display().to_string(), source };
    spawn_blocking(work).await.map_err(|error| local(io::Error::other(error)))?.map_err(local)
}
