//! `Stop`: an object `stop/<epoch>` by which whoever leads a run tells its machines to save and end, as a cloud does with a notice.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::run::Run;
use crate::store::StoreError;

/// Who wants it, for the log of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    pub why: String,
    /// That the machines have for it.
    pub seconds: f64,
    pub at: Timestamp,
}

impl Run {
    /// Tells the machines of an epoch. Whoever told them first is the one who did.
    pub async fn ask_to_stop(&self, epoch: u64, stop: &Stop) -> Result<(), StoreError> {
        self.create(&self.layout.stop(epoch), stop).await.map(drop)
    }

    /// `None`: nobody wants the machines of this epoch to end.
    pub async fn stop(&self, epoch: u64) -> Result<Option<Stop>, StoreError> {
        self.read(&self.layout.stop(epoch)).await
    }
}
