//! What a run takes besides checkpoints: chunks of the log, and the words between the machines of an epoch.

use crate::layout::numbered;
use crate::run::Run;
use crate::store::StoreError;
use crate::team::{Leaving, Member, Part, Start, Wanted};

impl Run {
    /// Adds a chunk of the log. False if the number is taken by other bytes.
    pub async fn add_log(&self, epoch: u64, node: u32, number: u64, bytes: Vec<u8>) -> Result<bool, StoreError> {
        self.create_bytes(&self.layout.log(epoch, node, number), bytes).await
    }

    /// The highest number of a chunk.
    pub async fn last_log(&self, epoch: u64, node: u32) -> Result<Option<u64>, StoreError> {
        let chunks = self.store.list(&self.layout.logs(epoch, node)).await?;
        Ok(chunks.iter().filter_map(|chunk| numbered(chunk.file_name().strip_suffix(".zst")?)).max())
    }

    /// False if another agent takes part as this machine.
    pub async fn join(&self, epoch: u64, node: u32, member: &Member) -> Result<bool, StoreError> {
        self.create(&self.layout.node(epoch, node), member).await
    }

    pub async fn member(&self, epoch: u64, node: u32) -> Result<Option<Member>, StoreError> {
        self.read(&self.layout.node(epoch, node)).await
    }

    pub async fn has_joined(&self, epoch: u64, node: u32) -> Result<bool, StoreError> {
        self.store.exists(&self.layout.node(epoch, node)).await
    }

    /// False if the epoch started from something else.
    pub async fn start(&self, epoch: u64, start: &Start) -> Result<bool, StoreError> {
        self.create(&self.layout.start(epoch), start).await
    }

    pub async fn started(&self, epoch: u64) -> Result<Option<Start>, StoreError> {
        self.read(&self.layout.start(epoch)).await
    }

    pub async fn want(&self, epoch: u64, wanted: &Wanted) -> Result<bool, StoreError> {
        self.create(&self.layout.wanted(epoch, wanted.step), wanted).await
    }

    /// The newest checkpoint that the first machine asked for.
    pub async fn wanted(&self, epoch: u64) -> Result<Option<Wanted>, StoreError> {
        let asked = self.store.list(&self.layout.all_wanted(epoch)).await?;
        let newest = asked.iter().filter_map(|object| object.file_name().strip_suffix(".json")?.parse().ok()).max();
        match newest {
            Some(step) => self.read(&self.layout.wanted(epoch, step)).await,
            None => Ok(None),
        }
    }

    pub async fn give(&self, epoch: u64, step: u64, node: u32, part: &Part) -> Result<bool, StoreError> {
        self.create(&self.layout.part(epoch, step, node), part).await
    }

    pub async fn part(&self, epoch: u64, step: u64, node: u32) -> Result<Option<Part>, StoreError> {
        self.read(&self.layout.part(epoch, step, node)).await
    }

    pub async fn leave(&self, epoch: u64, node: u32, leaving: &Leaving) -> Result<bool, StoreError> {
        self.create(&self.layout.leaving(epoch, node), leaving).await
    }

    pub async fn leaving(&self, epoch: u64, node: u32) -> Result<Option<Leaving>, StoreError> {
        self.read(&self.layout.leaving(epoch, node)).await
    }
}
