//! `Renewal`: the agent of a machine takes the next term of its lease, out of the share that the leader has granted.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::layout::ManifestName;
use crate::run::Run;
use crate::store::StoreError;

/// One term, and what the program showed for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// Of the agent.
    pub epoch: u64,
    pub node: u32,
    /// From 1. The first term comes with the lease.
    pub number: u64,
    pub step: Option<u64>,
    pub committed: Option<ManifestName>,
    /// By the machine's own clock, for people.
    pub at: Timestamp,
}

impl Run {
    /// `order`: its token, which no other machine has. False if that term was taken by somebody else. Asked again the answer is the same.
    pub async fn renew(&self, order: &str, renewal: &Renewal) -> Result<bool, StoreError> {
        self.create(&self.layout.renewal(order, renewal.number), renewal).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::store::Store;

    #[tokio::test]
    async fn a_term_is_taken_once_and_asked_again_it_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        let one = Renewal { epoch: 1, node: 0, number: 1, step: Some(5), committed: None, at: Timestamp::UNIX_EPOCH };
        let other = Renewal { epoch: 2, ..one.clone() };
        assert!(run.renew("t", &one).await.unwrap() && run.renew("t", &one).await.unwrap());
        assert!(!run.renew("t", &other).await.unwrap(), "another agent on this machine");
        assert!(run.renew("u", &other).await.unwrap(), "that is another machine");
    }
}
