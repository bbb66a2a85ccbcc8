//! `Engine`: the port through which a run is handed to a cluster's engine, by that engine's own client, and what its errors mean.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use gpuplan_market::BoxFuture;
use gpuplan_units::{Usd, UsdPerHour};

/// What is handed over. Written into the journal before the engine is called, so that a lost answer can be looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub run: String,
    pub engine: String,
    /// The same token is the same job.
    pub token: String,
    /// The file that the engine reads.
    pub text: String,
    /// Of the engine's client, as the user gave them: partition, namespace.
    pub options: Vec<String>,
    pub nodes: u32,
    /// What a machine costs an hour, where somebody said so: an engine knows no prices.
    pub rate: Option<UsdPerHour>,
    pub expected_cost: Option<Usd>,
    pub store: String,
    /// File for the job's output, where the engine writes one.
    pub output: String,
    pub handed_at: Timestamp,
}

/// The engine's own name of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// In the queue for the first time.
    Waiting,
    Running,
    /// Back in the queue, or being made anew.
    Interrupted,
    Completed,
    Failed,
    Stopped,
    /// The engine knows it no more.
    Gone,
}

impl JobState {
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Stopped | Self::Gone)
    }
}

/// A job as its engine describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    pub state: JobState,
    /// Lives after the first, where the engine counts them.
    pub relaunches: Option<u32>,
    /// Time of all machines of all lives together, where the engine can say it.
    pub machine_seconds: Option<f64>,
    /// In the engine's words: nodes, or why it waits.
    pub words: String,
}

impl JobStatus {
    /// Of a job that its engine has forgotten.
    pub fn gone(words: &str) -> Self {
        Self { state: JobState::Gone, relaunches: None, machine_seconds: None, words: words.to_owned() }
    }
}

/// Why an engine did not do it, by what to do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Its client is not installed here.
    #[error("`{program}` is not installed here")]
    Missing { program: &'static str, install: &'static str },
    /// It said no; asking again says the same.
    #[error("{engine} refused: {detail}")]
    Refused { engine: &'static str, detail: String },
    /// Nobody knows whether it was done.
    #[error("{engine} gave no clear answer: {detail}")]
    Unclear { engine: &'static str, detail: String },
}

/// An engine that runs jobs: the least that it must do.
///
/// Contract:
/// - `submit` is repeated with the same token after an unclear answer and gives the same job. A job carries the token from the moment
///   that it exists.
/// - `find` gives the job of a token, as long as the engine remembers it.
/// - `status` of a job that the engine has forgotten is `Gone`, not an error.
/// - `logs` gives what the job has said so far, nothing where it has not started.
/// - `stop` of a job that has ended, or is unknown, is done. It may be repeated; the job may take its grace to end.
/// - The client is run with what the user's own environment gives it. No shell is between.
pub trait Engine: Send + Sync {
    fn name(&self) -> &'static str;

    fn submit<'a>(&'a self, work: &'a Submission) -> BoxFuture<'a, Result<JobId, EngineError>>;

    fn find<'a>(&'a self, work: &'a Submission) -> BoxFuture<'a, Result<Option<JobId>, EngineError>>;

    fn status<'a>(&'a self, work: &'a Submission, job: &'a JobId) -> BoxFuture<'a, Result<JobStatus, EngineError>>;

    fn logs<'a>(
        &'a self,
        work: &'a Submission,
        job: &'a JobId,
        node: u32,
    ) -> BoxFuture<'a, Result<Vec<u8>, EngineError>>;

    fn stop<'a>(&'a self, work: &'a Submission, job: &'a JobId) -> BoxFuture<'a, Result<(), EngineError>>;
}
