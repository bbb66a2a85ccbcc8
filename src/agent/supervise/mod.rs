//! `supervise`: one life of an agent, from the fence to the recorded outcome.

mod attend;
mod attention;
mod folder;
mod record;
mod saving;
pub mod settings;
mod stage;
mod supervisor;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use backon::Retryable;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::checkpoint::restore::{Restore, Restored};
use crate::checkpoint::scan::Place;
use crate::event::Event;
use crate::life::Life;
use crate::ports::logger::Logger;
use crate::ports::notice::Urgency;
use crate::ports::notify::Occasion;
use crate::process::control_group::ControlGroup;
use crate::process::output::{CHUNK_AGE, Logs};
use crate::process::signals;
use crate::process::tree;
use crate::retry::growing_pauses;
use crate::rules::improvement::ImprovementTracker;
use crate::rules::outcome::{Exit, Outcome};
use crate::rules::restart::{Crash, Decision, History};
use crate::rules::stall::Stall;
use crate::state::{State, with};
use crate::supervise::folder::OWNER_FILE;
pub use crate::supervise::settings::Settings;
pub use crate::supervise::supervisor::AgentError;
use crate::supervise::supervisor::{Ending, Meeting, Monitors, Supervisor, Warned};
use crate::sweep;
use crate::team::claim::Claim;
use crate::team::mandate::ensure_wanted;
use crate::team::members;
use crate::team::rendezvous;
use crate::watch::notices;
use crate::watch::renewals;
use crate::watch::sampler::Sampler;
use crate::watch::stops;
use gpuplan_runstore::spec::command_of;
use gpuplan_runstore::{Owner, Phase, Spec, Start, StoreError};
use gpuplan_telemetry::host::UnrelatedProcesses;

/// Before a restore that the store refused is tried again, and how often it is.
const RESTORE_PAUSE: Duration = Duration::from_secs(1);
const RESTORE_RETRIES: usize = 4;

/// Runs the command until it is done, may not go on, or is given up.
pub async fn supervise(settings: Settings, logger: Arc<dyn Logger>) -> Result<Outcome, AgentError> {
    tree::adopt_orphans();
    let (sender, events) = mpsc::channel(64);
    signals::listen(settings.program.grace, sender.clone())?;
    let mut me = tree::myself(settings.team.machine.as_deref())?;
    let group = ControlGroup::make(me.pid, me.start_ticks, tree::is_running);
    me.control_group = group.as_ref().map(ControlGroup::path);
    let outcome = own_and_live(settings, logger, me, group.clone(), sender, events).await;
    if let Some(group) = group {
        group.remove();
    }
    outcome
}

async fn own_and_live(
    settings: Settings,
    logger: Arc<dyn Logger>,
    me: Owner,
    group: Option<ControlGroup>,
    sender: mpsc::Sender<Event>,
    mut events: mpsc::Receiver<Event>,
) -> Result<Outcome, AgentError> {
    let (run, rank) = (&settings.run, settings.team.rank);
    let prefix = format!("{}@{}|{}|n{}|", run.name(), settings.store, me.machine, rank.node);
    let mark = format!("{prefix}{}", me.mark());
    let (heartbeat, force, nodes) = (settings.team.heartbeat, settings.team.force, rank.nodes);
    let is_ordered = settings.team.ordered_by.is_some();
    let claim =
        Claim { run, me: &me, mark: &mark, prefix: &prefix, heartbeat, force, is_ordered, nodes, logger: &*logger };
    if let Some(ordered) = &settings.team.ordered_by {
        tokio::select! {
            wanted = ensure_wanted(run, ordered, &*logger) => wanted?,
            () = until_told_to_leave(&mut events) => return Ok(Outcome::Interrupted),
        }
    }
    let (epoch, start) = if rank.is_first() {
        (claim.take().await?, None)
    } else {
        tokio::select! {
            joined = async {
                stage::before_joining(settings.data.as_ref(), &logger).await?;
                Ok::<_, AgentError>(claim.join(rank).await?)
            } => joined.map(|(epoch, start)| (epoch, Some(start)))?,
            () = until_told_to_leave(&mut events) => return Ok(Outcome::Interrupted),
        }
    };
    logger.say(&format!("run {}, epoch {epoch}: {}", run.name(), settings.checkpoints.framework.promise()));
    let improvement = settings.improvement.clone().map(ImprovementTracker::new);
    let state = Arc::new(Mutex::new(State { phase: Some(Phase::Running), improvement, ..State::default() }));
    let begun = Instant::now();
    let (run, begun_at) = (run.clone(), Timestamp::now());
    let ordered_by = settings.team.ordered_by.clone();
    let life = Life { run, epoch, ordered_by, rank, heartbeat, begun, begun_at, state, events: sender };
    let monitors = Monitors {
        stall: Stall::new(settings.stall.after, Duration::ZERO),
        sampler: Sampler::new(&settings.nvidia_smi, heartbeat),
        processes_seen_at: begun,
        strangers: UnrelatedProcesses::default(),
    };
    let rendezvous = start.as_ref().and_then(|start| start.rendezvous.clone());
    let mut supervisor = Supervisor {
        settings,
        logger,
        life,
        mark,
        group,
        events,
        ending: Ending::default(),
        meeting: Meeting { start, rendezvous },
        logs: None,
        monitors,
        warned: Warned::default(),
        notifications: JoinSet::new(),
    };
    supervisor.live().await
}

async fn until_told_to_leave(events: &mut mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        if matches!(event, Event::Notice { notice, .. } if notice.urgency == Urgency::Leave) {
            return;
        }
    }
    std::future::pending::<()>().await;
}

impl Supervisor {
    async fn live(&mut self) -> Result<Outcome, AgentError> {
        if self.settings.program.keep_output {
            let own = self.own_folder()?.join("logs").join(self.life.run.name());
            self.logs = Some(Logs::new(self.life.run.clone(), own, self.life.epoch, self.life.rank.node)?);
        }
        if self.life.rank.is_first() {
            self.write_spec_once().await;
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(self.heartbeat().beat());
        for source in &self.settings.notices.sources {
            tasks.spawn(notices::listen(source.clone(), self.life.events.clone()));
        }
        tasks.spawn(stops::listen(self.life.clone()));
        if let Some(lease) = self.settings.lease.clone() {
            tasks.spawn(renewals::keep_renewing(self.life.clone(), lease));
        }
        if !self.life.rank.is_alone() {
            tasks.spawn(members::listen(self.life.clone()));
        }
        if let Some(logs) = self.logs.clone() {
            tasks.spawn(keep_sending(logs, self.life.events.clone()));
        }
        let outcome = self.stage_and_start().await;
        tasks.shutdown().await;
        if let Err(fault) = &outcome {
            self.notify(Occasion::Finished, &format!("the agent gave up: {fault}"));
        }
        if let Ok(outcome) = &outcome
            && *outcome != Outcome::Fenced
        {
            self.record(*outcome).await;
        }
        self.wait_for_notifications().await;
        outcome
    }

    /// For whoever has only the store. Without it the run goes on all the same.
    async fn write_spec_once(&mut self) {
        let (caps, command) = (self.settings.caps, &self.settings.program.command);
        let run = self.life.run.clone();
        let spec = Spec {
            version: 1,
            written_by: "agent",
            run: run.name(),
            nodes: self.life.rank.nodes,
            command,
            framework: self.settings.checkpoints.framework.name(),
            rate_usd_per_hour: caps.rate,
            billing: caps.billing,
            budget_usd: caps.budget,
            lifetime_seconds: caps.lifetime.map(|lifetime| lifetime.as_secs()),
        };
        let text = serde_json::to_string_pretty(&spec)
            .expect("a spec is texts and numbers, and writing to memory does not fail");
        let warning = match run.write_spec_once(&text).await {
            Ok(None) => return,
            Ok(Some(other)) => match command_of(&other) {
                Ok(other) if other == *command => return,
                Ok(_) => {
                    self.logger.say("this run was started with another command (spec.json in the store); for a new run use --run NAME");
                    return;
                }
                Err(error) => format!(
                    "spec.json in the store cannot be read, so what the run was begun with is not known: {error}"
                ),
            },
            Err(error) => format!("spec.json is not kept: {error}"),
        };
        self.handle(Event::Warning(warning), None);
    }

    async fn stage_and_start(&mut self) -> Result<Outcome, AgentError> {
        match self.stage().await? {
            Some(outcome) => Ok(outcome),
            None => self.start_again_and_again().await,
        }
    }

    async fn start_again_and_again(&mut self) -> Result<Outcome, AgentError> {
        let mut history = History::default();
        loop {
            let Some(restored) = self.restore().await? else { return Ok(self.outcome(Exit::Code(0))) };
            if self.assemble(&restored).await?.is_none() {
                return Ok(self.outcome(Exit::Code(0)));
            }
            with(&self.life.state, |state| state.is_assembled = true);
            let safe_before = restored.name.map(|name| name.step);
            let kills_before = tree::memory_kills();
            let exit = self.attend(&restored).await?;
            let outcome = self.outcome(exit);
            let Outcome::Failed(exit) = outcome else { return Ok(outcome) };
            let (safe, progress) =
                with(&self.life.state, |state| (state.checkpoints.committed.map(|name| name.step), state.progress));
            let crash = Crash {
                exit,
                step: progress.or(safe),
                is_exact: progress.is_some(),
                progressed: safe > safe_before || progress.is_some_and(|step| step > safe_before.unwrap_or(0)),
                out_of_memory: tree::memory_kills() > kills_before,
                disk_full: self.disk_is_full(),
            };
            let decision = if !self.life.rank.is_alone() {
                Decision::GiveUp { why: "the other machines run the same; all have to be started again" }
            } else if self.settings.program.carrier.is_some() && exit == Exit::Code(sweep::SOME_FAILED) {
                Decision::GiveUp { why: "every run that failed was started again already" }
            } else if let Some(first_pause) = self.settings.program.first_pause {
                history.after(crash, first_pause)
            } else {
                Decision::GiveUp { why: "--no-restart was given" }
            };
            match decision {
                Decision::GiveUp { why } => {
                    self.logger.say(&format!("the program failed with {exit} and is not started again: {why}"));
                    return Ok(outcome);
                }
                Decision::Again { after } => {
                    self.logger
                        .say(&format!("the program failed with {exit}; started again in {:.0} s", after.as_secs_f64()));
                    if self.unless_stopping(tokio::time::sleep(after)).await.is_none() {
                        return Ok(self.outcome(exit));
                    }
                }
            }
        }
    }

    /// Says what everybody starts from and waits for all. `None` if the program should not start any more.
    async fn assemble(&mut self, restored: &Restored) -> Result<Option<()>, AgentError> {
        let rank = self.life.rank;
        if rank.is_alone() || !rank.is_first() {
            return Ok(Some(()));
        }
        let (run, epoch, logger, mark) =
            (self.life.run.clone(), self.life.epoch, self.logger.clone(), self.mark.clone());
        std::fs::write(self.own_folder_of(0).join(OWNER_FILE), &mark)?;
        self.meeting.rendezvous = rendezvous::here(self.settings.team.address, &*logger);
        let start = Start { restored: restored.name, folder_of: mark, rendezvous: self.meeting.rendezvous.clone() };
        let work = async move {
            run.start(epoch, &start).await?;
            members::gather(&run, epoch, rank, &*logger).await
        };
        Ok(self.unless_stopping(work).await.transpose()?)
    }

    /// `None` if the program should not start any more.
    async fn restore(&mut self) -> Result<Option<Restored>, AgentError> {
        let (run, folder, logger) =
            (self.life.run.clone(), self.settings.checkpoints.folder.clone(), self.logger.clone());
        let job = self.settings.checkpoints.job.clone();
        let (framework, epoch, node) = (self.settings.checkpoints.framework, self.life.epoch, self.life.rank.node);
        let (restart_from_nothing, start, shares_a_folder) =
            (self.settings.checkpoints.restart_from_nothing, self.meeting.start.clone(), self.shares_a_folder()?);
        let work = async move {
            let (run, folder, job, logger) = (&run, folder.as_path(), job.as_deref(), &*logger);
            let restore =
                Restore { run, folder, place: Place::Told, job, framework, epoch, node, restart_from_nothing, logger };
            let attempt = || async {
                match &start {
                    None => restore.newest().await.map(Ok),
                    Some(start) if shares_a_folder => restore.there(start.restored).await,
                    Some(start) => restore.exactly(start.restored).await,
                }
            };
            attempt
                .retry(growing_pauses(RESTORE_PAUSE).with_max_times(RESTORE_RETRIES))
                .when(StoreError::may_pass)
                .notify(|error, pause| {
                    logger.say(&format!("warning: {error}; tried again in {:.0} s", pause.as_secs_f64()));
                })
                .await
        };
        let Some(restored) = self.unless_stopping(work).await.transpose()? else { return Ok(None) };
        let restored = restored.map_err(AgentError::Apart)?;
        for (name, why) in &restored.rejected {
            let what = json!({"event": "manifest_rejected", "step": name.step, "epoch": name.epoch, "why": why});
            let name = format!("e{}-rejected-{}-{}", self.life.epoch, name.step, name.epoch);
            self.life.run.event(&name, &what).await?;
        }
        if restored.name.is_none() && !restored.rejected.is_empty() && !self.settings.checkpoints.restart_from_nothing {
            return Err(AgentError::NothingVerifies(restored.rejected.len()));
        }
        match (&restored.name, &restored.path) {
            (Some(name), _) => self.logger.say(&format!("restored step {} of epoch {}", name.step, name.epoch)),
            (None, Some(path)) => {
                self.logger.say(&format!("nothing is committed; {} is complete and used", path.display()));
            }
            (None, None) => self.logger.say("nothing to restore: the program starts from nothing"),
        }
        with(&self.life.state, |state| state.checkpoints.committed = restored.name);
        Ok(Some(restored))
    }
}

/// Sends the log as it grows, what earlier epochs left behind first. A store that is away costs nothing: it waits on the disk.
async fn keep_sending(logs: Logs, events: mpsc::Sender<Event>) {
    let (mut has_inherited, mut is_told) = (false, false);
    loop {
        let sent = async {
            if !has_inherited {
                logs.inherit().await?;
            }
            logs.send().await
        };
        match sent.await {
            Ok(()) => (has_inherited, is_told) = (true, false),
            Err(error) if !is_told => {
                is_told = true;
                let _ = events.send(Event::Warning(format!("the program's output is not sent yet: {error}"))).await;
            }
            Err(_) => {}
        }
        tokio::time::sleep(CHUNK_AGE).await;
    }
}
