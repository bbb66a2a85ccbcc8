//! SkyPilot as an `Engine`: managed jobs by `sky jobs`. The job's name ends in the token.

use std::ffi::OsString;

use serde_json::Value;

use crate::client::{Client, SLOW};
use gpuplan_launch::engine::{Engine, EngineError, JobId, JobState, JobStatus, Submission};
use gpuplan_market::BoxFuture;

pub const ENGINE: &str = "skypilot";
const INSTALL: &str = "SkyPilot (`pip install skypilot`), and `sky check` for your clouds";

pub struct Skypilot {
    client: Client,
}

impl Skypilot {
    /// `path` replaces `PATH`, for tests.
    pub fn new(path: Option<OsString>) -> Self {
        Self { client: Client { engine: ENGINE, program: "sky", install: INSTALL, path } }
    }

    /// Every managed job that it knows. What is told before the list is skipped.
    async fn queue(&self) -> Result<Vec<Value>, EngineError> {
        let answer = self.client.ask(&["jobs", "queue", "--all", "--output", "json"], &[]).await?;
        let text = answer.text();
        let from = text.find('[').unwrap_or(text.len());
        match serde_json::from_str(&text[from..]) {
            Ok(jobs) if answer.is_done => Ok(jobs),
            // Before the first job there is no controller to ask.
            _ if answer.stderr.contains("No in-progress managed jobs")
                || text.contains("No in-progress managed jobs") =>
            {
                Ok(Vec::new())
            }
            _ => Err(self.client.unclear(&answer)),
        }
    }

    async fn found(&self, work: &Submission) -> Result<Option<JobId>, EngineError> {
        let name = name(work);
        let jobs = self.queue().await?;
        Ok(jobs
            .iter()
            .find(|job| job["job_name"] == name.as_str())
            .and_then(|job| job["job_id"].as_u64())
            .map(|id| JobId(id.to_string())))
    }

    async fn submitted(&self, work: &Submission) -> Result<JobId, EngineError> {
        if let Some(job) = self.found(work).await? {
            return Ok(job);
        }
        // It takes a file by its ending; what it reads stays until it has answered.
        let file = std::env::temp_dir().join(format!("gpuplan-{}.yaml", work.token));
        let unclear = |error: std::io::Error| EngineError::Unclear {
            engine: ENGINE,
            detail: format!("{}: {error}", file.display()),
        };
        std::fs::write(&file, &work.text).map_err(unclear)?;
        let (name, path) = (name(work), file.to_string_lossy().into_owned());
        let mut arguments = vec!["jobs", "launch", "--yes", "--detach-run", "--name", name.as_str()];
        arguments.extend(work.options.iter().map(String::as_str));
        arguments.push(&path);
        let answer = self.client.run(&arguments, &[], "", SLOW).await;
        let _ = std::fs::remove_file(&file);
        let answer = answer?;
        match self.found(work).await? {
            Some(job) => Ok(job),
            None if answer.is_done => Err(self.client.unclear(&answer)),
            None => Err(self.client.refused(&answer)),
        }
    }

    async fn described(&self, work: &Submission, job: &JobId) -> Result<JobStatus, EngineError> {
        let jobs = self.queue().await?;
        let found = jobs.iter().find(|one| one["job_id"].as_u64().is_some_and(|id| id.to_string() == job.0));
        Ok(found.map_or_else(|| JobStatus::gone("not in its queue"), |found| read(found, work.nodes)))
    }
}

fn name(work: &Submission) -> String {
    format!("{}-{}", work.run, work.token)
}

/// States of `sky jobs queue --help` (0.14.1).
fn read(job: &Value, nodes: u32) -> JobStatus {
    let word = job["status"].as_str().unwrap_or_default();
    let state = match word {
        "PENDING" | "SUBMITTED" | "STARTING" => JobState::Waiting,
        "RECOVERING" => JobState::Interrupted,
        "SUCCEEDED" => JobState::Completed,
        "CANCELLED" => JobState::Stopped,
        failed if failed.starts_with("FAILED") => JobState::Failed,
        // RUNNING, WINDING_DOWN, CANCELLING: it has machines.
        _ => JobState::Running,
    };
    let place = |key: &str| job[key].as_str().filter(|text| !text.is_empty() && *text != "-");
    let words =
        [place("cloud"), place("region"), place("failure_reason")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    JobStatus {
        state,
        relaunches: job["recovery_count"].as_u64().and_then(|count| u32::try_from(count).ok()),
        machine_seconds: job["job_duration"].as_f64().map(|seconds| seconds * f64::from(nodes)),
        words: if words.is_empty() { word.to_lowercase() } else { words },
    }
}

impl Engine for Skypilot {
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

    /// Of all machines: SkyPilot joins them.
    fn logs<'a>(
        &'a self,
        _work: &'a Submission,
        job: &'a JobId,
        _node: u32,
    ) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        Box::pin(async move {
            let answer = self.client.ask(&["jobs", "logs", "--no-follow", &job.0], &[]).await?;
            // Its exit code is that of the job.
            if answer.is_done || !answer.stdout.is_empty() {
                Ok(answer.stdout)
            } else {
                Err(self.client.unclear(&answer))
            }
        })
    }

    fn stop<'a>(&'a self, _work: &'a Submission, job: &'a JobId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let answer = self.client.ask(&["jobs", "cancel", "--yes", &job.0], &[]).await?;
            if answer.is_done { Ok(()) } else { Err(self.client.unclear(&answer)) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_managed_job_is_read() {
        let status = read(
            &json!({ "status": "RECOVERING", "recovery_count": 2, "job_duration": 60.5, "cloud": "aws", "region": "-" }),
            2,
        );
        assert_eq!(
            (status.state, status.relaunches, status.machine_seconds),
            (JobState::Interrupted, Some(2), Some(121.0))
        );
        assert_eq!(
            (status.words.as_str(), read(&json!({ "status": "FAILED_NO_RESOURCE" }), 1).state),
            ("aws", JobState::Failed)
        );
    }
}
