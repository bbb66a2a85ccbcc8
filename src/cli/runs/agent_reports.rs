//! What the agents of runs say of themselves in their stores: for `status`, and to find the runs of a sweep.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::runs::store::store;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::runtime::runtime;
use gpuplan_launch::journal::Kept;
use gpuplan_runstore::sweep::{RunState, SweepStatus, SweptRun};
use gpuplan_runstore::{Phase, Run, Status, StoreError};

/// A store that takes longer is not waited for: the journal knows the rest.
const PATIENCE: Duration = Duration::from_secs(3);

/// Nothing where no agent has said a word.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    status: Option<Status>,
    sweep: Option<SweepStatus>,
    /// Why the store could not be asked, so that nothing is known.
    pub silent: Option<String>,
}

/// Asks the stores of runs that may run, and of sweeps, at the same time.
pub fn said(runs: &[Kept], session: &Session) -> Result<Vec<Standing>, Diagnostic> {
    let is_asked = |kept: &Kept| {
        let is_near = kept.spec.store.starts_with("file://") || !session.offline;
        is_near && (kept.end.is_none() || kept.spec.job.sweep.is_some())
    };
    let stores: Vec<Option<Result<Run, Diagnostic>>> =
        runs.iter().map(|kept| is_asked(kept).then(|| store(&kept.spec))).collect();
    let ask = async |kept: &Kept, store: &Option<Result<Run, Diagnostic>>| {
        let silent = |why: String| Standing { silent: Some(why), ..Standing::default() };
        let store = match store {
            None => return Standing::default(),
            Some(Err(diagnostic)) => return silent(diagnostic.message.clone()),
            Some(Ok(store)) => store,
        };
        let asking = async {
            let status = if kept.end.is_none() { store.status(0).await? } else { None };
            let sweep = if kept.spec.job.sweep.is_some() { store.sweep_status().await? } else { None };
            Ok::<_, StoreError>(Standing { status, sweep, silent: None })
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(answer) => answer.unwrap_or_else(|error| silent(error.to_string())),
            Err(_) => silent(format!("{} did not answer within {} s", kept.spec.store, PATIENCE.as_secs())),
        }
    };
    Ok(runtime()?.block_on(join_all(runs.iter().zip(&stores).map(|(kept, store)| ask(kept, store)))))
}

impl Standing {
    /// What the machine does, beside training: the word of JSON, and words for a person.
    pub fn phase(&self) -> Option<(&'static str, String)> {
        let status = self.status.as_ref()?;
        match (status.phase, status.staged) {
            (Phase::Staging, Some(staged)) => {
                let share = staged.bytes as f64 / (staged.of_bytes.max(1)) as f64 * 100.0;
                Some(("staging", format!("fetching data, {share:.0} %")))
            }
            (Phase::Staging, None) => Some(("staging", "fetching data".to_owned())),
            (Phase::Draining, _) => Some(("draining", "saving, and about to end".to_owned())),
            (Phase::Running, _) => Some(("running", String::new())),
            (Phase::Ended, _) => None,
        }
    }

    pub fn staged(&self) -> Option<Value> {
        let staged = self.status.as_ref().filter(|status| status.phase == Phase::Staging)?.staged?;
        Some(json!({ "bytes": staged.bytes, "of_bytes": staged.of_bytes, "bytes_per_second": staged.bytes_per_second }))
    }

    /// As JSON has it.
    pub fn sweep(&self) -> Option<Value> {
        let sweep = self.sweep.as_ref()?;
        let failed: Vec<Value> = self
            .failed()
            .into_iter()
            .map(|(index, run)| json!({ "index": index, "run": run.run, "why": run.why }))
            .collect();
        Some(json!({
            "runs": sweep.runs.len(),
            "completed": sweep.count(RunState::Completed),
            "running": sweep.count(RunState::Running),
            "waiting": sweep.count(RunState::Waiting),
            "failed": failed,
        }))
    }

    /// By index.
    pub fn failed(&self) -> Vec<(usize, &SweptRun)> {
        let runs = self.sweep.iter().flat_map(|sweep| sweep.runs.iter().enumerate());
        runs.filter(|(_, run)| run.state == RunState::Failed).collect()
    }
}

/// The run, or one of its sweep, in its store.
pub fn part(kept: &Kept, index: Option<u32>) -> Result<Run, Diagnostic> {
    let (whole, run) = (store(&kept.spec)?, kept.spec.run.as_str());
    let Some(index) = index else { return Ok(whole) };
    let runs = kept.spec.job.sweep.map_or(0, |sweep| sweep.runs);
    if index >= runs {
        let why =
            if runs == 0 { format!("{run} is no sweep") } else { format!("{run} has {runs} runs, numbered from 0") };
        return Err(Diagnostic::new(Exit::Usage, why).hint(format!("gpuplan status {run}")));
    }
    whole.swept(index, runs).map_err(|error| Diagnostic::unexpected(&error))
}

/// Every run of its sweep; none where it is no sweep.
pub fn swept(kept: &Kept) -> Result<Vec<Run>, Diagnostic> {
    (0..kept.spec.job.sweep.map_or(0, |sweep| sweep.runs)).map(|index| part(kept, Some(index))).collect()
}
