//! What the agents of runs report in their stores: for `status`, and to find the runs of a sweep.

use std::time::Duration;

use futures_util::future::join_all;

use crate::runs::store::store_of_run;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;
use crate::session::runtime::runtime;
use gpuplan_launch::journal::RunRecord;
use gpuplan_report::runs::{Activity, FailedLine, RunPhase, StagedLine, SweepLine};
use gpuplan_runstore::sweep::{RunState, SweepStatus};
use gpuplan_runstore::{Phase, Run, Status, StoreError};

/// A store that takes longer is not waited for: the journal knows the rest.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Empty where no agent has reported yet.
#[derive(Clone, Debug, Default)]
pub struct AgentReport {
    status: Option<Status>,
    sweep: Option<SweepStatus>,
    /// Why the store could not be asked, so that nothing is known.
    pub unreadable: Option<String>,
}

/// Asks the stores of runs that may run, and of sweeps, at the same time.
pub fn read_all(runs: &[RunRecord], session: &Session) -> Result<Vec<AgentReport>, Diagnostic> {
    let is_asked = |kept: &RunRecord| {
        let is_near = kept.spec.store.starts_with("file://") || !session.offline;
        is_near && (kept.end.is_none() || kept.spec.job.sweep.is_some())
    };
    let stores: Vec<Option<Result<Run, Diagnostic>>> =
        runs.iter().map(|kept| is_asked(kept).then(|| store_of_run(&kept.spec))).collect();
    let ask = async |kept: &RunRecord, store: &Option<Result<Run, Diagnostic>>| {
        let unreadable = |why: String| AgentReport { unreadable: Some(why), ..AgentReport::default() };
        let store = match store {
            None => return AgentReport::default(),
            Some(Err(diagnostic)) => return unreadable(diagnostic.message.clone()),
            Some(Ok(store)) => store,
        };
        let asking = async {
            let status = if kept.end.is_none() { store.status(0).await? } else { None };
            let sweep = if kept.spec.job.sweep.is_some() { store.sweep_status().await? } else { None };
            Ok::<_, StoreError>(AgentReport { status, sweep, unreadable: None })
        };
        match tokio::time::timeout(TIMEOUT, asking).await {
            Ok(answer) => answer.unwrap_or_else(|error| unreadable(error.to_string())),
            Err(_) => unreadable(format!("{} did not answer within {} s", kept.spec.store, TIMEOUT.as_secs())),
        }
    };
    Ok(runtime()?.block_on(join_all(runs.iter().zip(&stores).map(|(kept, store)| ask(kept, store)))))
}

impl AgentReport {
    /// What the machine does beside training, and how far a sweep is.
    pub fn activity(&self, is_running: bool) -> Activity {
        let status = self.status.as_ref();
        let phase = status.filter(|_| is_running).and_then(|status| match status.phase {
            Phase::Staging => Some(RunPhase::Staging),
            Phase::Draining => Some(RunPhase::Draining),
            Phase::Running => Some(RunPhase::Running),
            Phase::Ended => None,
        });
        let staged = status.filter(|status| status.phase == Phase::Staging).and_then(|status| status.staged);
        let staged = staged.map(|staged| StagedLine {
            bytes: staged.bytes,
            of_bytes: staged.of_bytes,
            bytes_per_second: staged.bytes_per_second,
        });
        Activity { phase, staged, sweep: self.sweep.as_ref().map(sweep_line) }
    }
}

fn sweep_line(sweep: &SweepStatus) -> SweepLine {
    let failed = sweep.runs.iter().enumerate().filter(|(_, run)| run.state == RunState::Failed);
    let failed = failed.map(|(index, run)| FailedLine { index, run: run.run.clone(), why: run.why.clone() });
    SweepLine {
        runs: sweep.runs.len(),
        completed: sweep.count(RunState::Completed),
        running: sweep.count(RunState::Running),
        waiting: sweep.count(RunState::Waiting),
        failed: failed.collect(),
    }
}

/// The run, or one of its sweep, in its store.
pub fn run_or_part(kept: &RunRecord, index: Option<u32>) -> Result<Run, Diagnostic> {
    let (whole, run) = (store_of_run(&kept.spec)?, kept.spec.run.as_str());
    let Some(index) = index else { return Ok(whole) };
    let runs = kept.spec.job.sweep.map_or(0, |sweep| sweep.runs);
    if index >= runs {
        let why =
            if runs == 0 { format!("{run} is not a sweep") } else { format!("{run} has {runs} runs, numbered from 0") };
        return Err(Diagnostic::usage(why).hint(format!("gpuplan status {run}")));
    }
    whole.swept(index, runs).map_err(Diagnostic::unexpected)
}

/// Every run of its sweep; none where it is not a sweep.
pub fn runs_of_sweep(kept: &RunRecord) -> Result<Vec<Run>, Diagnostic> {
    (0..kept.spec.job.sweep.map_or(0, |sweep| sweep.runs)).map(|index| run_or_part(kept, Some(index))).collect()
}
