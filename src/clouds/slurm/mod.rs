//! Slurm as an `Engine`: sbatch, scontrol, sacct and scancel. A job carries the token as its comment.

use std::ffi::OsString;

use crate::client::{Client, SLOW};
use gpuplan_launch::engine::{Engine, EngineError, JobId, JobState, JobStatus, Submission};
use gpuplan_market::BoxFuture;

pub const ENGINE: &str = "slurm";
const INSTALL: &str = "the Slurm client of your cluster (Debian: slurm-client), or a login node of it";

pub struct Slurm {
    path: Option<OsString>,
}

impl Slurm {
    /// `path` replaces `PATH`, for tests.
    pub fn new(path: Option<OsString>) -> Self {
        Self { path }
    }

    fn client(&self, program: &'static str) -> Client {
        Client { engine: ENGINE, program, install: INSTALL, path: self.path.clone() }
    }

    async fn found(&self, work: &Submission) -> Result<Option<JobId>, EngineError> {
        let client = self.client("squeue");
        let answer = client.answer(&["--me", "--noheader", "--states=all", "--format=%i|%k"], &[]).await?;
        let mark = mark(work);
        let jobs = answer.text();
        let job = jobs.lines().filter_map(|line| line.trim().split_once('|')).find(|(_, comment)| *comment == mark);
        Ok(job.map(|(id, _)| JobId(id.to_owned())))
    }

    async fn submitted(&self, work: &Submission) -> Result<JobId, EngineError> {
        if let Some(job) = self.found(work).await? {
            return Ok(job);
        }
        let client = self.client("sbatch");
        let (comment, output) = (format!("--comment={}", mark(work)), format!("--output={}", work.output));
        let answer = client.run(&["--parsable", &comment, &output], &work.options, &work.text, SLOW).await?;
        if !answer.is_done {
            // sbatch gives up by itself where the controller is away, and then nothing was queued or nobody knows.
            let is_away = answer.stderr.contains("Unable to contact") || answer.stderr.contains("timed out");
            return Err(if is_away { client.unclear(&answer) } else { client.refused(&answer) });
        }
        let text = answer.text();
        let id = text.lines().last().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if id.is_empty() || !id.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(client.unclear(&answer));
        }
        Ok(JobId(id.to_owned()))
    }

    async fn described(&self, job: &JobId) -> Result<JobStatus, EngineError> {
        let client = self.client("scontrol");
        let answer = client.ask(&["--oneliner", "show", "job", &job.0], &[]).await?;
        if answer.is_done && answer.text().contains("JobState=") {
            return Ok(of_scontrol(&answer.text()));
        }
        if !answer.stderr.contains("Invalid job id") {
            return Err(client.unclear(&answer));
        }
        // The controller forgets jobs minutes after their end (MinJobAge); a cluster with accounting does not.
        let gone = JobStatus::gone("forgotten by Slurm");
        let format = "--format=State,ElapsedRaw,NNodes";
        let arguments = ["--noheader", "--parsable2", "--allocations", "--duplicates", "--jobs", &job.0, format];
        match self.client("sacct").ask(&arguments, &[]).await {
            Ok(answer) if answer.is_done => Ok(of_sacct(&answer.text()).unwrap_or(gone)),
            Ok(_) | Err(EngineError::Missing { .. }) => Ok(gone),
            Err(error) => Err(error),
        }
    }
}

fn mark(work: &Submission) -> String {
    format!("gpuplan:{}", work.token)
}

/// `key=value` of one line. What stands after the first `=` is the value; values with spaces are not asked for.
fn of_scontrol(line: &str) -> JobStatus {
    let field = |key: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default()
    };
    let restarts: Option<u32> = field("Restarts").parse().ok();
    let nodes: Option<f64> = field("NumNodes").split('-').next().and_then(|count| count.parse().ok());
    // Earlier lives are not in it.
    let seconds = elapsed(field("RunTime")).filter(|_| restarts == Some(0));
    let state = state(field("JobState"), restarts.is_some_and(|restarts| restarts > 0));
    let place = field("NodeList");
    let words = if place.is_empty() || place == "(null)" { field("Reason") } else { place };
    let machine_seconds = seconds.zip(nodes).map(|(seconds, nodes)| seconds * nodes);
    JobStatus { state, relaunches: restarts, machine_seconds, words: words.to_owned() }
}

/// A line a life, the last one last.
fn of_sacct(text: &str) -> Option<JobStatus> {
    let lives: Vec<Vec<&str>> =
        text.lines().map(|line| line.split('|').collect()).filter(|life: &Vec<&str>| life.len() == 3).collect();
    let restarts = u32::try_from(lives.len().checked_sub(1)?).ok()?;
    let seconds: Option<f64> =
        lives.iter().map(|life| Some(life[1].parse::<f64>().ok()? * life[2].parse::<f64>().ok()?)).sum();
    let last = lives.last()?.first()?;
    Some(JobStatus {
        state: state(last, restarts > 0),
        relaunches: Some(restarts),
        machine_seconds: seconds,
        words: (*last).to_owned(),
    })
}

/// States of squeue(1), "JOB STATE CODES". sacct says `CANCELLED by 0`.
fn state(word: &str, has_run_before: bool) -> JobState {
    match word.split_whitespace().next().unwrap_or_default() {
        "PENDING" if !has_run_before => JobState::Waiting,
        "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" | "PREEMPTED" | "RESV_DEL_HOLD" => {
            JobState::Interrupted
        }
        "COMPLETED" => JobState::Completed,
        "CANCELLED" | "REVOKED" => JobState::Stopped,
        "FAILED" | "TIMEOUT" | "NODE_FAIL" | "OUT_OF_MEMORY" | "BOOT_FAIL" | "DEADLINE" => JobState::Failed,
        // CONFIGURING, COMPLETING, SUSPENDED and the like: it has machines.
        _ => JobState::Running,
    }
}

/// `[days-]hours:minutes:seconds`.
fn elapsed(text: &str) -> Option<f64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = parts.as_slice() else { return None };
    Some(((days.parse::<f64>().ok()? * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds)
}

impl Engine for Slurm {
    fn name(&self) -> &'static str {
        ENGINE
    }

    fn submit<'a>(&'a self, work: &'a Submission) -> BoxFuture<'a, Result<JobId, EngineError>> {
        Box::pin(self.submitted(work))
    }

    fn find<'a>(&'a self, work: &'a Submission) -> BoxFuture<'a, Result<Option<JobId>, EngineError>> {
        Box::pin(self.found(work))
    }

    fn status<'a>(&'a self, _work: &'a Submission, job: &'a JobId) -> BoxFuture<'a, Result<JobStatus, EngineError>> {
        Box::pin(self.described(job))
    }

    /// Slurm has no client for output: the file is where it was told to be, on the cluster's file system.
    fn logs<'a>(
        &'a self,
        work: &'a Submission,
        _job: &'a JobId,
        _node: u32,
    ) -> BoxFuture<'a, Result<Vec<u8>, EngineError>> {
        Box::pin(async move {
            match std::fs::read(&work.output) {
                Ok(bytes) => Ok(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
                Err(error) => Err(EngineError::Refused { engine: ENGINE, detail: format!("{}: {error}", work.output) }),
            }
        })
    }

    fn stop<'a>(&'a self, _work: &'a Submission, job: &'a JobId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move {
            let client = self.client("scancel");
            let answer = client.ask(&[&job.0], &[]).await?;
            let is_over =
                answer.stderr.contains("Invalid job id") || answer.stderr.contains("already completing or completed");
            if answer.is_done || is_over { Ok(()) } else { Err(client.unclear(&answer)) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scontrol_says_is_read() {
        let line = "JobId=17 JobName=a JobState=RUNNING Reason=None Requeue=1 Restarts=0 RunTime=1-00:01:40 NodeList=one,two NumNodes=2 NumCPUs=2";
        let status = of_scontrol(line);
        assert_eq!(
            (status.state, status.relaunches, status.machine_seconds),
            (JobState::Running, Some(0), Some(2.0 * 86_500.0))
        );
        assert_eq!(status.words, "one,two");
        let again =
            of_scontrol("JobState=PENDING Reason=BeginTime Restarts=2 RunTime=00:00:00 NodeList=(null) NumNodes=1-1");
        assert_eq!(
            (again.state, again.machine_seconds, again.words.as_str()),
            (JobState::Interrupted, None, "BeginTime")
        );
        for (line, relaunches) in [
            ("JobState=RUNNING RunTime=00:01:40 NumNodes=2", None),
            ("JobState=RUNNING Restarts=0 RunTime=00:01:40", Some(0)),
        ] {
            let status = of_scontrol(line);
            assert_eq!(
                (status.relaunches, status.machine_seconds),
                (relaunches, None),
                "what is not said is not nothing: {line}"
            );
        }
    }

    #[test]
    fn accounting_adds_up_the_lives() {
        let status = of_sacct("PREEMPTED|100|2\nCANCELLED by 0|50|2\n").unwrap();
        assert_eq!(
            (status.state, status.relaunches, status.machine_seconds),
            (JobState::Stopped, Some(1), Some(300.0))
        );
        assert_eq!(of_sacct("\n"), None);
        assert_eq!(elapsed("INVALID"), None);
    }
}
