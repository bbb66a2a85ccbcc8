//! `State`: what the tasks of one agent know of the program, its checkpoints and its machine.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::rules::improvement::ImprovementTracker;
use gpuplan_runstore::status::{Finding, Staged};
use gpuplan_runstore::{ManifestName, Phase, Spent};
use gpuplan_telemetry::Sample;
use gpuplan_units::Usd;

/// Lines that are kept of the end of the output, and characters of each. A traceback names its error last.
const LAST_LINES: usize = 4;
const LONGEST_LAST: usize = 300;

/// What the tasks of one agent share.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub phase: Option<Phase>,
    pub progress: Option<u64>,
    pub starts: u32,
    /// When the program was first started.
    pub started_at: Option<Instant>,
    /// The cloud takes this machine away.
    pub is_taken: bool,
    /// All machines take part, so who is silent is missed.
    pub is_assembled: bool,
    /// Once it has ended: whether nothing is left to do.
    pub is_done: Option<bool>,
    /// When the lease of this machine ends, unless it is renewed before. From the start of the agent.
    pub lease_ends: Option<Duration>,
    /// When the program last worked, from the start of the agent.
    pub busy_at: Duration,
    /// When the program last wrote to stdout or stderr, from the start of the agent.
    pub wrote_at: Duration,
    /// Of the job's data.
    pub staged: Option<Staged>,
    pub checkpoints: Checkpoints,
    pub spending: Spending,
    pub output: Output,
    pub machine: MachineState,
    /// Where the user asked what improvement costs.
    pub improvement: Option<ImprovementTracker>,
    pub warnings: Vec<String>,
}

/// How far the program's checkpoints are safe in the store.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// The newest in the store.
    pub committed: Option<ManifestName>,
    /// The newest that this epoch made safe, and when it was seen to be complete.
    pub saved: Option<(ManifestName, Instant)>,
    /// Bytes of the newest complete one: what the last one will have, too.
    pub newest_bytes: u64,
    pub backlog_bytes: u64,
    pub upload_bytes_per_second: Option<f64>,
}

/// What the run has cost.
#[derive(Clone, Debug, Default)]
pub struct Spending {
    /// By all other machines and epochs, as last read; `None` before the store has answered.
    pub by_others: Option<Spent>,
    /// Of the whole run, as last worked out from the bills that could be read; `None` without a price.
    pub at_least: Option<Usd>,
}

/// What the program wrote to stdout and stderr.
#[derive(Clone, Debug, Default)]
pub struct Output {
    pub bytes: u64,
    /// Some of it is missing from the log.
    pub is_lost: bool,
    /// The newest lines, for whoever asks why it failed.
    pub last: VecDeque<String>,
}

impl Output {
    fn keep(&mut self, line: &str) {
        let plain: String = line.chars().filter(|c| !c.is_control()).take(LONGEST_LAST).collect();
        if plain.trim().is_empty() {
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(plain.trim().to_owned());
    }

    /// What the program said last; `None`: nothing.
    pub fn last_words(&self) -> Option<String> {
        (!self.last.is_empty()).then(|| self.last.iter().map(String::as_str).collect::<Vec<_>>().join(" | "))
    }
}

/// The machine as last sampled.
#[derive(Clone, Debug, Default)]
pub struct MachineState {
    pub sample: Option<Sample>,
    /// What costs time by the samples so far.
    pub findings: Vec<Finding>,
    pub disk_free_bytes: Option<u64>,
}

impl State {
    /// A line of the program's output.
    pub fn read(&mut self, line: &str) {
        self.output.keep(line);
        if let Some((improvement, spent)) = self.improvement.as_mut().zip(self.spending.at_least) {
            improvement.read(line, spent);
        }
    }
}

/// One state for all tasks.
pub type SharedState = Arc<Mutex<State>>;

/// Reads or changes the state. A task that died while it held it left whole values.
pub fn with<T>(shared: &SharedState, work: impl FnOnce(&mut State) -> T) -> T {
    work(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_the_newest_lines_without_colours_and_empty_ones() {
        let mut state = State::default();
        assert_eq!(state.output.last_words(), None);
        for line in [
            "0\n",
            "1\n",
            "Traceback (most recent call last):\n",
            "  File \"a.py\"\n",
            "\n",
            "\u{1b}[31mValueError: x\u{7}\n",
        ] {
            state.read(line);
        }
        assert_eq!(
            state.output.last_words().as_deref(),
            Some("1 | Traceback (most recent call last): | File \"a.py\" | [31mValueError: x")
        );
        state.read(&"y".repeat(5000));
        assert!(state.output.last_words().unwrap().ends_with(&"y".repeat(LONGEST_LAST)));
    }
}
