//! `Spec`: what a run is, so that it can be begun again by whoever has only the store. Written once, by who starts the run first.

use serde::{Deserialize, Serialize};

use crate::costs::billed::Billing;
use crate::run::Run;
use crate::store::StoreError;
use gpuplan_units::{Usd, UsdPerHour};

/// `spec.json` as an agent writes it where no launch has: what it was started with. A launch writes its own, which says more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spec<'a> {
    pub version: u32,
    /// Who wrote it.
    pub written_by: &'static str,
    pub run: &'a str,
    pub nodes: u32,
    pub command: &'a [String],
    pub framework: &'static str,
    /// Of a machine; `None`: not known.
    pub rate_usd_per_hour: Option<UsdPerHour>,
    pub billing: Billing,
    pub budget_usd: Option<Usd>,
    pub lifetime_seconds: Option<u64>,
}

/// What every spec has: an agent's own in its place, a launch's among what it says of the job.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    ByAgent { command: Vec<String> },
    ByLaunch { job: Job },
}

#[derive(Deserialize)]
struct Job {
    command: Vec<String>,
}

/// The command of a spec, whoever wrote it.
pub fn command_of(text: &str) -> Result<Vec<String>, serde_json::Error> {
    Ok(match serde_json::from_str(text)? {
        Named::ByAgent { command } | Named::ByLaunch { job: Job { command } } => command,
    })
}

impl Run {
    /// Writes what the run is, unless somebody has. Gives what another wrote, which stands.
    pub async fn write_spec_once(&self, text: &str) -> Result<Option<String>, StoreError> {
        // Who launched the run has written it; a machine may not, and need not be refused to learn that.
        if let Some(there) = self.spec().await? {
            return Ok((there != text).then_some(there));
        }
        if self.create_bytes(&self.layout.spec(), text.as_bytes().to_vec()).await? {
            Ok(None)
        } else {
            self.spec().await
        }
    }

    pub async fn spec(&self) -> Result<Option<String>, StoreError> {
        let bytes = self.store.read(&self.layout.spec()).await?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::store::Store;

    #[tokio::test]
    async fn the_first_spec_stands() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        assert_eq!(run.spec().await.unwrap(), None);
        let (first, second) = (r#"{"version":7,"command":["train"],"spot":[]}"#, r#"{"command":["other"]}"#);
        assert_eq!(run.write_spec_once(first).await.unwrap(), None);
        assert_eq!(run.write_spec_once(first).await.unwrap(), None, "the same again is no other");
        assert_eq!(run.write_spec_once(second).await.unwrap().as_deref(), Some(first));
        assert_eq!(run.spec().await.unwrap().as_deref(), Some(first));
        assert_eq!(command_of(first).unwrap(), ["train"]);
        assert_eq!(
            command_of(r#"{"version":1,"job":{"command":["train"],"agent":{}}}"#).unwrap(),
            ["train"],
            "a launch's"
        );
        for text in ["", "{", "[]", r#"{"command":3}"#] {
            assert!(command_of(text).is_err(), "{text}");
        }
    }
}
