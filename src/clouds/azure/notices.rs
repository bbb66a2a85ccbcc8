//! Scheduled events of an Azure machine, from its metadata service, with the acknowledgement that lets Azure go on.
//!
//! Interface as in Microsoft's guide (Linux virtual machines, scheduled events).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde::Deserialize;
use serde_json::json;

use gpuplan_agent::{BoxFuture, Notice, NoticeError, NoticeSource, Urgency};
use gpuplan_clouds_http::endpoint;
use gpuplan_clouds_http::metadata::{Metadata, Way};

pub const ENDPOINT: &str = "GPUPLAN_AZURE_METADATA_ENDPOINT";
const BASE: &str = "http://169.254.169.254";
const EVENTS: &str = "/metadata/scheduledevents?api-version=2019-01-01";
const NAME: &str = "/metadata/instance/compute/name?api-version=2019-06-01&format=text";
const HEADER: (&str, &str) = ("metadata", "true");
/// An eviction is announced 30 s before, so every second counts.
const PACE: Duration = Duration::from_secs(1);
/// The first question switches the service on, which may take up to two minutes.
const SWITCHING_ON: Duration = Duration::from_secs(2);
/// Where an event that has begun does not say when: Azure promises so much for an eviction.
const LEAST: Duration = Duration::from_secs(30);

pub struct ScheduledEvents {
    metadata: Metadata,
    name: Mutex<Option<String>>,
    noticed: Mutex<Vec<String>>,
}

impl ScheduledEvents {
    pub fn from_environment() -> Result<Self, NoticeError> {
        Ok(Self {
            metadata: Metadata::new(endpoint(ENDPOINT, BASE))?,
            name: Mutex::new(None),
            noticed: Mutex::new(Vec::new()),
        })
    }

    /// Events name the machines they are for; others of the same set show up here, too.
    async fn own_name(&self) -> Result<String, NoticeError> {
        if let Some(name) = self.name.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Ok(name);
        }
        let said = self.metadata.ask(Way::Get, NAME, &[HEADER], Duration::ZERO).await?;
        let name = said.body.trim().to_owned();
        if said.status != 200 || name.is_empty() {
            return Err(NoticeError(format!("status {} for the machine's name", said.status)));
        }
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.clone());
        Ok(name)
    }
}

impl NoticeSource for ScheduledEvents {
    fn name(&self) -> &'static str {
        "azure scheduled events"
    }

    fn pace(&self) -> Duration {
        PACE
    }

    fn poll(&self) -> BoxFuture<'_, Result<Option<Notice>, NoticeError>> {
        Box::pin(async {
            let said = self.metadata.ask(Way::Get, EVENTS, &[HEADER], SWITCHING_ON).await?;
            if said.status != 200 {
                return Err(NoticeError(format!("status {}", said.status)));
            }
            let events = read(&said.body)?;
            if events.is_empty() {
                return Ok(None);
            }
            let name = self.own_name().await?;
            let Some((event, notice)) = soonest(&events, &name, said.at) else { return Ok(None) };
            *self.noticed.lock().unwrap_or_else(PoisonError::into_inner) = vec![event];
            Ok(Some(notice))
        })
    }

    fn acknowledge(&self) -> BoxFuture<'_, ()> {
        let noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move {
            for event in noticed {
                let body = json!({"StartRequests": [{"EventId": event}]}).to_string();
                // Without it Azure goes on at the announced time.
                let _ = self.metadata.ask(Way::Post(&body), EVENTS, &[HEADER], Duration::ZERO).await;
            }
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EventList {
    events: Vec<ScheduledEvent>,
}

#[derive(Debug, Deserialize)]
struct ScheduledEvent {
    #[serde(rename = "EventId")]
    id: String,
    #[serde(rename = "EventType")]
    kind: String,
    #[serde(rename = "NotBefore", default)]
    not_before: String,
    #[serde(rename = "Resources", default)]
    resources: Vec<String>,
}

fn read(body: &str) -> Result<Vec<ScheduledEvent>, NoticeError> {
    serde_json::from_str::<EventList>(body)
        .map(|document| document.events)
        .map_err(|error| NoticeError(error.to_string()))
}

/// The event that ends this machine first, and its notice. A freeze of some seconds ends nothing.
fn soonest(events: &[ScheduledEvent], name: &str, answered: Option<Timestamp>) -> Option<(String, Notice)> {
    let ends = |event: &&ScheduledEvent| ["Preempt", "Terminate", "Redeploy", "Reboot"].contains(&event.kind.as_str());
    let ours = events
        .iter()
        .filter(ends)
        .filter(|event| event.resources.iter().any(|resource| resource.eq_ignore_ascii_case(name)));
    let notices = ours.map(|event| {
        let then = rfc2822::parse(&event.not_before).ok().map(|then| then.timestamp());
        let left = then
            .zip(answered)
            .map_or(LEAST, |(then, now)| Duration::try_from(then.duration_since(now)).unwrap_or_default());
        let from = format!("azure {}", event.kind.to_ascii_lowercase());
        (event.id.clone(), Notice { urgency: Urgency::Leave, from, left: Some(left) })
    });
    notices.min_by_key(|(_, notice)| notice.left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"DocumentIncarnation":2,"Events":[
        {"EventId":"A","EventType":"Freeze","Resources":["vm1"],"NotBefore":""},
        {"EventId":"B","EventType":"Preempt","Resources":["vm2"],"NotBefore":"Thu, 01 Jan 2026 00:00:30 GMT"},
        {"EventId":"C","EventType":"Preempt","Resources":["VM1"],"NotBefore":"Thu, 01 Jan 2026 00:00:45 GMT"}]}"#;

    #[test]
    fn only_an_event_that_ends_this_machine_is_a_notice() {
        let events = read(BODY).unwrap();
        let now = "2026-01-01T00:00:00Z".parse().ok();
        let (event, notice) = soonest(&events, "vm1", now).unwrap();
        assert_eq!((event.as_str(), notice.left), ("C", Some(Duration::from_secs(45))));
        assert!(soonest(&events, "vm3", now).is_none());
        assert_eq!(soonest(&events, "vm2", None).unwrap().1.left, Some(LEAST));
        assert!(read("").is_err() && read(r#"{"DocumentIncarnation":1,"Events":[]}"#).unwrap().is_empty());
    }
}
