//! Placement policies: machines of one epoch stand as close together as Google can place them, and their policy goes when they are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use crate::account::project::Project;
use crate::launcher::body::COMPUTE;
use crate::prices::zones::last_segment;
use crate::sdk::signed;
use gpuplan_clouds_http::{Dates, Http, Request};
use gpuplan_launch::{Machine, MachineState};
use gpuplan_market::SourceError;

/// Until a new policy may be named by a machine, and between two looks at it. Judgement.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(300);
/// How a description begins, before the time at which the machines of the policy or template end: they have no labels.
pub const UNTIL: &str = "gpuplan until ";

/// Of one epoch of one run, in one region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Policy {
    pub region: String,
    pub name: String,
    pub run: String,
    pub epoch: u64,
}

impl Policy {
    /// Below `compute/v1/`, as machines name it.
    pub fn path(&self, project: &str) -> String {
        format!("{}/{}", all(project, &self.region), self.name)
    }

    /// Machines of it were seen, and all of them are gone.
    fn is_over(&self, machines: &[Machine]) -> bool {
        let mut own =
            machines.iter().filter(|machine| machine.run == self.run && machine.epoch == self.epoch).peekable();
        own.peek().is_some() && own.all(|machine| machine.state == MachineState::Gone)
    }
}

fn all(project: &str, region: &str) -> String {
    format!("projects/{project}/regions/{region}/resourcePolicies")
}

/// `resourcePolicies.get`, as far as it is read.
#[derive(Deserialize)]
struct Found {
    name: String,
    region: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    description: String,
}

/// `resourcePolicies.aggregatedList`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    #[serde(default)]
    items: BTreeMap<String, Scope>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scope {
    #[serde(default)]
    resource_policies: Vec<Found>,
}

/// Makes the policy, as close as can be and not at any price: one that named a number of machines or a distance would refuse what does not fit
/// (cloud.google.com/compute/docs/instances/placement-policies-overview). One that is there already is as good.
pub async fn ensure(project: &Project, policy: &Policy, expires_at: Timestamp) -> Result<(), SourceError> {
    let id = project.id()?;
    let body = json!({
        "name": policy.name,
        "description": format!("{UNTIL}{expires_at}"),
        "groupPlacementPolicy": {"collocation": "COLLOCATED"},
    });
    let url = |path: &str| format!("{}/compute/v1/{path}", project.address(COMPUTE));
    let insertion = Request::post(url(&all(id, &policy.region)), "application/json", body.to_string());
    match Http::new()?.json::<IgnoredAny>(&signed(project, insertion).await?).await {
        Err(SourceError::Refused { code, .. }) if code == "409" => {}
        answer => {
            answer?;
        }
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let get = signed(project, Request::get(url(&policy.path(id)))).await?;
        match Http::new()?.json::<Found>(&get).await {
            Ok(found) if found.value.status == "READY" => return Ok(()),
            Err(SourceError::Refused { code, .. }) if code == "404" => {}
            found => drop(found?),
        }
        if Instant::now() >= until {
            let detail = format!("{} is not ready after {} s", policy.name, PATIENCE.as_secs());
            return Err(SourceError::Unreachable { place: "resourcePolicies".to_owned(), detail });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Removes those of `known` whose machines are gone, and gives the others. One that is still in use stays for the next time: it costs nothing.
pub async fn tidy(project: &Project, known: BTreeSet<Policy>, machines: &[Machine]) -> BTreeSet<Policy> {
    let mut left = BTreeSet::new();
    for policy in known {
        if !policy.is_over(machines) || !is_removed(project, &policy.region, &policy.name).await {
            left.insert(policy);
        }
    }
    left
}

/// Removes those of former processes once their machines are past their time, by the clock of the cloud, which the list names. A list of
/// machines is not given up for what costs nothing.
pub async fn sweep(project: &Project, dates: &Dates) {
    let Ok(found) = every(project, dates).await else { return };
    let Some(now) = dates.now() else { return };
    for policy in found.iter().filter(|policy| is_past(&policy.description, now)) {
        is_removed(project, last_segment(&policy.region), &policy.name).await;
    }
}

/// What a description says, which ends when machines do: policies and templates have no labels.
pub fn is_past(description: &str, now: Timestamp) -> bool {
    let until = description.strip_prefix(UNTIL).and_then(|until| until.parse::<Timestamp>().ok());
    until.is_some_and(|until| until < now)
}

async fn every(project: &Project, dates: &Dates) -> Result<Vec<Found>, SourceError> {
    let (mut found, mut token) = (Vec::new(), None::<String>);
    loop {
        let page = token.map_or_else(String::new, |token| format!("&pageToken={token}"));
        let address = project.address(COMPUTE);
        let url =
            format!("{address}/compute/v1/projects/{}/aggregated/resourcePolicies?maxResults=500{page}", project.id()?);
        let list = Http::new()?.telling(dates).json::<List>(&signed(project, Request::get(url)).await?).await?.value;
        found.extend(list.items.into_values().flat_map(|scope| scope.resource_policies));
        token = list.next_page_token.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(found);
        }
    }
}

async fn is_removed(project: &Project, region: &str, name: &str) -> bool {
    let remove = async {
        let url = format!("{}/compute/v1/{}/{name}", project.address(COMPUTE), all(project.id()?, region));
        Http::new()?.json::<IgnoredAny>(&signed(project, Request::delete(url)).await?).await
    };
    match remove.await {
        Ok(_) => true,
        Err(error) => matches!(error, SourceError::Refused { code, .. } if code == "404"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_that_it_is_past_is_swept() {
        let now = "2026-11-22T00:00:00Z".parse().unwrap();
        assert!(is_past("gpuplan until 2026-11-21T23:59:59Z", now));
        for other in ["gpuplan until 2026-11-22T00:00:01Z", "gpuplan until soon", "2026-11-21T23:59:59Z", ""] {
            assert!(!is_past(other, now), "{other}");
        }
    }
}
