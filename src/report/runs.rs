//! `status` and `gc`: runs and their machines as JSON documents, and runs as a table.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::text::format::usd;
use crate::text::json::{VERSION, pretty};
use crate::text::table::{Column, render};
use gpuplan_units::Usd;

/// Runs that were launched from this machine, as `gpuplan status -o json` prints them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunList {
    version: u32,
    runs: Vec<RunLine>,
}

/// One run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunLine {
    pub run: String,
    pub state: RunState,
    pub machines: Vec<MachineLine>,
    /// Starts after the first; `null` where the engine does not count them.
    pub relaunches: Option<u32>,
    /// What its machines have cost so far; `null` where no price is known.
    pub cost_usd: Option<Usd>,
    pub expected_cost_usd: Option<Usd>,
    /// Share of the work whose result is saved, from 0 to 1.
    pub progress: Option<f64>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Where its checkpoints are kept.
    pub store: String,
    #[serde(flatten)]
    pub submission: Option<SubmissionLine>,
    #[serde(flatten)]
    pub activity: Activity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Its machines are ordered, or it waits in a queue.
    Launching,
    Running,
    /// Machines were taken away, and others are not there yet.
    Interrupted,
    Completed,
    Failed,
    Stopped,
}

/// A machine of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineLine {
    pub id: String,
    pub state: MachineState,
    /// Cloud, zone or region, machine type and terms.
    pub pool: String,
    /// Which start of the run it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineState {
    Starting,
    Running,
    /// It was told to end, or is being taken away, and may still cost money.
    Ending,
    /// It costs nothing any more.
    Gone,
}

/// The job of a run that was submitted to an engine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SubmissionLine {
    pub engine: String,
    /// The engine's own name of the job; `null` where its answer was lost.
    pub job: Option<String>,
}

/// What the agent of a run reports beside training.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Activity {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RunPhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<StagedLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepLine>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// Data is fetched before the program starts.
    Staging,
    Running,
    /// It saves and is about to end.
    Draining,
}

/// Data on its way to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StagedLine {
    pub bytes: u64,
    pub of_bytes: u64,
    pub bytes_per_second: f64,
}

/// Runs of a sweep, counted by their state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SweepLine {
    pub runs: usize,
    pub completed: usize,
    pub running: usize,
    pub waiting: usize,
    pub failed: Vec<FailedLine>,
}

/// A run of a sweep that failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FailedLine {
    /// From 0.
    pub index: usize,
    pub run: String,
    pub why: Option<String>,
}

impl RunList {
    pub fn new(runs: Vec<RunLine>) -> Self {
        Self { version: VERSION, runs }
    }

    pub fn runs(&self) -> &[RunLine] {
        &self.runs
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Nothing of it will change any more.
    pub fn is_over(&self) -> bool {
        let ended = [RunState::Completed, RunState::Failed, RunState::Stopped];
        self.runs.iter().all(|run| ended.contains(&run.state))
    }

    pub fn json(&self) -> String {
        pretty(self)
    }

    pub fn table(&self, width: u16) -> String {
        let columns = [
            Column::left("run", 0),
            Column::left("state", 0),
            Column::left("where", 0),
            Column::right("relaunches", 0),
            Column::right("spent", 0),
            Column::right("expected", 0),
            Column::right("progress", 0),
        ];
        render(&columns, self.runs.iter().map(RunLine::cells), width)
    }
}

impl RunLine {
    fn cells(&self) -> Vec<String> {
        let machines = self.machines.iter().filter(|machine| machine.state != MachineState::Gone);
        let pools: Vec<&str> = machines.map(|machine| machine.pool.as_str()).collect();
        let money = |amount: Option<Usd>| amount.map_or_else(String::new, usd);
        let sweep = self.activity.sweep.as_ref();
        let of = sweep.map_or_else(String::new, |sweep| format!(", {} of {} runs", sweep.completed, sweep.runs));
        vec![
            self.run.clone(),
            self.activity.text().unwrap_or_else(|| self.state.word().to_owned()),
            pools.join(", "),
            self.relaunches.map_or_else(String::new, |count| count.to_string()),
            money(self.cost_usd),
            money(self.expected_cost_usd),
            self.progress.map_or_else(String::new, |done| format!("{:.0} %{of}", done * 100.0)),
        ]
    }
}

impl RunState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Launching => "launching",
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

impl Activity {
    /// `None`: it runs, which its state says already.
    fn text(&self) -> Option<String> {
        match (self.phase?, self.staged) {
            (RunPhase::Staging, Some(staged)) => {
                let share = staged.bytes as f64 / staged.of_bytes.max(1) as f64 * 100.0;
                Some(format!("fetching data, {share:.0} %"))
            }
            (RunPhase::Staging, None) => Some("fetching data".to_owned()),
            (RunPhase::Draining, _) => Some("saving, and about to end".to_owned()),
            (RunPhase::Running, _) => None,
        }
    }
}

/// What belongs to no run and was found or ended, as `gpuplan gc -o json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StrayList {
    version: u32,
    found: Vec<StrayLine>,
    /// Empty where nobody said `--yes`; without those of runs that nothing here knows, unless `--unknown-runs` was given.
    ended: Vec<StrayLine>,
}

/// A machine, or a group that starts machines.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StrayLine {
    pub id: String,
    /// The run that its tag names.
    pub run: String,
    /// Cloud, zone or region, machine type and terms.
    pub pool: String,
}

impl StrayList {
    /// `elsewhere`: what may be at work for a run of another computer, and is not ended.
    pub fn new(strays: Vec<StrayLine>, elsewhere: Vec<StrayLine>, are_ended: bool) -> Self {
        let ended = if are_ended { strays.clone() } else { Vec::new() };
        Self { version: VERSION, found: strays.into_iter().chain(elsewhere).collect(), ended }
    }

    pub fn json(&self) -> String {
        pretty(self)
    }

    /// A line each.
    pub fn text(&self) -> String {
        let line = |(number, stray): (usize, &StrayLine)| {
            let what = if number < self.ended.len() { "ended" } else { "found" };
            format!("{what}: {} of run {} ({})\n", stray.id, stray.run, stray.pool)
        };
        self.found.iter().enumerate().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunLine {
        RunLine {
            run: "r".to_owned(),
            state: RunState::Running,
            machines: vec![
                MachineLine { id: "i-1".to_owned(), state: MachineState::Gone, pool: "a".to_owned(), epoch: Some(1) },
                MachineLine { id: "i-2".to_owned(), state: MachineState::Running, pool: "b".to_owned(), epoch: None },
            ],
            relaunches: Some(1),
            cost_usd: Usd::parse("1.5").ok(),
            expected_cost_usd: None,
            progress: Some(0.5),
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
            store: "file:///s".to_owned(),
            submission: None,
            activity: Activity::default(),
        }
    }

    #[test]
    fn a_run_says_what_it_does_and_where() {
        let staged = Some(StagedLine { bytes: 40, of_bytes: 100, bytes_per_second: 1.0 });
        let staging = RunLine { activity: Activity { phase: Some(RunPhase::Staging), staged, sweep: None }, ..run() };
        let list = RunList::new(vec![run(), staging]);
        let table = list.table(120);
        assert!(table.contains("fetching data, 40 %") && table.contains("50 %") && table.contains("$1.50"), "{table}");
        let json: serde_json::Value = serde_json::from_str(&list.json()).unwrap();
        assert_eq!((&json["version"], &json["runs"][0]["state"]), (&1.into(), &"running".into()));
        assert_eq!(
            (&json["runs"][1]["phase"], &json["runs"][1]["staged"]["of_bytes"]),
            (&"staging".into(), &100.into())
        );
        let keys: Vec<&str> = json["runs"][0].as_object().unwrap().keys().map(String::as_str).collect();
        assert!(keys.contains(&"ended_at") && !keys.contains(&"phase") && !keys.contains(&"engine"), "{keys:?}");
        assert_eq!(json["runs"][0]["machines"][1].get("epoch"), None);
    }

    #[test]
    fn strays_are_ended_only_after_a_yes() {
        let found = vec![StrayLine { id: "i-1".to_owned(), run: "r".to_owned(), pool: "aws/x".to_owned() }];
        assert_eq!(StrayList::new(found.clone(), Vec::new(), false).text(), "found: i-1 of run r (aws/x)\n");
        let other = vec![StrayLine { id: "i-2".to_owned(), ..found[0].clone() }];
        let both = StrayList::new(found.clone(), other, true);
        assert_eq!(both.text(), "ended: i-1 of run r (aws/x)\nfound: i-2 of run r (aws/x)\n");
        let json: serde_json::Value = serde_json::from_str(&StrayList::new(found, Vec::new(), true).json()).unwrap();
        assert_eq!((&json["version"], &json["found"]), (&1.into(), &json["ended"]));
    }
}
