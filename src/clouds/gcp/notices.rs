//! Preemption and maintenance of a Compute Engine machine, from its metadata server.
//!
//! Keys and answers as in Google's guide (Compute Engine, "Create and use Spot VMs", "Monitor and plan for a host maintenance
//! event"). GPU machines cannot be moved, so every maintenance event ends them.

use std::time::Duration;

use gpuplan_agent::{BoxFuture, Notice, NoticeError, NoticeSource, Urgency};
use gpuplan_clouds_http::metadata::{Metadata, Said, Way};
use gpuplan_clouds_http::variable;

pub const ENDPOINT: &str = "GCE_METADATA_HOST";
const HOST: &str = "metadata.google.internal";
const FLAVOR: (&str, &str) = ("metadata-flavor", "Google");
/// Google ends a preempted machine 30 s after it says so.
const PREEMPTED_LEFT: Duration = Duration::from_secs(30);
/// The question itself waits for a change, so there is no need to pause long.
const PACE: Duration = Duration::from_millis(500);
/// Seconds that the server may hold an answer back.
const WAITS: u64 = 2;

pub struct Preemption {
    metadata: Metadata,
}

impl Preemption {
    pub fn from_environment() -> Result<Self, NoticeError> {
        let host = variable(ENDPOINT).unwrap_or_else(|| HOST.to_owned());
        let base = if host.contains("://") { host } else { format!("http://{host}") };
        Ok(Self { metadata: Metadata::new(base.trim_end_matches('/').to_owned())? })
    }

    async fn get(&self, key: &str, waits: u64) -> Result<Said, NoticeError> {
        let waiting = if waits > 0 { format!("?wait_for_change=true&timeout_sec={waits}") } else { String::new() };
        let path = format!("/computeMetadata/v1/instance/{key}{waiting}");
        self.metadata.ask(Way::Get, &path, &[FLAVOR], Duration::from_secs(waits)).await
    }
}

impl NoticeSource for Preemption {
    fn name(&self) -> &'static str {
        "gcp metadata server"
    }

    fn pace(&self) -> Duration {
        PACE
    }

    /// A change between two waits would be missed by waiting alone, so the present value is read first.
    fn poll(&self) -> BoxFuture<'_, Result<Option<Notice>, NoticeError>> {
        Box::pin(async {
            if let Some(notice) = preempted(&self.get("preempted", 0).await?)? {
                return Ok(Some(notice));
            }
            if let Some(notice) = maintenance(&self.get("maintenance-event", 0).await?)? {
                return Ok(Some(notice));
            }
            preempted(&self.get("preempted", WAITS).await?)
        })
    }
}

fn preempted(said: &Said) -> Result<Option<Notice>, NoticeError> {
    match (said.status, said.body.trim()) {
        (200, "FALSE") => Ok(None),
        (200, "TRUE") => {
            Ok(Some(Notice { urgency: Urgency::Leave, from: "gcp preemption".to_owned(), left: Some(PREEMPTED_LEFT) }))
        }
        (status, _) => Err(NoticeError(format!("status {status} for the preemption"))),
    }
}

/// The time until then is not said here. It is most of an hour for GPU machines, so it is worth a checkpoint and no stop; the
/// end itself comes as a signal.
fn maintenance(said: &Said) -> Result<Option<Notice>, NoticeError> {
    match (said.status, said.body.trim()) {
        // Not every machine has the key.
        (200, "NONE") | (404, _) => Ok(None),
        (200, "TERMINATE_ON_HOST_MAINTENANCE" | "MIGRATE_ON_HOST_MAINTENANCE") => {
            Ok(Some(Notice { urgency: Urgency::Advice, from: "gcp host maintenance".to_owned(), left: None }))
        }
        (status, _) => Err(NoticeError(format!("status {status} for the maintenance event"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str) -> Said {
        Said { status, body: body.to_owned(), at: None }
    }

    #[test]
    fn only_a_clear_answer_is_a_notice() {
        assert_eq!(preempted(&said(200, "FALSE\n")), Ok(None));
        assert_eq!(preempted(&said(200, "TRUE")).unwrap().unwrap().left, Some(PREEMPTED_LEFT));
        for (status, body) in [(403, "TRUE"), (200, ""), (200, "<html>TRUE"), (500, "")] {
            assert!(preempted(&said(status, body)).is_err(), "{status} {body}");
        }
        assert_eq!(maintenance(&said(200, "NONE")), Ok(None));
        assert_eq!(maintenance(&said(200, "TERMINATE_ON_HOST_MAINTENANCE")).unwrap().unwrap().urgency, Urgency::Advice);
    }
}
