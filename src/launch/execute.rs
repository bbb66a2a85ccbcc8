//! `lead`: carries a run to its end: performs what the controller wants, the journal first, and tells it what came of it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::boot::request::{boot_script, request};
use crate::clock::Clock;
use crate::controller::Controller;
use crate::controller::events::{Action, End, Event, Order, Outcome, Report};
use crate::journal::{Journal, JournalError, LogLines};
use crate::ports::launch_error::LaunchError;
use crate::ports::launcher::Launcher;
use crate::ports::machine::MachineId;
use crate::rented;
use crate::spec::RunSpec;
use gpuplan_runstore::status::Staged;
use gpuplan_runstore::{Phase, Run, Status, StoreError, SweepStatus};
use gpuplan_spot::policy::Policy;
use gpuplan_units::{Bytes, Usd};

/// A call to a cloud that takes longer has no clear answer.
const CALL: Duration = Duration::from_mins(1);
/// The store is told what was paid for so far; nothing waits for it longer.
const TELLING: Duration = Duration::from_secs(5);
/// Between two looks into the run's store, and at most between two words of the clock. Seconds of the run.
const READ: f64 = 10.0;
/// Agents of a gang end within about a second of the first one, and then send the last that their programs said. Real time.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Why a run is not led any more. Its machines go on until they end themselves.
#[derive(Debug, thiserror::Error)]
pub enum LeadError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("this program cannot rent machines of {0}")]
    NoLauncher(String),
    /// It was told to go on elsewhere, after a stop or beside this process.
    #[error("another process is leading this run now")]
    Followed,
}

/// What a person wants of a run that is being led.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderCommand {
    #[default]
    GoOn,
    /// End every machine, then return.
    Stop,
    /// Return at once; what runs goes on.
    Leave,
}

/// Everything outside that leading a run needs.
pub struct LeadContext<'a> {
    pub launchers: &'a [Box<dyn Launcher>],
    pub journal: &'a mut Journal,
    pub store: &'a Run,
    /// Of `RunSpec::policy`.
    pub policy: Policy,
    pub clock: Clock,
    pub say: &'a dyn Fn(&str),
    /// Where the run stands, every ten seconds of its time at least.
    pub show: &'a dyn Fn(&Progress),
    pub wish: watch::Receiver<LeaderCommand>,
}

/// For a person who waits.
pub struct Progress {
    pub what: String,
    pub spent: Usd,
    /// Share of the work that is safe.
    pub done: f64,
}

type Call<'a> = Pin<Box<dyn Future<Output = Event> + Send + 'a>>;

struct Leader<'a, 'b> {
    spec: &'b RunSpec,
    wiring: LeadContext<'a>,
    controller: Controller,
    calls: FuturesUnordered<Call<'a>>,
    wake: f64,
    /// Of this process, as the journal numbers those who lead.
    number: i64,
    /// The highest epoch of the store before the gang was ordered: what a later one says is said by the gang. `None`: the store has not
    /// said it yet, so nobody can tell who speaks in it.
    store_epoch: Option<u64>,
    gang_epoch: u64,
    /// What the agent last said about data that it fetches.
    staged: Option<Staged>,
    /// A machine may have come, and written into the store, since it was asked for its highest epoch.
    may_have_reported: bool,
    /// When the first agent of the gang was seen to have ended.
    ended_at: Option<Instant>,
}

/// What is known of the present gang.
enum PollResult {
    Nothing,
    /// The first agent has ended, and the others are about to.
    Awaited,
    Report(Report),
}

/// Leads the run until it ends; `None` if it was left to run on.
pub async fn lead(spec: &RunSpec, wiring: LeadContext<'_>) -> Result<Option<End>, LeadError> {
    let now = wiring.clock.now();
    let number = wiring.journal.take_the_lead(&spec.run)?;
    let kept = wiring.journal.run(&spec.run)?;
    let terms = spec.terms(wiring.policy.clone());
    let controller = match kept.map(|kept| kept.past).filter(|past| past.orders > 0) {
        Some(past) => Controller::resume(terms, past, now),
        None => Controller::new(terms, 0, now),
    };
    let (gang_epoch, calls) = (controller.epoch(), FuturesUnordered::new());
    let mut leader = Leader {
        spec,
        wiring,
        controller,
        calls,
        wake: now,
        number,
        store_epoch: (gang_epoch == 0).then_some(0),
        gang_epoch,
        may_have_reported: true,
        ended_at: None,
        staged: None,
    };
    leader.handle(Event::Clock).await?;
    leader.run_to_end().await
}

impl<'a> Leader<'a, '_> {
    async fn run_to_end(&mut self) -> Result<Option<End>, LeadError> {
        let mut read_at = Instant::now();
        while self.controller.end().is_none() {
            self.show();
            let wake = Instant::now() + self.wiring.clock.pause((self.wake - self.wiring.clock.now()).clamp(0.0, READ));
            tokio::select! {
                Some(event) = self.calls.next(), if !self.calls.is_empty() => {
                    // A machine that is gone may have said before that the run is completed.
                    let word = if matches!(event, Event::Listed(_)) { self.report().await } else { PollResult::Nothing };
                    match word {
                        // Another list comes after their last words.
                        PollResult::Awaited => continue,
                        PollResult::Report(report) => self.handle(Event::Reported(report)).await?,
                        PollResult::Nothing => {}
                    }
                    self.handle(event).await?;
                }
                () = tokio::time::sleep_until(wake.min(read_at)) => {
                    if Instant::now() >= read_at {
                        read_at = Instant::now() + self.wiring.clock.pause(READ);
                        self.poll().await?;
                    }
                    if self.controller.end().is_none() && self.wiring.clock.now() >= self.wake {
                        self.handle(Event::Clock).await?;
                    }
                }
                Ok(()) = self.wiring.wish.changed() => {
                    let wish = *self.wiring.wish.borrow_and_update();
                    match wish {
                        LeaderCommand::Leave => return Ok(None),
                        LeaderCommand::Stop => self.handle(Event::Stop).await?,
                        LeaderCommand::GoOn => {}
                    }
                }
            }
        }
        let end = self.controller.end().cloned();
        if let Some(end) = &end {
            // Who ended it from elsewhere tells, and may delete the store at once.
            let is_told = self.wiring.journal.has_ended(&self.spec.run)?;
            if !self.wiring.journal.end_as_leader(&self.spec.run, self.number, end, Timestamp::now())? {
                return Err(LeadError::Followed);
            }
            if !is_told {
                self.write_rented().await?;
            }
        }
        Ok(end)
    }

    /// What was paid for so far, into the run's store. That it cannot be told ends no run: `costs` takes what the agents wrote.
    async fn write_rented(&self) -> Result<(), LeadError> {
        let Some(kept) = self.wiring.journal.run(&self.spec.run)? else { return Ok(()) };
        let all = rented::all(&kept, &self.wiring.clock);
        let told = tokio::time::timeout(TELLING, self.wiring.store.write_rented(all)).await;
        if !matches!(told, Ok(Ok(()))) {
            (self.wiring.say)(
                "warning: what the machines cost is not in the store; `gpuplan costs` knows what their agents wrote",
            );
        }
        Ok(())
    }

    /// Of two who lead one run the later goes on.
    fn ensure_leading(&self) -> Result<(), LeadError> {
        let leader = self.wiring.journal.leader(&self.spec.run)?;
        if leader == Some(self.number) { Ok(()) } else { Err(LeadError::Followed) }
    }

    fn show(&self) {
        let (now, controller) = (self.wiring.clock.now(), &self.controller);
        let staged = self.staged.map_or_else(String::new, |staged| {
            format!(", fetching data: {} of {}", Bytes(staged.bytes as f64), Bytes(staged.of_bytes as f64))
        });
        let standing = Progress {
            what: controller.standing(now) + &staged,
            spent: controller.rentals().spent(now),
            done: controller.done(),
        };
        (self.wiring.show)(&standing);
    }

    /// Into the journal, where `stop` may have been called from elsewhere, and into the run's store.
    async fn poll(&mut self) -> Result<(), LeadError> {
        self.ensure_leading()?;
        if self.wiring.journal.has_ended(&self.spec.run)? {
            return self.handle(Event::Stop).await;
        }
        match self.report().await {
            PollResult::Report(report) => self.handle(Event::Reported(report)).await,
            PollResult::Awaited | PollResult::Nothing => Ok(()),
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), LeadError> {
        let now = self.wiring.clock.now();
        self.record(&event, now)?;
        // Else one that was followed would end the machines of its successor.
        self.ensure_leading()?;
        let actions = self.controller.step(now, event);
        let run = &self.spec.run;
        let lines = actions
            .iter()
            .filter_map(|action| if let Action::Say(line) = action { Some(line.as_str()) } else { None })
            .collect();
        let (controller, said) = (&self.controller, LogLines { at: Timestamp::now(), lines });
        self.wiring.journal.keep(run, controller.rentals(), controller.done(), controller.interruptions, &said)?;
        for action in actions {
            match action {
                Action::Create(order) => self.create(order, now).await?,
                Action::Destroy(machine) => self.destroy(machine),
                Action::List => self.list(),
                Action::Wake(at) => self.wake = at,
                Action::Say(line) => (self.wiring.say)(&line),
            }
        }
        Ok(())
    }

    /// Before the controller hears it, so that no machine is ever known to it alone.
    fn record(&mut self, event: &Event, now: f64) -> Result<(), LeadError> {
        let choices = || self.spec.spot.iter().chain(&self.spec.on_demand);
        let machines = match event {
            Event::Answered { token, outcome: Ok(machine) } => {
                self.wiring.journal.answer(token, &machine.id.0, true)?;
                self.may_have_reported = true;
                std::slice::from_ref(machine)
            }
            Event::Answered { token, outcome: Err(error) } => {
                let is_clear = !matches!(error, LaunchError::Unclear { .. });
                self.wiring.journal.answer(token, &error.to_string(), is_clear)?;
                self.may_have_reported |= !is_clear;
                return Ok(());
            }
            Event::Listed(machines) => {
                self.may_have_reported |= !machines.is_empty();
                machines.as_slice()
            }
            _ => return Ok(()),
        };
        for machine in machines {
            if let Some(offered) = choices().find(|offered| offered.pool == machine.pool) {
                self.wiring.journal.found(&self.spec.run, machine, &offered.choice(), now)?;
            }
        }
        Ok(())
    }

    fn launcher(&self, cloud: &str) -> Result<&'a dyn Launcher, LeadError> {
        let wanted = self.spec.rented_from(cloud);
        let launchers: &'a [Box<dyn Launcher>] = self.wiring.launchers;
        let found = launchers.iter().find(|launcher| launcher.cloud() == wanted);
        found.map(|launcher| &**launcher).ok_or_else(|| LeadError::NoLauncher(wanted.to_owned()))
    }

    async fn create(&mut self, order: Order, now: f64) -> Result<(), LeadError> {
        self.ensure_leading()?;
        if order.epoch != self.gang_epoch {
            // A place that refuses costs one call, its own.
            if self.may_have_reported {
                match self.wiring.store.highest_epoch().await {
                    Ok(highest) => self.store_epoch = Some(highest),
                    // Words of the last gang would be taken for those of this one: nothing is asked of the cloud, and the same order is
                    // tried again.
                    Err(error) => {
                        let outcome = Err(LaunchError::Unclear { code: error.to_string() });
                        self.calls.push(Box::pin(std::future::ready(Event::Answered { token: order.token, outcome })));
                        return Ok(());
                    }
                }
                self.may_have_reported = false;
                if order.epoch > 1 {
                    self.write_rented().await?;
                }
            }
            (self.gang_epoch, self.ended_at) = (order.epoch, None);
        }
        let launcher = self.launcher(&order.choice.pool.cloud)?;
        self.wiring.journal.intend(&self.spec.run, order.epoch * 1000 + u64::from(order.node), &order, now)?;
        let (spec, store, expires_at) =
            (self.spec.clone(), self.wiring.store, self.wiring.clock.at(now + order.lifetime));
        self.calls.push(Box::pin(async move {
            let call = async {
                let boot = boot_script(&spec, &order, store).await?;
                launcher.create(request(&spec, &order, expires_at, boot)).await
            };
            let outcome = tokio::time::timeout(CALL, call).await;
            let late = || Err(LaunchError::Unclear { code: format!("no answer within {} s", CALL.as_secs()) });
            Event::Answered { token: order.token, outcome: outcome.unwrap_or_else(|_| late()) }
        }));
        Ok(())
    }

    fn destroy(&mut self, machine: MachineId) {
        for launcher in self.responsible() {
            let id = machine.clone();
            self.calls.push(Box::pin(async move {
                match tokio::time::timeout(CALL, launcher.destroy(&id)).await {
                    Ok(Ok(())) => Event::Destroyed(id),
                    // The controller asks again until it is gone.
                    _ => Event::Clock,
                }
            }));
        }
    }

    fn list(&mut self) {
        let run = self.spec.run.clone();
        for launcher in self.responsible() {
            let run = run.clone();
            self.calls.push(Box::pin(async move {
                match tokio::time::timeout(CALL, launcher.list(Some(&run))).await {
                    Ok(Ok(machines)) => Event::Listed(machines),
                    _ => Event::Clock,
                }
            }));
        }
    }

    /// The clouds of this run.
    fn responsible(&self) -> Vec<&'a dyn Launcher> {
        let launchers: &'a [Box<dyn Launcher>] = self.wiring.launchers;
        let used = self.spec.clouds();
        launchers.iter().map(|launcher| &**launcher).filter(|launcher| used.contains(launcher.cloud())).collect()
    }

    /// What the agent of the present gang says in the store; a store that does not answer says nothing.
    async fn report(&mut self) -> PollResult {
        let Ok(Some(status)) = self.wiring.store.status(0).await else { return PollResult::Nothing };
        if self.store_epoch.is_none() {
            // A gang that was there when this process took the lead is the last that claimed the run.
            self.store_epoch = self.wiring.store.highest_epoch().await.ok().map(|highest| highest.saturating_sub(1));
        }
        if self.store_epoch.is_none_or(|before| status.epoch <= before) {
            return PollResult::Nothing;
        }
        let Ok(outcome) = self.outcome(&status).await else { return PollResult::Nothing };
        if outcome.is_some() && self.others_still_report(status.epoch).await {
            return PollResult::Awaited;
        }
        self.staged = status.staged.filter(|_| status.phase == Phase::Staging);
        let Ok(done) = self.done(&status).await else { return PollResult::Nothing };
        PollResult::Report(Report {
            epoch: self.gang_epoch,
            done,
            has_started: status.starts > 0 || status.phase == Phase::Staging,
            outcome,
        })
    }

    /// Share of the work that is safe: of the run, or of all runs of the sweep.
    async fn done(&self, status: &Status) -> Result<f64, StoreError> {
        if self.spec.job.sweep.is_some() {
            return Ok(self.wiring.store.sweep_status().await?.map_or(0.0, |sweep| sweep.done(self.spec.steps)));
        }
        let step = status.committed.map(|name| name.step).unwrap_or_default() as f64;
        Ok((step / self.spec.steps.max(1.0)).min(1.0))
    }

    /// Why the program failed, where it carried a sweep: which runs did.
    async fn failed_runs(&self) -> Result<Option<String>, StoreError> {
        let status = if self.spec.job.sweep.is_some() { self.wiring.store.sweep_status().await? } else { None };
        let failed: Vec<String> = status.iter().flat_map(SweepStatus::failed).map(|run| run.run.clone()).collect();
        Ok((!failed.is_empty()).then(|| format!("{} runs of the sweep: {}", failed.len(), failed.join(", "))))
    }

    /// Whether what the programs of other machines said last may be under way, once the first agent has ended.
    async fn others_still_report(&mut self, epoch: u64) -> bool {
        if self.ended_at.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS {
            return false;
        }
        for node in 1..self.spec.nodes {
            let status = self.wiring.store.status(node).await.ok().flatten();
            if !status.is_some_and(|status| status.epoch == epoch && status.phase == Phase::Ended) {
                return true;
            }
        }
        false
    }

    async fn outcome(&self, status: &Status) -> Result<Option<Outcome>, StoreError> {
        if status.phase != Phase::Ended {
            return Ok(None);
        }
        if status.is_done == Some(true) {
            return Ok(Some(Outcome::Completed));
        }
        // An agent that ended without a word about how left work to do.
        let result = self.wiring.store.result().await?.unwrap_or_default();
        Ok(Some(match result.get("outcome") {
            Some(serde_json::Value::String(outcome)) if outcome == "unprepared" => Outcome::Failed(
                result.get("why").and_then(serde_json::Value::as_str).unwrap_or("its data cannot be had").to_owned(),
            ),
            Some(serde_json::Value::Object(failed)) => {
                let runs = self.failed_runs().await?;
                Outcome::Failed(runs.unwrap_or_else(|| serde_json::Value::Object(failed.clone()).to_string()))
            }
            _ if self.failed_elsewhere(status.epoch).await? => {
                Outcome::Failed("on another machine than the first".to_owned())
            }
            _ => Outcome::Interrupted,
        }))
    }

    /// Whether the program of a machine failed, which ended those of all.
    async fn failed_elsewhere(&self, epoch: u64) -> Result<bool, StoreError> {
        for node in 1..self.spec.nodes {
            if self.wiring.store.leaving(epoch, node).await?.is_some_and(|leaving| leaving.is_failure) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
