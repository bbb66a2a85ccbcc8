//! What a run pays for beside machines: the prices of disks, storage and data from elsewhere as they were at launch, and what lies in its store.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::run::Run;
use crate::store::StoreError;
use gpuplan_units::Usd;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Root disk of a machine.
    Disk,
    /// Objects in the store.
    Storage,
    /// Data that leaves another cloud.
    DataOut,
}

/// One price, frozen at launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SidePrice {
    pub of: Side,
    pub cloud: String,
    pub region: String,
    /// Of one `unit`.
    pub usd: Usd,
    /// `GiB-month`, `GB-month`, `GiB` or `GB`.
    pub unit: String,
    pub unit_bytes: f64,
    /// With what is doubted of it.
    pub source: String,
    pub observed_at: Timestamp,
}

impl SidePrice {
    /// Whether a machine there is where it is charged: in that region, or anywhere on that cloud where its region is not known (`*`).
    pub fn is_in(&self, cloud: &str, region: &str) -> bool {
        self.cloud == cloud && (self.region == "*" || self.region == region)
    }
}

/// An object of the run as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// By the clock of the store.
    pub since: Timestamp,
    pub bytes: u64,
}

impl Run {
    /// Every object that lies in the store now. What was deleted before is not seen.
    pub async fn stored(&self) -> Result<Vec<Stored>, StoreError> {
        let objects = self.store.list(&self.layout.folder()).await?;
        let stored = objects.iter().map(|object| match Timestamp::from_second(object.modified_seconds()) {
            Ok(since) => Ok(Stored { since, bytes: object.bytes() }),
            Err(error) => Err(StoreError::Unreadable { key: object.key().to_owned(), detail: error.to_string() }),
        });
        let mut stored: Vec<Stored> = stored.collect::<Result<_, _>>()?;
        // Sums of them are the same whoever asks.
        stored.sort_unstable();
        Ok(stored)
    }
}
