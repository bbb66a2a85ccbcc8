//! Kubernetes as an `Engine`: kubectl. The Job carries the token as a label from the call that creates it.

use std::ffi::OsString;

use jiff::Timestamp;
use serde_json::Value;

use crate::client::{Client, QUICK};
use gpuplan_launch::engine::{Engine, EngineError, JobId, JobState, JobStatus, Submission};
use gpuplan_market::BoxFuture;

pub const ENGINE: &str = "kubernetes";
const INSTALL: &str = "kubectl (kubernetes.io/docs/tasks/tools) with a context for your cluster";
const LABEL: &str = "gpuplan-token";

pub struct Kubernetes {
    client: Client,
}

impl Kubernetes {
    /// `path` replaces `PATH`, for tests.
    pub fn new(path: Option<OsString>) -> Self {
        Self { client: Client { engine: ENGINE, program: "kubectl", install: INSTALL, path } }
    }

    async fn found(&self, work: &Submission) -> Result<Option<JobId>, EngineError> {
        let label = format!("--selector={LABEL}={}", work.token);
        let answer = self.client.answer(&["get", "jobs", &label, "--output=name"], &work.options).await?;
        let text = answer.text();
        Ok(text
            .lines()
            .next()
            .map(|line| JobId(line.rsplit('/').next().unwrap_or(line).trim().to_owned()))
            .filter(|job| !job.0.is_empty()))
    }

    async fn submitted(&self, work: &Submission) -> Result<JobId, EngineError> {
        let text = labelled(work)
            .ok_or_else(|| EngineError::Refused { engine: ENGINE, detail: "the file has no Job".to_owned() })?;
        let answer = self.client.run(&["create", "--filename=-"], &work.options, &text, QUICK).await?;
        // An earlier call may have made some of it, or all.
        match self.found(work).await? {
            Some(job) => Ok(job),
            None if answer.is_done => Err(self.client.unclear(&answer)),
            None => Err(self.client.refused(&answer)),
        }
    }

    async fn described(&self, work: &Submission, job: &JobId) -> Result<JobStatus, EngineError> {
        let found = self.get(&["get", "job", &job.0, "--ignore-not-found", "--output=json"], work).await?;
        let Some(found) = found else {
            return Ok(JobStatus::gone("deleted"));
        };
        let pods = self.get(&["get", "pods", &format!("--selector={}", of_job(job)), "--output=json"], work).await?;
        let unsaid = || EngineError::Unclear {
            engine: ENGINE,
            detail: format!("kubectl says nothing of the pods of {}", job.0),
        };
        Ok(read(&found, &pods.ok_or_else(unsaid)?, Timestamp::now()))
    }

    async fn get(&self, arguments: &[&str], work: &Submission) -> Result<Option<Value>, EngineError> {
        let answer = self.client.answer(arguments, &work.options).await?;
        if answer.text().trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&answer.stdout)
            .map(Some)
            .map_err(|error| EngineError::Unclear { engine: ENGINE, detail: error.to_string() })
    }

    async fn read_logs(&self, work: &Submission, job: &JobId, node: u32) -> Result<Vec<u8>, EngineError> {
        let selector = format!("--selector={},batch.kubernetes.io/job-completion-index={node}", of_job(job));
        let answer = self.client.ask(&["logs", &selector, "--tail=-1"], &work.options).await?;
        let has_not_begun =
            ["waiting to start", "No resources found", "not found"].iter().any(|words| answer.stderr.contains(words));
        if answer.is_done || has_not_begun { Ok(answer.stdout) } else { Err(self.client.unclear(&answer)) }
    }

    async fn stopped(&self, work: &Submission, job: &JobId) -> Result<(), EngineError> {
        let mut things = vec![format!("job/{}", job.0)];
        if work.nodes > 1 {
            things.push(format!("service/{}", job.0));
        }
        for thing in &things {
            self.client.answer(&["delete", thing, "--ignore-not-found", "--wait=false"], &work.options).await?;
        }
        Ok(())
    }
}

fn of_job(job: &JobId) -> String {
    format!("batch.kubernetes.io/job-name={}", job.0)
}

/// The file with the token as a label of its Job, as the exporter writes one.
fn labelled(work: &Submission) -> Option<String> {
    let head = "kind: Job\nmetadata:\n";
    let at = work.text.find(head)? + head.len();
    let (before, after) = work.text.split_at(at);
    Some(format!("{before}  labels:\n    {LABEL}: \"{}\"\n{after}", work.token))
}

/// Conditions of a Job (Kubernetes API, JobStatus), and the time that its containers ran.
fn read(job: &Value, pods: &Value, now: Timestamp) -> JobStatus {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let holds = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
    let count = |key: &str| job["status"][key].as_u64().unwrap_or_default();
    let has_run =
        pods["items"].as_array().is_some_and(|pods| pods.iter().any(|pod| pod["status"]["phase"] == "Failed"));
    let state = if holds("Complete") {
        JobState::Completed
    } else if holds("Failed") {
        JobState::Failed
    } else if count("active") > 0 && count("ready") > 0 {
        JobState::Running
    } else if has_run {
        JobState::Interrupted
    } else {
        JobState::Waiting
    };
    let why = conditions.iter().filter_map(|one| one["message"].as_str()).next_back().unwrap_or_default();
    let places: Vec<&str> =
        pods["items"].as_array().into_iter().flatten().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    let words = if why.is_empty() { places.join(",") } else { why.to_owned() };
    // Pods that are not counted as failures are not counted anywhere else either.
    JobStatus { state, relaunches: None, machine_seconds: container_seconds(pods, now), words }
}

/// Of every pod that is still listed, which are all until the Job is deleted. `None` where one does not say from when to when it ran.
fn container_seconds(pods: &Value, now: Timestamp) -> Option<f64> {
    let moment = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    // A pod that no machine has taken yet has no containers.
    let containers =
        pods["items"].as_array()?.iter().filter_map(|pod| pod["status"]["containerStatuses"].as_array()).flatten();
    let span = |container: &Value| {
        let (running, ended) = (&container["state"]["running"], &container["state"]["terminated"]);
        let (from, to) = if running.is_object() {
            (moment(&running["startedAt"])?, now)
        } else if ended.is_object() {
            (moment(&ended["startedAt"])?, moment(&ended["finishedAt"])?)
        } else {
            return Some(0.0);
        };
        Some(to.duration_since(from).as_secs_f64().max(0.0))
    };
    containers.map(span).sum()
}

impl Engine for Kubernetes {
    fn name(&self) -> &'static str {
        ENGINE
    }

    fn submit<'a>(&'a self, work: &'a Submission) -> BoxFuture<'a, Result<JobId, EngineError>> {
        Box::pin(self.submitted(work))
    }

    fn find<'a>(&'a self, work: &'a Submission) -> BoxFuture<'a, Result<Option<JobId>, EngineError>> {
        Box::pin(self.found(work))
    }

    fn status<'a>(&'a self, work: &'a Submission, job: &'a JobId) -> BoxFuture<'a, Result<JobStatus, EngineError>> {
        Box::pin(self.described(work, job))
    }

    fn logs<'a>(
        &'a self,
        work: &'a Submission,
        job: &'a JobId,
        node: u32,
    ) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        Box::pin(self.read_logs(work, job, node))
    }

    fn stop<'a>(&'a self, work: &'a Submission, job: &'a JobId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(self.stopped(work, job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_job_is_read_from_its_conditions_and_pods() {
        let now: Timestamp = "2026-08-02T12:10:00Z".parse().unwrap();
        let state = |status: Value, pods: Value| read(&json!({ "status": status }), &pods, now).state;
        let condition = |kind: &str| json!({ "conditions": [{ "type": kind, "status": "True", "message": "m" }] });
        assert_eq!(state(condition("Complete"), json!({})), JobState::Completed);
        assert_eq!(state(condition("Failed"), json!({})), JobState::Failed);
        assert_eq!(state(json!({ "active": 1, "ready": 1 }), json!({})), JobState::Running);
        assert_eq!(state(json!({ "active": 1 }), json!({ "items": [] })), JobState::Waiting);
        assert_eq!(
            state(json!({ "active": 1 }), json!({ "items": [{ "status": { "phase": "Failed" } }] })),
            JobState::Interrupted
        );
        let pods = json!({ "items": [
            { "status": { "containerStatuses": [{ "state": { "running": { "startedAt": "2026-08-02T12:00:00Z" } } }] } },
            { "status": { "containerStatuses": [{ "state": { "terminated": { "startedAt": "2026-08-02T11:00:00Z", "finishedAt": "2026-08-02T11:00:30Z" } } }] } },
        ] });
        assert_eq!(container_seconds(&pods, now).map(f64::round), Some(630.0));
        assert_eq!(container_seconds(&json!({ "items": [{ "status": { "phase": "Pending" } }] }), now), Some(0.0));
        let lost = json!({ "items": [{ "status": { "containerStatuses": [{ "state": { "terminated": { "reason": "ContainerStatusUnknown" } } }] } }] });
        assert_eq!(
            (container_seconds(&lost, now), container_seconds(&json!({}), now)),
            (None, None),
            "what is not said is not nothing"
        );
    }
}
