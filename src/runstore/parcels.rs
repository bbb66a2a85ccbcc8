//! Files that new machines fetch: the agent, and the user's own folder. Named by what is in them, so one is sent once.

use std::path::Path;
use std::time::Duration;

use crate::run::Run;
use crate::store::{Link, StoreError};

impl Run {
    /// Where the agent lies, for all runs of the store.
    pub fn agent_key(sha256: &str) -> String {
        format!("runs/_bin/{sha256}/gpuplan")
    }

    pub fn workdir_key(&self, sha256: &str) -> String {
        format!("runs/{}/workdir/{sha256}.tar.gz", self.name())
    }

    /// Folder of the data that came from somebody's own disk.
    pub fn data_key(&self, digest: &str) -> String {
        format!("runs/{}/dataset/{digest}", self.name())
    }

    /// Sends a large file unless there is one of that name.
    pub async fn keep_file(&self, key: &str, from: &Path) -> Result<(), StoreError> {
        if self.store.exists(key).await? {
            return Ok(());
        }
        self.store.send_file(key, from).await.map(|_| ())
    }

    /// Sends a file unless it is there.
    pub async fn keep_parcel(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        if self.store.exists(key).await? {
            return Ok(());
        }
        // Somebody who was faster sent the same.
        self.store.create(key, bytes).await.map(|_| ())
    }

    /// Deletes everything of the run; manifests first, so that nothing half-deleted is ever restored. Gives how many objects.
    pub async fn delete_all(&self) -> Result<usize, StoreError> {
        let mut objects = self.store.list(&self.layout.manifests()).await?;
        objects.extend(
            self.store
                .list(&self.layout.folder())
                .await?
                .into_iter()
                .filter(|object| !object.key().starts_with(&self.layout.manifests())),
        );
        for object in &objects {
            self.store.delete_listed(object).await?;
        }
        Ok(objects.len())
    }

    /// How a new machine fetches it.
    pub async fn link(&self, key: &str, valid: Duration) -> Result<Link, StoreError> {
        self.store.link(key, valid).await
    }
}
