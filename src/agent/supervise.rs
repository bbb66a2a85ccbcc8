//! `supervise`: one life of an agent, from the fence to the recorded outcome.

mod attend;
mod attention;
mod folder;
mod record;
mod settings;
mod stage;
mod supervisor;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::claim::Claim;
use crate::control_group::ControlGroup;
use crate::event::Event;
use crate::heart::listen;
use crate::logs::{CHUNK_AGE, Logs};
use crate::notice::Urgency;
use crate::notify::Occasion;
use crate::outcome::{Exit, Outcome};
use crate::pulse::{Pulse, with};
use crate::rendezvous;
use crate::restart::{Crash, Decision, History};
use crate::restore::{Restore, Restored};
use crate::sample::Sampler;
use crate::signals;
use crate::stall::Stall;
use crate::supervise::folder::OWNER_FILE;
pub use crate::supervise::settings::Settings;
pub use crate::supervise::supervisor::Fault;
use crate::supervise::supervisor::{Ending, Supervisor};
use crate::sweep;
pub use crate::talk::{Stream, Talk};
use crate::team;
use crate::tree;
use crate::worth::Worth;
use gpuplan_runstore::spec::command_of;
use gpuplan_runstore::{Owner, Phase, Spec, Start, StoreError};
use gpuplan_telemetry::host::Strangers;

/// Messages to people are waited for so long at the end.
const TELLING: Duration = Duration::from_secs(5);
/// Before a restore that the store refused is tried again.
const RESTORE_PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// Runs the command until it is done, may not go on, or is given up.
pub async fn supervise(settings: Settings, talk: Arc<dyn Talk>) -> Result<Outcome, Fault> {
    tree::adopt_orphans();
    let (sender, events) = mpsc::channel(64);
    signals::listen(settings.grace, sender.clone())?;
    let mut me = tree::myself(settings.machine.as_deref())?;
    let group = ControlGroup::make(me.pid, me.start_ticks, tree::is_running);
    me.control_group = group.as_ref().map(ControlGroup::path);
    let outcome = own_and_live(settings, talk, me, group.clone(), (sender, events)).await;
    if let Some(group) = group {
        group.remove();
    }
    outcome
}

async fn own_and_live(
    settings: Settings,
    talk: Arc<dyn Talk>,
    me: Owner,
    group: Option<ControlGroup>,
    (sender, mut events): (mpsc::Sender<Event>, mpsc::Receiver<Event>),
) -> Result<Outcome, Fault> {
    let (run, place) = (&settings.run, settings.place);
    let prefix = format!("{}@{}|{}|n{}|", run.name(), settings.store, me.machine, place.node);
    let mark = format!("{prefix}{}", me.mark());
    let (heartbeat, force, nodes) = (settings.heartbeat, settings.force, place.nodes);
    let claim = Claim { run, me: &me, mark: &mark, prefix: &prefix, heartbeat, force, nodes, talk: &*talk };
    let (epoch, start) = if place.is_first() {
        (claim.take().await?, None)
    } else {
        tokio::select! {
            joined = async {
                stage::before_joining(settings.data.as_ref(), &talk).await?;
                Ok::<_, Fault>(claim.join(place).await?)
            } => joined.map(|(epoch, start)| (epoch, Some(start)))?,
            () = until_told_to_leave(&mut events) => return Ok(Outcome::Interrupted),
        }
    };
    talk.say(&format!("run {}, epoch {epoch}: {}", run.name(), settings.framework.promise()));
    let worth = settings.worth.clone().map(Worth::new);
    let pulse = Arc::new(Mutex::new(Pulse { phase: Some(Phase::Running), worth, ..Pulse::default() }));
    let (begun, begun_at) = (Instant::now(), Timestamp::now());
    let stall = Stall::new(settings.stall, Duration::ZERO);
    let sampler = Sampler::new(&settings.nvidia_smi, heartbeat);
    let mut supervisor = Supervisor {
        settings,
        talk,
        mark,
        group,
        epoch,
        begun,
        begun_at,
        pulse,
        sender,
        events,
        ending: Ending::default(),
        rendezvous: start.as_ref().and_then(|start| start.rendezvous.clone()),
        start,
        logs: None,
        stall,
        sampler,
        is_short_of_disk: false,
        telling: JoinSet::new(),
        told: None,
        looked: begun,
        strangers: Strangers::default(),
        exit: None,
        why: None,
        synced: true,
        output_lost: false,
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
    async fn live(&mut self) -> Result<Outcome, Fault> {
        if self.settings.keep_output {
            let own = self.own_folder()?.join("logs").join(self.settings.run.name());
            self.logs = Some(Logs::new(self.settings.run.clone(), own, self.epoch, self.settings.place.node)?);
        }
        if self.settings.place.is_first() {
            self.keep_spec().await;
        }
        let mut beside = JoinSet::new();
        beside.spawn(self.heart().beat());
        for source in &self.settings.notices {
            beside.spawn(listen(source.clone(), self.sender.clone()));
        }
        if !self.settings.place.is_alone() {
            let (run, place, heartbeat) = (self.settings.run.clone(), self.settings.place, self.settings.heartbeat);
            beside.spawn(team::listen(run, self.epoch, place, heartbeat, (self.pulse.clone(), self.sender.clone())));
        }
        if let Some(logs) = self.logs.clone() {
            beside.spawn(keep_sending(logs, self.sender.clone()));
        }
        let outcome = self.stage_and_start().await;
        beside.shutdown().await;
        if let Err(fault) = &outcome {
            self.tell(Occasion::Finished, &format!("the agent gave up: {fault}"));
        }
        if let Ok(outcome) = &outcome
            && *outcome != Outcome::Fenced
        {
            self.record(*outcome).await;
        }
        let telling = std::mem::take(&mut self.telling);
        let _ = tokio::time::timeout(TELLING, telling.join_all()).await;
        outcome
    }

    /// For whoever has only the store. Without it the run goes on all the same.
    async fn keep_spec(&mut self) {
        let Settings { caps, place, framework, .. } = self.settings;
        let (run, command) = (self.settings.run.clone(), &self.settings.command);
        let spec = Spec {
            version: 1,
            written_by: "agent",
            run: run.name(),
            nodes: place.nodes,
            command,
            framework: framework.name(),
            rate_usd_per_hour: caps.rate,
            billing: caps.billing,
            budget_usd: caps.budget,
            lifetime_seconds: caps.lifetime.map(|lifetime| lifetime.as_secs()),
        };
        let text = serde_json::to_string_pretty(&spec)
            .expect("a spec is texts and numbers, and writing to memory does not fail");
        let warning = match run.keep_spec(&text).await {
            Ok(None) => return,
            Ok(Some(other)) => match command_of(&other) {
                Ok(other) if other == *command => return,
                Ok(_) => {
                    self.talk.say("this run was begun with another command (spec.json in the store); for a new run give --run NAME");
                    return;
                }
                Err(error) => format!(
                    "spec.json in the store cannot be read, so what the run was begun with is not known: {error}"
                ),
            },
            Err(error) => format!("spec.json is not kept: {error}"),
        };
        self.hear(Event::Warning(warning), None);
    }

    async fn stage_and_start(&mut self) -> Result<Outcome, Fault> {
        match self.stage().await? {
            Some(outcome) => Ok(outcome),
            None => self.start_again_and_again().await,
        }
    }

    async fn start_again_and_again(&mut self) -> Result<Outcome, Fault> {
        let mut history = History::default();
        loop {
            let Some(restored) = self.restore().await? else { return Ok(self.outcome(Exit::Code(0))) };
            if self.assemble(&restored).await?.is_none() {
                return Ok(self.outcome(Exit::Code(0)));
            }
            with(&self.pulse, |pulse| pulse.is_assembled = true);
            let safe_before = restored.name.map(|name| name.step);
            let kills_before = tree::memory_kills();
            let exit = self.attend(&restored).await?;
            let outcome = self.outcome(exit);
            let Outcome::Failed(exit) = outcome else { return Ok(outcome) };
            let (safe, progress) = with(&self.pulse, |pulse| (pulse.committed.map(|name| name.step), pulse.progress));
            let crash = Crash {
                exit,
                step: progress.or(safe),
                is_exact: progress.is_some(),
                progressed: safe > safe_before || progress.is_some_and(|step| step > safe_before.unwrap_or(0)),
                out_of_memory: tree::memory_kills() > kills_before,
                disk_full: self.disk_is_full(),
            };
            let decision = if !self.settings.place.is_alone() {
                Decision::GiveUp { why: "the other machines run the same; all have to be started again" }
            } else if self.settings.carrier.is_some() && exit == Exit::Code(sweep::SOME_FAILED) {
                Decision::GiveUp { why: "every run that failed was started again already" }
            } else {
                history.after(crash, self.settings.first_pause)
            };
            match decision {
                Decision::GiveUp { why } => {
                    self.talk.say(&format!("the program failed ({exit:?}) and is not started again: {why}"));
                    return Ok(outcome);
                }
                Decision::Again { after } => {
                    self.talk
                        .say(&format!("the program failed ({exit:?}); started again in {:.0} s", after.as_secs_f64()));
                    if self.unless_asked(tokio::time::sleep(after)).await.is_none() {
                        return Ok(self.outcome(exit));
                    }
                }
            }
        }
    }

    /// Says what everybody starts from and waits for all. `None` if the program should not start any more.
    async fn assemble(&mut self, restored: &Restored) -> Result<Option<()>, Fault> {
        let place = self.settings.place;
        if place.is_alone() || !place.is_first() {
            return Ok(Some(()));
        }
        let (run, epoch, talk, mark) = (self.settings.run.clone(), self.epoch, self.talk.clone(), self.mark.clone());
        std::fs::write(self.own_folder_of(0).join(OWNER_FILE), &mark)?;
        self.rendezvous = rendezvous::here(self.settings.address, &*talk);
        let start = Start { restored: restored.name, folder_of: mark, rendezvous: self.rendezvous.clone() };
        let work = async move {
            run.start(epoch, &start).await?;
            team::gather(&run, epoch, place, &*talk).await
        };
        Ok(self.unless_asked(work).await.transpose()?)
    }

    /// `None` if the program should not start any more.
    async fn restore(&mut self) -> Result<Option<Restored>, Fault> {
        let (run, folder, talk) = (self.settings.run.clone(), self.settings.folder.clone(), self.talk.clone());
        let (framework, epoch, node) = (self.settings.framework, self.epoch, self.settings.place.node);
        let (restart_from_nothing, start, shares_a_folder) =
            (self.settings.restart_from_nothing, self.start.clone(), self.shares_a_folder()?);
        let work = async move {
            let restore =
                Restore { run: &run, folder: &folder, framework, epoch, node, restart_from_nothing, talk: &*talk };
            let mut pauses = RESTORE_PAUSES.into_iter();
            loop {
                let done = match &start {
                    None => restore.newest().await.map(Ok),
                    Some(start) if shares_a_folder => restore.there(start.restored).await,
                    Some(start) => restore.exactly(start.restored).await,
                };
                match (done, pauses.next()) {
                    (Err(error @ (StoreError::Unavailable { .. } | StoreError::Denied { .. })), Some(pause)) => {
                        talk.say(&format!("warning: {error}; tried again in {} s", pause.as_secs()));
                        tokio::time::sleep(pause).await;
                    }
                    (done, _) => return done,
                }
            }
        };
        let Some(restored) = self.unless_asked(work).await.transpose()? else { return Ok(None) };
        let restored = restored.map_err(Fault::Apart)?;
        for (name, why) in &restored.rejected {
            let what = json!({"event": "manifest_rejected", "step": name.step, "epoch": name.epoch, "why": why});
            let name = format!("e{}-rejected-{}-{}", self.epoch, name.step, name.epoch);
            self.settings.run.event(&name, &what).await?;
        }
        if restored.name.is_none() && !restored.rejected.is_empty() && !self.settings.restart_from_nothing {
            return Err(Fault::NothingVerifies(restored.rejected.len()));
        }
        match (&restored.name, &restored.path) {
            (Some(name), _) => self.talk.say(&format!("restored step {} of epoch {}", name.step, name.epoch)),
            (None, Some(path)) => {
                self.talk.say(&format!("nothing is committed; {} is complete and used", path.display()));
            }
            (None, None) => self.talk.say("nothing to restore: the program starts from nothing"),
        }
        with(&self.pulse, |pulse| pulse.committed = restored.name);
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
