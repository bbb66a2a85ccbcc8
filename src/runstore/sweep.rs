//! `SweepStatus`: where the runs of a sweep stand, as the machine that carries them says it, and where each lies in the store.

use serde::{Deserialize, Serialize};

use crate::layout::{Layout, RunNameError};
use crate::run::{Run, text};
use crate::store::StoreError;

/// Digits of an index in the name of a run, at least: names sort as the indices do.
const DIGITS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    Waiting,
    Running,
    Completed,
    /// Given up on this machine; another tries it once more, after all that wait.
    Failed,
}

/// One run of a sweep, by its index in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweptRun {
    pub run: String,
    pub state: RunState,
    /// The newest that is safe.
    pub step: u64,
    /// How it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepStatus {
    pub version: u32,
    pub runs: Vec<SweptRun>,
}

impl SweepStatus {
    pub fn count(&self, state: RunState) -> usize {
        self.runs.iter().filter(|run| run.state == state).count()
    }

    /// Share of the work of all runs that is safe, where each has so many steps.
    pub fn done(&self, steps: f64) -> f64 {
        let of = |run: &SweptRun| {
            if run.state == RunState::Completed { 1.0 } else { (run.step as f64 / steps.max(1.0)).min(1.0) }
        };
        self.runs.iter().map(of).sum::<f64>() / (self.runs.len().max(1)) as f64
    }

    pub fn failed(&self) -> impl Iterator<Item = &SweptRun> {
        self.runs.iter().filter(|run| run.state == RunState::Failed)
    }
}

/// Of a run of a sweep: `NAME-007`.
pub fn name(sweep: &str, index: u32, runs: u32) -> String {
    let digits = runs.saturating_sub(1).to_string().len().max(DIGITS);
    format!("{sweep}-{index:0digits$}")
}

impl Run {
    /// One run of this sweep, in the same store.
    pub fn swept(&self, index: u32, runs: u32) -> Result<Self, RunNameError> {
        Ok(Self::new(self.store.clone(), Layout::new(&name(self.name(), index, runs))?))
    }

    pub async fn sweep_status(&self) -> Result<Option<SweepStatus>, StoreError> {
        self.read(&self.layout.within("sweep.json")).await
    }

    pub async fn write_sweep_status(&self, status: &SweepStatus) -> Result<(), StoreError> {
        self.store.write(&self.layout.within("sweep.json"), text(status)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn names_sort_as_indices_do() {
        assert_eq!([name("a", 0, 64), name("a", 63, 64)], ["a-000", "a-063"]);
        assert_eq!(name("a", 9, 10_000), "a-0009");
        assert_eq!(name("a", 9, 10_001), "a-00009");
    }

    #[tokio::test]
    async fn what_is_safe_of_a_sweep_counts_the_steps_of_all_runs() {
        let folder = tempfile::tempdir().unwrap();
        let run = Run::new(Store::open(&folder.path().display().to_string()).unwrap(), Layout::new("a").unwrap());
        assert_eq!(run.sweep_status().await.unwrap(), None);
        let swept = |state, step| SweptRun { run: "a-000".to_owned(), state, step, why: None };
        let runs = vec![
            swept(RunState::Completed, 7),
            swept(RunState::Running, 50),
            swept(RunState::Waiting, 0),
            swept(RunState::Failed, 900),
        ];
        let status = SweepStatus { version: 1, runs };
        run.write_sweep_status(&status).await.unwrap();
        let read = run.sweep_status().await.unwrap().unwrap();
        assert_eq!((&read, read.count(RunState::Running)), (&status, 1));
        assert!((read.done(100.0) - (1.0 + 0.5 + 0.0 + 1.0) / 4.0).abs() < 1e-9);
        assert_eq!(run.swept(3, 4).unwrap().name(), "a-003");
    }
}
