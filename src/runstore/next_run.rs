//! `NextRun`: what a machine that stays after its run does next. An object `next/<token of its order>`, create-only, which whoever launches
//! the next run leaves in the store of the completed one. Machines only read it: none can give another something to run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::layout::{Layout, RunNameError};
use crate::run::Run;
use crate::store::StoreError;

/// The run that has the machine from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextRun {
    pub run: String,
    pub epoch: u64,
    pub node: u32,
    /// Of its order of a machine.
    pub token: String,
    /// From then on it pays for the machine.
    pub at: Timestamp,
    pub expires_at: Timestamp,
    /// What the machine runs, as a new one would as it starts.
    pub boot: String,
}

impl Run {
    /// Another run in the same store.
    pub fn beside(&self, name: &str) -> Result<Self, RunNameError> {
        Ok(Self::new(self.store.clone(), Layout::new(name)?))
    }

    /// False if the machine of this order has another next run already.
    pub async fn give_next(&self, order: &str, next: &NextRun) -> Result<bool, StoreError> {
        self.create(&self.layout.next(order), next).await
    }

    /// `None`: nobody has taken the machine of this order over.
    pub async fn next(&self, order: &str) -> Result<Option<NextRun>, StoreError> {
        self.read(&self.layout.next(order)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[tokio::test]
    async fn a_machine_has_one_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        let next = |run: &str| NextRun {
            run: run.to_owned(),
            epoch: 1,
            node: 0,
            token: format!("token of {run}"),
            at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::UNIX_EPOCH,
            boot: "#!/bin/sh".to_owned(),
        };
        assert_eq!(run.next("t").await.unwrap(), None);
        assert!(run.give_next("t", &next("b")).await.unwrap());
        assert!(run.give_next("t", &next("b")).await.unwrap(), "the same said twice is the same");
        assert!(!run.give_next("t", &next("c")).await.unwrap(), "who came first has the machine");
        assert_eq!(run.next("t").await.unwrap(), Some(next("b")));
        assert_eq!(run.next("u").await.unwrap(), None, "another machine of the run");
        assert_eq!(run.beside("b").unwrap().next("t").await.unwrap(), None, "another run");
    }
}
