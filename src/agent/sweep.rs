//! `carry`: the runs of a sweep on this machine, several beside each other, each with an agent, a folder, cards and checkpoints of
//! its own. The agent of the sweep runs it as its program, so notices, caps, fences and bills are that agent's.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered};
use futures_util::{StreamExt, TryStreamExt};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::ports::logger::Logger;
use crate::rules::outcome::{AGENT_FAULT, INTERRUPTED};
use crate::rules::slots::{Before, Slots};
use gpuplan_runstore::layout::RunNameError;
use gpuplan_runstore::sweep::{RunState, SweepStatus, SweptRun};
use gpuplan_runstore::{Phase, Run, StoreError, Verdict};
use gpuplan_workload::Sweep;

/// Where the folders of the runs are, below that of the job.
const FOLDER: &str = "sweep";
/// Questions to the store at the same time.
const AT_ONCE: usize = 16;
/// Runs ended and some of them failed. The agent of the sweep does not start it again for that.
pub const SOME_FAILED: i32 = 1;

/// What a sweep needs to know of its machine.
pub struct SweepSettings {
    /// Of the whole sweep.
    pub run: Run,
    pub sweep: Sweep,
    /// The folder of the job, absolute.
    pub folder: PathBuf,
    /// Of the agent of the sweep: no run sees it.
    pub checkpoints: PathBuf,
    /// This program and the options of every agent, up to the name of its run.
    pub agent: Vec<String>,
    pub command: Vec<String>,
    /// Cards that may be used, by the names that CUDA takes; empty: those that the machine has, from 0.
    pub cards: Vec<String>,
    /// Where the agent of the sweep wants to hear how far it is, and where it says that the machine goes.
    pub progress: Option<PathBuf>,
    /// Between two looks at how far the runs are.
    pub pace: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Name(#[from] RunNameError),
    #[error("the folder of a run cannot be made: {0}")]
    Folder(io::Error),
    #[error("signals cannot be handled: {0}")]
    Signals(io::Error),
}

/// Exit code of the program that the agent of the sweep runs.
pub async fn carry(carrier: SweepSettings, logger: Arc<dyn Logger>) -> i32 {
    match Carrying::begin(carrier, logger.clone()).await {
        Ok(mut carrying) => match carrying.until_over().await {
            Ok(code) => code,
            Err(error) => {
                logger.say(&format!("the sweep cannot go on: {error}"));
                i32::from(AGENT_FAULT)
            }
        },
        Err(error) => {
            logger.say(&format!("the sweep cannot start: {error}"));
            i32::from(AGENT_FAULT)
        }
    }
}

struct Carrying {
    carrier: SweepSettings,
    logger: Arc<dyn Logger>,
    runs: Vec<Run>,
    slots: Slots,
    /// Newest step of each run that is safe.
    steps: Vec<u64>,
    /// Agents that run, by index and process.
    agents: Vec<(u32, i32)>,
    /// As it was last written.
    written: Option<SweepStatus>,
}

impl Carrying {
    /// What an earlier machine left is asked of the store, run by run.
    async fn begin(carrier: SweepSettings, logger: Arc<dyn Logger>) -> Result<Self, SweepError> {
        let runs: Vec<Run> = (0..carrier.sweep.runs)
            .map(|index| carrier.run.swept(index, carrier.sweep.runs))
            .collect::<Result<_, _>>()?;
        let known: Vec<(Before, u64)> =
            stream::iter(&runs).map(|run| before(run, &*logger)).buffered(AT_ONCE).try_collect().await?;
        let (before, steps): (Vec<Before>, Vec<u64>) = known.into_iter().unzip();
        let slots = Slots::new(&before, carrier.sweep.parallel);
        let completed = slots.count(RunState::Completed);
        logger.say(&format!(
            "sweep of {} runs, {} at a time with {} GPUs each; {completed} already completed",
            carrier.sweep.runs, carrier.sweep.parallel, carrier.sweep.gpus_per_run
        ));
        Ok(Self { carrier, logger, runs, slots, steps, agents: Vec::new(), written: None })
    }

    async fn until_over(&mut self) -> Result<i32, SweepError> {
        let mut asked = signal(SignalKind::terminate()).map_err(SweepError::Signals)?;
        let mut ended = FuturesUnordered::new();
        let mut look = tokio::time::interval(self.carrier.pace);
        loop {
            while let Some((index, slot)) = self.slots.start() {
                match self.started(index, slot) {
                    Ok(mut agent) => {
                        self.agents.extend(agent.id().map(|pid| (index, pid as i32)));
                        ended.push(async move { (index, agent.wait().await) });
                    }
                    Err(error) => {
                        self.logger.say(&format!("run {}: {error}", self.runs[index as usize].name()));
                        self.slots.ended(index, Some(i32::from(AGENT_FAULT)));
                    }
                }
            }
            self.tell().await;
            if self.slots.is_over() {
                break;
            }
            tokio::select! {
                Some((index, status)) = ended.next() => {
                    self.agents.retain(|(running, _)| *running != index);
                    let code = match status {
                        Ok(status) => status.code(),
                        Err(error) => {
                            self.logger.say(&format!("run {}: how it ended is not known: {error}", self.runs[index as usize].name()));
                            Some(i32::from(AGENT_FAULT))
                        }
                    };
                    self.slots.ended(index, code);
                    self.read_step(index).await;
                    self.say_how(index);
                }
                Some(()) = asked.recv(), if !self.slots.is_ending() => self.end(),
                _ = look.tick() => self.read_steps().await,
            }
        }
        let failed = self.slots.count(RunState::Failed);
        let (completed, runs) = (self.slots.count(RunState::Completed), self.runs.len());
        self.logger.say(&format!("{completed} of {runs} runs are completed, {failed} failed"));
        Ok(match failed {
            _ if self.slots.is_ending() => i32::from(INTERRUPTED),
            0 => 0,
            _ => SOME_FAILED,
        })
    }

    /// The machine goes: every run saves and ends.
    fn end(&mut self) {
        self.slots.end();
        for pid in self.agents.iter().filter_map(|(_, pid)| Pid::from_raw(*pid)) {
            // Whoever ended meanwhile needs no signal.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    fn started(&self, index: u32, slot: u32) -> Result<tokio::process::Child, SweepError> {
        let run = &self.runs[index as usize];
        let folder = self.carrier.folder.join(FOLDER).join(run.name());
        let log = laid_out(&self.carrier.folder, &folder, &self.carrier.checkpoints).map_err(SweepError::Folder)?;
        let cards = cards(&self.carrier.sweep, slot, &self.carrier.cards);
        let words = self.carrier.agent.iter().map(String::as_str).chain(["--run", run.name(), "--force", "--"]);
        let words: Vec<&str> = words.chain(self.carrier.command.iter().map(String::as_str)).collect();
        let mut agent = Command::new(words[0]);
        agent.args(&words[1..]).current_dir(&folder).process_group(0).kill_on_drop(true).stdin(Stdio::null());
        agent
            .env("GPUPLAN_SWEEP_INDEX", index.to_string())
            .env("GPUPLAN_SWEEP_RUNS", self.carrier.sweep.runs.to_string());
        // People hear of the sweep, not of each run.
        agent.env("CUDA_VISIBLE_DEVICES", &cards).env_remove("GPUPLAN_NOTIFY");
        agent.stdout(log.try_clone().map_err(SweepError::Folder)?).stderr(log);
        let agent = agent.spawn().map_err(SweepError::Folder)?;
        self.logger.say(&format!("run {} starts on GPU {cards}, from step {}", run.name(), self.steps[index as usize]));
        Ok(agent)
    }

    fn say_how(&self, index: u32) {
        let (turn, name) = (&self.slots.turns()[index as usize], self.runs[index as usize].name());
        let how = match (turn.state, &turn.why) {
            (RunState::Completed, _) => "is completed".to_owned(),
            (RunState::Failed, why) => format!("failed: {}", why.as_deref().unwrap_or("nobody says why")),
            _ => "was interrupted, what it saved is safe".to_owned(),
        };
        self.logger.say(&format!("run {name} {how}"));
    }

    async fn read_steps(&mut self) {
        for (index, _) in self.agents.clone() {
            self.read_step(index).await;
        }
    }

    /// A store that does not answer now is asked again.
    async fn read_step(&mut self, index: u32) {
        if let Ok(Some(status)) = self.runs[index as usize].status(0).await
            && let Some(name) = status.committed
        {
            self.steps[index as usize] = name.step;
        }
    }

    /// Into the store, where it has changed, and to the agent of the sweep. Nothing depends on it but what people see.
    async fn tell(&mut self) {
        let of = |((turn, run), step): ((&crate::rules::slots::Turn, &Run), &u64)| SweptRun {
            run: run.name().to_owned(),
            state: turn.state,
            step: *step,
            why: turn.why.clone(),
        };
        let status = SweepStatus {
            version: 1,
            runs: self.slots.turns().iter().zip(&self.runs).zip(&self.steps).map(of).collect(),
        };
        if self.written.as_ref() == Some(&status) {
            return;
        }
        if let Some(progress) = &self.carrier.progress {
            let _ = fs::write(progress, self.slots.count(RunState::Completed).to_string());
        }
        match self.carrier.run.write_sweep_status(&status).await {
            Ok(()) => self.written = Some(status),
            Err(error) => self.logger.say(&format!("warning: sweep.json is not written yet: {error}")),
        }
    }
}

/// What an earlier machine left of a run, and its newest step. Where that cannot be read, the run is started: what is safe of it is
/// found then.
async fn before(run: &Run, logger: &dyn Logger) -> Result<(Before, u64), StoreError> {
    match left_of(run).await {
        Err(error @ StoreError::Unreadable { .. }) => {
            logger.say(&format!("warning: what became of run {} is not known, so it is started: {error}", run.name()));
            Ok((Before::Nothing, 0))
        }
        known => known,
    }
}

async fn left_of(run: &Run) -> Result<(Before, u64), StoreError> {
    let Some(status) = run.status(0).await? else { return Ok((Before::Nothing, 0)) };
    let step = status.committed.map(|name| name.step).unwrap_or_default();
    let before = match (status.phase, status.is_done) {
        (Phase::Ended, Some(true)) => Before::Completed,
        (Phase::Ended, _) if run.result().await?.as_ref().and_then(Verdict::of).is_some() => Before::Failed,
        _ => Before::Nothing,
    };
    Ok((before, step))
}

/// The folder of a run: what lies in that of the job stands in it as links, and what the run writes is its own. Gives the file for
/// what its agent says.
fn laid_out(job: &Path, folder: &Path, checkpoints: &Path) -> io::Result<fs::File> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(job)? {
        let name = entry?.file_name();
        let is_ours = name == FOLDER || checkpoints.starts_with(job.join(&name));
        let link = folder.join(&name);
        if !is_ours && link.symlink_metadata().is_err() {
            symlink(job.join(&name), link)?;
        }
    }
    fs::OpenOptions::new().create(true).append(true).open(folder.join("agent.log"))
}

/// As CUDA reads them.
fn cards(sweep: &Sweep, slot: u32, visible: &[String]) -> String {
    let name = |card: u32| visible.get(card as usize).cloned().unwrap_or_else(|| card.to_string());
    sweep.devices_of(slot).map(name).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::GpuCount;

    #[test]
    fn cards_are_those_that_may_be_seen() {
        let sweep = Sweep { runs: 8, parallel: 2, gpus_per_run: GpuCount::whole(2) };
        assert_eq!([cards(&sweep, 0, &[]), cards(&sweep, 1, &[])], ["0,1", "2,3"]);
        let visible = ["4", "5", "6", "7"].map(str::to_owned);
        assert_eq!(cards(&sweep, 1, &visible), "6,7");
    }

    #[test]
    fn a_run_reads_the_files_of_the_job_and_writes_its_own() {
        let job = tempfile::tempdir().unwrap();
        fs::write(job.path().join("train.py"), "code").unwrap();
        fs::create_dir(job.path().join("checkpoints")).unwrap();
        let folder = job.path().join("sweep/a-000");
        for _ in 0..2 {
            laid_out(job.path(), &folder, &job.path().join("checkpoints")).unwrap();
        }
        assert_eq!(fs::read_to_string(folder.join("train.py")).unwrap(), "code");
        fs::write(folder.join("result.json"), "{}").unwrap();
        assert!(
            !job.path().join("result.json").exists()
                && !folder.join("sweep").exists()
                && !folder.join("checkpoints").exists()
        );
    }
}
