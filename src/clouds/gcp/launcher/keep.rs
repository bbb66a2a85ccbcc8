//! Managed instance groups of one as a `Keeper`: Compute Engine starts the next machine of a run from their template, and none after the time
//! that stands in it.

use google_cloud_compute_v1::model::Operation;
use google_cloud_compute_v1::model::operation::Status;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::CLOUD;
use crate::account::permissions::Granted;
use crate::account::service_accounts::{ACT_AS, is_missing, of_kept, question};
use crate::errors::{Objection, launch_error};
use crate::launcher::body::{COMPUTE, Frame};
use crate::launcher::close::{UNTIL, is_past};
use crate::launcher::known::GcpLauncher;
use crate::launcher::marks::Marks;
use crate::launcher::refused::{how_to_ask, operation_error, source_error, wrong};
use crate::launcher::{PAUSE, marked, request_id};
use crate::prices::zones::last_segment;
use crate::sdk::signed;
use gpuplan_clouds_http::{Http, Request};
use gpuplan_launch::keeper::{Group, KeepRequest, Keeper};
use gpuplan_launch::{CreateRequest, LaunchError, Reach};
use gpuplan_market::{BoxFuture, SourceError};

const GROUPS: &str = "instanceGroupManagers";
const TEMPLATES: &str = "instanceTemplates";
/// Of a group, as the beginning of its machines' names (cloud.google.com/compute/docs/reference/rest/v1/regionInstanceGroupManagers).
const LONGEST_NAME: usize = 58;
/// What a call that found nothing, or what is there already, answers.
const NOT_FOUND: &str = "404";
const IS_THERE: &str = "409";

impl GcpLauncher {
    async fn make_group(&self, request: &KeepRequest) -> Result<Group, LaunchError> {
        let (machine, project) = (&request.machine, self.id()?);
        self.may_keep(project).await?;
        let zones = self.zones_of(request).await?;
        let (shape, image, disk_gib) = self.boots_from(machine).await?;
        let name = marked(&machine.name, &machine.token, LONGEST_NAME);
        let first = zones
            .first()
            .ok_or_else(|| LaunchError::NotSold { code: format!("no zone of {} lists it", machine.pool.region) })?;
        let frame = Frame {
            project: &self.project,
            zone: first,
            shape,
            image: &image,
            disk_gib,
            owner: &self.owner,
            setup: &self.setup,
            policy: None,
            now: self.now(),
        };
        let template = json!({
            "name": name,
            "description": format!("{UNTIL}{}", machine.expires_at),
            "properties": frame.kept(machine, &name)?,
        });
        self.insert(machine, TEMPLATES, &template).await?;
        let group = self.group_body(machine, &name, &zones)?;
        let made = Group {
            id: format!("{}/{name}", machine.pool.region),
            run: machine.run.clone(),
            cloud: CLOUD.to_owned(),
            region: machine.pool.region.clone(),
            expires_at: machine.expires_at,
            owner: self.owner.clone(),
        };
        if self.insert(machine, GROUPS, &group).await? {
            return Ok(made);
        }
        // That of the first call counts.
        let there = self.all_groups(Some(&machine.run)).await?.into_iter().find(|group| group.id == made.id);
        there.ok_or_else(|| wrong(format!("another group is called {}", made.id)))
    }

    /// A template that is refused for its time starts nothing (cloud.google.com/compute/docs/instance-groups/limit-vm-runtime-in-migs,
    /// "termination time"). A machine that is lost is replaced wherever there is room.
    fn group_body(&self, machine: &CreateRequest, name: &str, zones: &[String]) -> Result<Value, LaunchError> {
        let (project, region) = (self.id()?, &machine.pool.region);
        let zones = zones.iter().map(|zone| json!({"zone": format!("projects/{project}/zones/{zone}")}));
        let marks = Marks { tags: Vec::new(), is_kept: true, ..Marks::for_request(machine, &self.owner) };
        Ok(json!({
            "name": name,
            "description": serde_json::to_string(&marks).map_err(|error| wrong(error.to_string()))?,
            "baseInstanceName": name,
            "instanceTemplate": format!("projects/{project}/regions/{region}/{TEMPLATES}/{name}"),
            "targetSize": 1,
            "distributionPolicy": {"zones": zones.collect::<Vec<_>>(), "targetShape": "ANY"},
            "updatePolicy": {"instanceRedistributionType": "NONE"},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "REPAIR", "onRepair": {"allowChangingZone": "YES"}},
        }))
    }

    /// Machines of a group end their group as an account of their own, which a setup may not have.
    async fn may_keep(&self, project: &str) -> Result<(), LaunchError> {
        let account = of_kept(&self.setup, project);
        let question = question(&self.project, &account).map_err(|error| source_error(&error))?;
        let answer = self.ask::<Granted>(question).await;
        let missing = || LaunchError::NotSetUp {
            missing: format!("the service account {account}, with which machines of a group end it"),
            command: "TF_VAR_keep_alive=true gpuplan setup gcp".to_owned(),
            reach: Reach::Cloud,
        };
        match answer {
            Ok(granted) if granted.has(ACT_AS) => Ok(()),
            Ok(_) => Err(LaunchError::Credentials { code: ACT_AS.to_owned(), detail: format!("on {account}") }),
            Err(error) if is_missing(&error) => Err(missing()),
            Err(error) => Err(source_error(&error)),
        }
    }

    /// Those that were named, or every one of the region that lists the machine type.
    async fn zones_of(&self, request: &KeepRequest) -> Result<Vec<String>, LaunchError> {
        let named: Option<Vec<String>> = request.pools.iter().map(|pool| pool.zone_id.clone()).collect();
        let mut zones = match named {
            Some(named) => named,
            None => self.zones_for(&request.machine).await?,
        };
        zones.sort();
        zones.dedup();
        Ok(zones)
    }

    async fn all_groups(&self, run: Option<&str>) -> Result<Vec<Group>, LaunchError> {
        let found = self.every(GROUPS).await?;
        Ok(found.iter().filter_map(group).filter(|group| run.is_none_or(|run| group.run == run)).collect())
    }

    /// A group that goes starts nothing any more, however long its machine takes.
    async fn end_group(&self, group: &Group) -> Result<(), LaunchError> {
        let Some((region, name)) = group.id.split_once('/') else { return Ok(()) };
        if self.remove(region, GROUPS, name).await? {
            // One that is still in use costs nothing, and is swept when its time is over.
            let _ = self.remove(region, TEMPLATES, name).await;
        }
        Ok(())
    }

    /// Templates of groups that are past their time: they cost nothing, so what does not answer is left for the next time.
    pub(super) async fn sweep_templates(&self) {
        let Ok(found) = self.every(TEMPLATES).await else { return };
        let Some(now) = self.dates.now() else { return };
        let of = |template: &Value, key: &str| template[key].as_str().unwrap_or_default().to_owned();
        for template in found.iter().filter(|template| is_past(&of(template, "description"), now)) {
            let _ = self.remove(last_segment(&of(template, "region")), TEMPLATES, &of(template, "name")).await;
        }
    }

    /// Everything of a kind in every place of the project; a place that does not answer makes it an error.
    async fn every(&self, kind: &str) -> Result<Vec<Value>, LaunchError> {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let address = self.project.address(COMPUTE);
            let url = format!("{address}/compute/v1/projects/{}/aggregated/{kind}?maxResults=500{token}", self.id()?);
            let page = self.ask::<Value>(Request::get(url)).await.map_err(|error| source_error(&error))?;
            let silent = |place: &Value| place["warning"]["code"] == "UNREACHABLE";
            let scopes = page["items"].as_object();
            let unanswered =
                scopes.into_iter().flatten().find(|(_, scope)| silent(scope)).map(|(place, _)| place.clone());
            if unanswered.is_some()
                || silent(&page)
                || page["unreachables"].as_array().is_some_and(|all| !all.is_empty())
            {
                let place = unanswered.unwrap_or_else(|| "some region".to_owned());
                return Err(LaunchError::Unclear { code: format!("no answer of {}", last_segment(&place)) });
            }
            let items = scopes.into_iter().flatten().filter_map(|(_, scope)| scope[kind].as_array());
            found.extend(items.flatten().cloned());
            match page["nextPageToken"].as_str().filter(|next| !next.is_empty()) {
                Some(next) => token = format!("&pageToken={next}"),
                None => return Ok(found),
            }
        }
    }

    /// Whether it was made now: what has its name is there already, and the name holds the token.
    async fn insert(&self, machine: &CreateRequest, kind: &str, body: &Value) -> Result<bool, LaunchError> {
        let (project, region) = (self.id()?, machine.pool.region.as_str());
        let id = request_id(&machine.token, &format!("{region}/{kind}"));
        let url = format!("{}?requestId={id}", self.place(project, region, kind));
        let begun = self.ask::<Operation>(Request::post(url, "application/json", body.to_string())).await;
        let operation = match begun {
            Err(SourceError::Refused { code, .. }) if code == IS_THERE => return Ok(false),
            begun => begun.map_err(refusal)?,
        };
        let Some(operation) = self.done(region, operation).await? else {
            return Err(LaunchError::Unclear { code: format!("{kind}: the operation still runs") });
        };
        operation_error(&operation, |exceeded| how_to_ask(exceeded, machine, project)).map_or(Ok(true), Err)
    }

    /// Whether it is gone; `false`: it goes.
    async fn remove(&self, region: &str, kind: &str, name: &str) -> Result<bool, LaunchError> {
        let url = format!("{}/{name}", self.place(self.id()?, region, kind));
        let begun = match self.ask::<Operation>(Request::delete(url)).await {
            Err(SourceError::Refused { code, .. }) if code == NOT_FOUND => return Ok(true),
            begun => begun.map_err(refusal)?,
        };
        let Some(operation) = self.done(region, begun).await? else { return Ok(false) };
        operation_error(&operation, |_| String::new()).map_or(Ok(true), Err)
    }

    /// Waits until the operation is done, whatever came of it; `None`: it takes longer than anybody waits for here.
    async fn done(&self, region: &str, mut operation: Operation) -> Result<Option<Operation>, LaunchError> {
        let until = Instant::now() + self.patience;
        while operation.status != Some(Status::Done) {
            let Some(name) = operation.name.as_deref().filter(|_| Instant::now() < until) else { return Ok(None) };
            tokio::time::sleep(PAUSE).await;
            let url = format!("{}/{name}", self.place(self.id()?, region, "operations"));
            operation = self.ask(Request::get(url)).await.map_err(|error| source_error(&error))?;
        }
        Ok(Some(operation))
    }

    fn place(&self, project: &str, region: &str, kind: &str) -> String {
        format!("{}/compute/v1/projects/{project}/regions/{region}/{kind}", self.project.address(COMPUTE))
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, SourceError> {
        Ok(Http::new()?.telling(&self.dates).json::<T>(&signed(&self.project, request).await?).await?.value)
    }
}

/// A refusal by its status, in the words of the table of codes.
fn refusal(error: SourceError) -> LaunchError {
    let SourceError::Refused { code, detail } = &error else { return source_error(&error) };
    let word = match code.as_str() {
        NOT_FOUND => "notFound",
        "400" => "invalid",
        "403" if detail.contains("uota") => "quotaExceeded",
        code => code,
    };
    let objection =
        Objection { code: word.to_owned(), message: detail.clone(), status: code.parse().ok(), quota: None };
    launch_error(&objection, |_| "gpuplan doctor".to_owned())
}

/// `None`: it is not ours.
fn group(found: &Value) -> Option<Group> {
    let text = |key: &str| found[key].as_str();
    let marks: Marks = serde_json::from_str(text("description")?).ok()?;
    let region = last_segment(text("region")?).to_owned();
    Some(Group {
        id: format!("{region}/{}", text("name")?),
        run: marks.run,
        cloud: CLOUD.to_owned(),
        region,
        expires_at: marks.expires_at,
        owner: marks.owner,
    })
}

impl Keeper for GcpLauncher {
    fn keep(&self, request: KeepRequest) -> BoxFuture<'_, Result<Group, LaunchError>> {
        Box::pin(async move { Box::pin(self.make_group(&request)).await })
    }

    fn groups<'a>(&'a self, run: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Group>, LaunchError>> {
        Box::pin(self.all_groups(run))
    }

    fn dissolve<'a>(&'a self, group: &'a Group) -> BoxFuture<'a, Result<(), LaunchError>> {
        Box::pin(self.end_group(group))
    }
}
