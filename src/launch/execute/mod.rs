//! `lead`: carries a run to its end: performs what the controller wants, the journal first, and tells it what came of it.

mod calls;
mod error;
pub mod leadership;
mod report;
mod warmth;

use std::collections::{BTreeMap, BTreeSet};
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
use crate::controller::events::{Action, End, Event, Order, Report, ResumeState};
pub use crate::execute::error::LeadError;
use crate::execute::leadership::{Granted, Leadership, take};
use crate::journal::{Journal, LogLines};
use crate::ports::launch_error::LaunchError;
use crate::ports::launcher::Launcher;
use crate::ports::machine::MachineId;
use crate::rented;
use crate::spec::{RunSpec, TICK};
use crate::warm;
use gpuplan_runstore::status::Staged;
use gpuplan_runstore::{Run, Stop, StoreError};
use gpuplan_spot::policy::Policy;
use gpuplan_units::{Bytes, Usd};

/// A call to a cloud that takes longer has no clear answer.
const CALL: Duration = Duration::from_mins(1);
/// A program that we end has as long to save as AWS gives it.
pub const NOTICE: Duration = Duration::from_mins(2);
/// The store is told what was paid for so far; nothing waits for it longer.
const TELLING: Duration = Duration::from_secs(5);
/// Between two looks into the run's store, and at most between two words of the clock. Seconds of the run.
const READ: f64 = 10.0;
/// Between two looks at what spot machines cost: as often as the policy decides.
const PRICES: f64 = TICK;
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
    /// Who leads, for people elsewhere.
    pub by: String,
    /// Lead although somebody else does, who is told so before the next call.
    pub take_over: bool,
    pub say: &'a dyn Fn(&str),
    /// Where the run stands, every ten seconds of its time at least.
    pub show: &'a dyn Fn(&Progress),
    pub wish: watch::Receiver<LeaderCommand>,
}

/// For a person who waits.
pub struct Progress {
    pub what: String,
    pub spent: Usd,
    /// Share of the work that is safe; `None`: no checkpoint was seen.
    pub done: Option<f64>,
}

/// A call to a cloud, unless somebody else leads by now.
type Call<'a> = Pin<Box<dyn Future<Output = Result<Event, LeadError>> + Send + 'a>>;

struct Leader<'a, 'b> {
    spec: &'b RunSpec,
    wiring: LeadContext<'a>,
    controller: Controller,
    calls: FuturesUnordered<Call<'a>>,
    wake: f64,
    /// Of this process, as the journal numbers those who lead.
    number: i64,
    /// The same for everybody who has the store.
    leadership: Leadership,
    /// Of each gang that may speak, the highest epoch of the store before it was ordered: what a later one says is said by it, or by one
    /// that was ordered after it. Of a gang that is missing the store has not said it yet, so nobody can tell who speaks in it.
    store_epochs: BTreeMap<u64, u64>,
    /// The last that was ordered.
    gang_epoch: u64,
    /// What the agent last said about data that it fetches.
    staged: Option<Staged>,
    /// Warnings of agents that were passed on.
    told: BTreeSet<String>,
    /// Where machines stand that were heard of.
    cloud_of: BTreeMap<MachineId, String>,
    /// A machine may have come, and written into the store, since it was asked for its highest epoch.
    may_have_reported: bool,
    /// When clouds were asked what spot machines cost.
    priced_at: f64,
    /// The epoch of the store whose first agent was seen to have ended, and when.
    ended_at: Option<(u64, Instant)>,
    /// The machine of the completed run that waits for the next one, and until when at most. Seconds of the run.
    stays: Option<(MachineId, f64)>,
}

/// What is known of the present gang.
enum PollResult {
    /// The store was read, and nothing in it is of this gang.
    Nothing,
    /// The store did not answer.
    Unreadable,
    /// The first agent has ended, and the others are about to.
    Awaited,
    Report(Report),
}

/// Tells the machines of the newest epoch to save and end; false if there never was one.
pub async fn ask_to_stop(store: &Run) -> Result<bool, StoreError> {
    let epoch = store.highest_epoch().await?;
    if epoch > 0 {
        let stop =
            Stop { why: "gpuplan ends this machine".to_owned(), seconds: NOTICE.as_secs_f64(), at: Timestamp::now() };
        store.ask_to_stop(epoch, &stop).await?;
    }
    Ok(epoch > 0)
}

/// Leads the run until it ends; `None` if it was left to run on.
pub async fn lead(spec: &RunSpec, mut wiring: LeadContext<'_>) -> Result<Option<End>, LeadError> {
    let identity = wiring.journal.identity()?;
    let leadership = take(wiring.store, &identity, &wiring.by, wiring.take_over).await?;
    let number = wiring.journal.take_the_lead(&spec.run)?;
    let past = wiring.journal.run(&spec.run)?.map(|kept| kept.past).filter(|past| past.orders > 0);
    let speed = wiring.clock.speed;
    let ledger = wiring.store.ledger().await?.map(|ledger| ledger.of_launch(spec.started_at, speed));
    // What was granted before stays granted, whatever this journal knows.
    let past = past.or_else(|| ledger.as_ref().map(|_| ResumeState::default()));
    let answers = wiring.journal.answers(&spec.run)?;
    let past = past.map(|past| ResumeState { ledger: ledger.map(|ledger| past.settled(ledger, &answers)), ..past });
    let taken_at = wiring.store.lead_taken_at(leadership.number).await?;
    let (clock, is_another) = wiring.clock.anchored(taken_at.filter(|_| spec.stand_in.is_none()));
    if is_another {
        (wiring.say)(
            "warning: the clock of this machine is wrong by more than a minute; the run goes by that of its store",
        );
    }
    wiring.clock = clock.not_before(past.as_ref().map_or(f64::NEG_INFINITY, ResumeState::latest));
    let now = wiring.clock.now();
    let terms = spec.terms(wiring.policy.clone(), leadership.number);
    let controller = match past {
        Some(past) => Controller::resume(terms, past, now),
        None => Controller::new(terms, 0, now),
    };
    leadership.keeps(wiring.store, controller.gang_epoch()).await?;
    let (gang_epoch, calls) = (controller.epoch(), FuturesUnordered::new());
    let mut leader = Leader {
        spec,
        wiring,
        controller,
        calls,
        wake: now,
        number,
        leadership,
        store_epochs: (gang_epoch == 0).then_some((0, 0)).into_iter().collect(),
        gang_epoch,
        cloud_of: BTreeMap::new(),
        may_have_reported: true,
        priced_at: f64::NEG_INFINITY,
        ended_at: None,
        stays: None,
        staged: None,
        told: BTreeSet::new(),
    };
    leader.handle(Event::Clock).await?;
    leader.run_to_end().await
}

impl Leader<'_, '_> {
    async fn run_to_end(&mut self) -> Result<Option<End>, LeadError> {
        let mut read_at = Instant::now();
        while self.controller.end().is_none() {
            self.show();
            let wake = Instant::now() + self.wiring.clock.pause((self.wake - self.wiring.clock.now()).clamp(0.0, READ));
            tokio::select! {
                Some(event) = self.calls.next(), if !self.calls.is_empty() => {
                    let event = event?;
                    // A machine that is gone may have said before that the run is completed.
                    if matches!(event, Event::Listed { .. }) {
                        match self.report().await {
                            // Another list comes after their last words.
                            PollResult::Awaited => continue,
                            PollResult::Report(report) => self.handle(Event::Reported(report)).await?,
                            PollResult::Nothing | PollResult::Unreadable => {}
                        }
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
                        LeaderCommand::Stop => self.stop().await?,
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
            self.wiring.journal.nothing_came(&self.spec.run)?;
            self.keep_warm()?;
            if !is_told {
                let over = self.leadership.is_over(self.wiring.store, self.controller.ledger());
                // Else whoever follows elsewhere has to say that it takes over.
                let _ = tokio::time::timeout(TELLING, over).await;
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
            done: controller.saved(),
        };
        (self.wiring.show)(&standing);
    }

    /// Into the journal, where `stop` may have been called from elsewhere, and into the run's store.
    async fn poll(&mut self) -> Result<(), LeadError> {
        self.ensure_leading()?;
        if self.wiring.journal.has_ended(&self.spec.run)? {
            return self.stop().await;
        }
        let still = tokio::time::timeout(CALL, self.leadership.still_holds(self.wiring.store)).await;
        if matches!(still, Ok(Ok(false))) {
            return Err(LeadError::Followed);
        }
        let now = self.wiring.clock.now();
        if now - self.priced_at >= PRICES {
            self.priced_at = now;
            self.ask_prices();
        }
        match self.report().await {
            PollResult::Report(report) => self.handle(Event::Reported(report)).await,
            PollResult::Nothing => self.handle(Event::Silent).await,
            PollResult::Unreadable => self.handle(Event::Unreadable).await,
            PollResult::Awaited => Ok(()),
        }
    }

    /// What the program has said by now comes first: machines of which nothing was heard yet are ended at once, and one that spoke since the
    /// last look into the store has work to save.
    async fn stop(&mut self) -> Result<(), LeadError> {
        if let PollResult::Report(report) = self.report().await {
            self.handle(Event::Reported(report)).await?;
        }
        self.handle(Event::Stop).await
    }

    async fn handle(&mut self, event: Event) -> Result<(), LeadError> {
        let now = self.wiring.clock.now();
        self.record(&event, now)?;
        self.takes_over(&event).await?;
        for warning in self.wiring.launchers.iter().flat_map(|launcher| launcher.warnings()) {
            (self.wiring.say)(&format!("warning: {warning}"));
        }
        // Else one that was followed would end the machines of its successor.
        self.ensure_leading()?;
        self.completes(&event, now);
        let actions = self.controller.step(now, event);
        let run = &self.spec.run;
        let lines = actions
            .iter()
            .filter_map(|action| if let Action::Say(line) = action { Some(line.as_str()) } else { None })
            .collect();
        let (controller, said) = (&self.controller, LogLines { at: Timestamp::now(), lines });
        self.wiring.journal.keep(run, controller.rentals(), controller.done(), controller.interruptions, &said)?;
        self.wiring.journal.saw(run, self.spec.nodes, Timestamp::now(), &self.controller.take_sightings())?;
        for action in actions {
            match action {
                Action::Create(order) => self.create(*order, now).await?,
                Action::Destroy(machine) => self.destroy(machine),
                Action::Notify => self.notify(),
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
            Event::Listed { machines, .. } => {
                self.may_have_reported |= !machines.is_empty();
                machines
            }
            _ => return Ok(()),
        };
        for machine in machines {
            self.cloud_of.insert(machine.id.clone(), machine.pool.cloud.clone());
            if let Some(offered) = choices().find(|offered| offered.pool == machine.pool) {
                self.wiring.journal.found(&self.spec.run, machine, &offered.choice(), now)?;
            }
        }
        Ok(())
    }

    async fn create(&mut self, order: Order, now: f64) -> Result<(), LeadError> {
        self.ensure_leading()?;
        if let Some(event) = self.prepare_gang(&order).await? {
            self.calls.push(Box::pin(std::future::ready(Ok(event))));
            return Ok(());
        }
        let launcher = self.launcher(&order.choice.pool.cloud)?;
        let number = order.epoch * 1000 + u64::from(order.node);
        if !self.wiring.journal.intend(&self.spec.run, number, &order, now)? {
            // Somebody stopped the run.
            self.calls.push(Box::pin(std::future::ready(Ok(Event::Stop))));
            return Ok(());
        }
        let (spec, store, expires_at) =
            (self.spec.clone(), self.wiring.store, self.wiring.clock.at(now + order.lifetime));
        let leadership = self.leadership.clone();
        self.calls.push(Box::pin(async move {
            // The money first: who finds it granted by another asks for nothing.
            let unclear = |error: StoreError| Err(LaunchError::Unclear { code: error.to_string() });
            match leadership.grant(store, &order.ledger).await {
                Ok(Granted::Now) => {}
                Ok(Granted::Elsewhere(ledger)) => return Ok(Event::Granted(ledger)),
                Ok(Granted::Deposed) => return Err(LeadError::Followed),
                Err(error) => return Ok(Event::Answered { token: order.token, outcome: unclear(error) }),
            }
            let call = async {
                let ordered_by = leadership.orders(order.epoch, spec.started_at);
                if let Some(machine) =
                    warm::take_over(&spec, &order, store, launcher, &ordered_by, expires_at, Timestamp::now()).await?
                {
                    return Ok(machine);
                }
                let boot = boot_script(&spec, &order, store, ordered_by, expires_at).await?;
                launcher.create(request(&spec, &order, leadership.number, expires_at, boot)).await
            };
            let outcome = tokio::time::timeout(CALL, call).await;
            let late = || Err(LaunchError::Unclear { code: format!("no answer within {} s", CALL.as_secs()) });
            Ok(Event::Answered { token: order.token, outcome: outcome.unwrap_or_else(|_| late()) })
        }));
        Ok(())
    }
}
