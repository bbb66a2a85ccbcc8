//! `Controller`: one run as a pure state machine. Answers, reports and the clock go in, calls to make come out.
//!
//! It rents gangs of machines, one epoch after the other: all machines of a gang or none. What to rent is said by `spot::policy::decide`, the
//! rule that plans and replays run, and it sees what they see: an attempt is the probe. A gang that runs is left only once the next one is
//! there and it has saved; else never a second gang before every machine of the first is known to be gone.

mod beside;
pub mod events;
mod fruitless;
mod listing;
pub mod liveness;
mod money;
mod orders;
mod phase;
mod prices;
mod refusals;
pub mod rental;
mod resuming;
mod sighted;
mod standing;

use crate::controller::events::{Action, End, Event, Outcome, Report, Terms};
use crate::controller::phase::{Beside, Gang, Leaving, Next, Phase, Which};
use crate::controller::refusals::Refusals;
use crate::controller::rental::Rentals;
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{MachineId, Pool};
use gpuplan_runstore::Ledger;
use gpuplan_spot::history::Saw;
use gpuplan_spot::policy::reason::Reason;
use gpuplan_spot::policy::{self, Observation, PoolView, State};
use gpuplan_spot::watch::{FIRST_PAUSE as FIRST_ATTEMPT_PAUSE, Watch};

/// Pauses between repeats of a call without a clear answer, doubled each time. Seconds.
const FIRST_PAUSE: f64 = 5.0;
/// Of the time in which a call settles: a list may miss what was created less than this before. When that was, only the cloud
/// knows: an answer may come long after its order, and the machine was created at any time between.
const LISTS_ARE_LATE: f64 = 0.5;
/// Between two looks at what the cloud says of the machines. Seconds.
const LOOK: f64 = 30.0;
/// Silences after which machines that look alive are taken for dead.
const SILENCES: f64 = 3.0;
/// Silences within which a gang that has its notice saves and ends.
const LEAVES: f64 = 2.0;
/// Of a silence: what counts at most between two looks into the store. Who looked less often was not watching.
const LONGEST_STEP: f64 = 1.0 / 3.0;

#[derive(Clone, Debug)]
pub struct Controller {
    terms: Terms,
    phase: Phase,
    /// Only while a gang runs, or is being ended for this one.
    beside: Option<Beside>,
    watch: Watch,
    /// Up to then it knows that time has passed. Seconds of the run.
    watched_at: f64,
    refusals: Refusals,
    rentals: Rentals,
    ledger: Ledger,
    epoch: u64,
    orders: u64,
    done: f64,
    /// A checkpoint was seen, however far it got.
    has_saved: bool,
    last_pool: Option<usize>,
    /// An order may have left a machine that no list shows before then.
    unclear_until: f64,
    /// When the youngest machine was first heard of: it was created no later.
    heard_of: f64,
    pub interruptions: u32,
    last_refusal: Option<(Pool, LaunchError)>,
    /// Of spot pools, not yet told.
    sightings: Vec<(Pool, Saw)>,
}

impl Controller {
    /// `epoch` is the highest that the run has had; 0 for a new one.
    pub fn new(terms: Terms, epoch: u64, now: f64) -> Self {
        let mut watch = Watch::attempts(terms.spot.len(), terms.limits.tick, FIRST_ATTEMPT_PAUSE);
        watch.advance(None, |_| true);
        Self {
            watch,
            watched_at: now,
            beside: None,
            phase: Phase::Choosing { from: now },
            refusals: Refusals::default(),
            rentals: Rentals::default(),
            ledger: Ledger::new(terms.launch.moment()),
            epoch,
            orders: 0,
            done: 0.0,
            has_saved: false,
            last_pool: None,
            unclear_until: f64::NEG_INFINITY,
            heard_of: f64::NEG_INFINITY,
            interruptions: 0,
            last_refusal: None,
            sightings: Vec::new(),
            terms,
        }
    }

    pub fn end(&self) -> Option<&End> {
        if let Phase::Ended(end) = &self.phase { Some(end) } else { None }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Of the gang that runs.
    pub fn gang_epoch(&self) -> Option<u64> {
        if let Phase::Running { gang, .. } = &self.phase { Some(gang.epoch) } else { None }
    }

    /// The machines that run, and when the first of them ends itself. Seconds of the run.
    pub fn running(&self) -> Option<(&[MachineId], f64)> {
        if let Phase::Running { gang, .. } = &self.phase { Some((&gang.machines, gang.ends_at)) } else { None }
    }

    fn refused(&self) -> End {
        match &self.last_refusal {
            Some((pool, refusal)) => End::Refused { refusal: refusal.clone(), place: pool.to_string() },
            // Nothing was asked yet: every place is blocked from before.
            None => End::Refused {
                refusal: LaunchError::Capacity { code: "no place is left".to_owned() },
                place: "everywhere".to_owned(),
            },
        }
    }

    pub fn rentals(&self) -> &Rentals {
        &self.rentals
    }

    /// Takes one event and says what to do. Times are seconds since the run began; they never go back.
    pub fn step(&mut self, now: f64, event: Event) -> Vec<Action> {
        let (mut actions, before) = (Vec::new(), self.on_spot());
        match event {
            Event::Clock => {}
            Event::Answered { token, outcome } => self.answered(now, &token, outcome, &mut actions),
            Event::Listed { machines, asked_at } => self.listed(now, asked_at, &machines, &mut actions),
            Event::Destroyed(machine) => self.is_gone(&machine, now),
            Event::Reported(report) => self.reported(now, report, &mut actions),
            Event::Silent => {
                if let Phase::Running { liveness, .. } = &mut self.phase {
                    liveness.saw(now, None, self.terms.silence * LONGEST_STEP);
                }
            }
            Event::Unreadable => {
                if let Phase::Running { liveness, .. } = &mut self.phase {
                    liveness.is_not_seen();
                }
            }
            Event::Granted(ledger) => self.granted_elsewhere(now, ledger, &mut actions),
            // Whatever is decided next goes by it; nothing is decided for its sake.
            Event::Priced(prices) => {
                self.priced(now, &prices);
                return actions;
            }
            Event::Stop => {
                let leaves = matches!(&self.phase, Phase::Running { leaving: Some(leaving), .. } if matches!(leaving.next, Next::End(_)));
                if !leaves && !self.is_ending() {
                    self.leave(now, Next::End(End::Stopped), &mut actions);
                }
            }
        }
        self.advance(now, &mut actions);
        self.has_run(before);
        actions
    }

    /// How the run ends is settled.
    fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ended(_) | Phase::Ending { next: Next::End(_), .. })
    }

    fn advance(&mut self, now: f64, actions: &mut Vec<Action>) {
        match &self.phase {
            Phase::Choosing { from } if now >= *from => self.choose(now, actions),
            Phase::Choosing { from } => actions.push(Action::Wake(*from)),
            Phase::Creating { .. } => self.create(now, actions),
            Phase::Running { .. } => {
                self.run(now, actions);
                self.create_beside(now, actions);
            }
            Phase::Ending { until, .. } => self.finish(now, *until, actions),
            Phase::Ended(_) => {}
        }
    }

    /// Asks the policy, and orders the first machine of a gang.
    fn choose(&mut self, now: f64, actions: &mut Vec<Action>) {
        self.pass(now);
        let mut decision = self.decide(now, policy::Action::Idle, (0.0, 0.0));
        if decision.action == policy::Action::Idle && self.refusals.are_for_good(&self.terms.spot, now) {
            // Nobody waits for spot that will never come.
            decision = self.afford(
                now,
                policy::Decision { action: self.terms.limits.cheapest_on_demand(), reason: Reason::NoTimeToWait },
            );
        }
        let which = match decision.action {
            policy::Action::Spot(pool) => Some(Which::Spot(pool)),
            policy::Action::OnDemand(_) => self.free_on_demand(now).map(Which::OnDemand),
            policy::Action::Idle => None,
        };
        match which.map(|which| self.first_place(which)) {
            Some(which) => self.order_gang(now, which, decision.reason, actions),
            None if decision.reason == Reason::BudgetReached => self.end_all(now, Next::End(End::OutOfBudget), actions),
            // On-demand was to be taken, whatever for, and no place has it now.
            None if decision.action.is_on_demand() => self.wait(now, Reason::SoldOut, actions),
            None => self.wait(now, decision.reason, actions),
        }
    }

    fn free_on_demand(&self, now: f64) -> Option<usize> {
        (0..self.terms.on_demand.len())
            .find(|choice| self.refusals.until(&self.terms.on_demand[*choice].pool, now).is_none())
    }

    /// Waits for the next tick; where nothing will ever be free again, the run ends.
    fn wait(&mut self, now: f64, reason: Reason, actions: &mut Vec<Action>) {
        if self.refusals.are_for_good(&self.terms.spot, now) && self.refusals.are_for_good(&self.terms.on_demand, now) {
            return self.end_all(now, Next::End(self.refused()), actions);
        }
        let from = now + self.terms.limits.tick;
        actions.push(Action::List);
        actions.push(Action::Say(format!("waiting: {reason}")));
        actions.push(Action::Wake(from));
        self.phase = Phase::Choosing { from };
    }

    /// What is known gets older, in whole ticks.
    fn pass(&mut self, now: f64) {
        let running = match &self.phase {
            Phase::Running { gang: Gang { which: Which::Spot(pool), .. }, .. } => Some(*pool),
            _ => None,
        };
        while now - self.watched_at >= self.terms.limits.tick - 1e-6 {
            self.watched_at += self.terms.limits.tick;
            self.watch.advance(running, |_| true);
        }
    }

    /// Expected time to start there, and at worst.
    fn changeover(&self, which: Which) -> (f64, f64) {
        let (limits, action) = (&self.terms.limits, which.action(&self.terms));
        (limits.changeover_to(action, self.last_pool), limits.worst_changeover_to(action, self.last_pool))
    }

    /// `pending`: what is left of the changeover under way, and at worst.
    fn decide(&self, now: f64, running: policy::Action, pending: (f64, f64)) -> policy::Decision {
        let limits = &self.terms.limits;
        let state = State {
            elapsed: now,
            left: limits.work * (1.0 - self.done),
            spent: self.ledger.spent(now),
            running,
            last_pool: self.last_pool,
            pending: pending.0,
            pending_worst: pending.1,
        };
        let is_free = |pool: usize| self.refusals.until(&self.terms.spot[pool].pool, now).is_none();
        let pools: Vec<PoolView> = (self.watch.views().iter().enumerate())
            .map(|(pool, view)| PoolView { up: view.up && is_free(pool), ..*view })
            .collect();
        let seen = Observation { pools: &pools, on_demand: self.free_on_demand(now).is_some() };
        policy::decide(&self.terms.policy, &state, &seen, limits)
    }

    fn afford(&self, now: f64, wish: policy::Decision) -> policy::Decision {
        let state = State { spent: self.ledger.spent(now), last_pool: self.last_pool, ..State::default() };
        policy::within_budget(wish, &state, &self.terms.limits)
    }

    /// Whichever gang did it, and whether or not anybody knew of it: nothing more is rented, and no money was missing.
    fn is_completed(&mut self, now: f64, actions: &mut Vec<Action>) {
        let settled = [Next::End(End::Completed), Next::End(End::Stopped)];
        if self.end().is_none() && !matches!(&self.phase, Phase::Ending { next, .. } if settled.contains(next)) {
            self.done = 1.0;
            self.end_all(now, Next::End(End::Completed), actions);
        }
    }

    fn reported(&mut self, now: f64, report: Report, actions: &mut Vec<Action>) {
        if report.outcome == Some(Outcome::Completed) {
            return self.is_completed(now, actions);
        }
        let Phase::Running { gang, liveness, is_working, has_spoken, has_started, leaving, .. } = &mut self.phase
        else {
            return;
        };
        // What another gang said last, as the one before it does for ever, says nothing of this one.
        if report.epoch != gang.epoch {
            liveness.saw(now, None, self.terms.silence * LONGEST_STEP);
            return;
        }
        *has_spoken = true;
        *has_started |= report.has_started;
        self.has_saved |= report.has_saved;
        let was_heard = liveness.has_spoken();
        let is_news = liveness.saw(now, Some(report.sign), self.terms.silence * LONGEST_STEP);
        // A first machine that waits for the others says so for ever, and all of them cost money.
        if is_news && (report.has_started || self.terms.nodes == 1) {
            liveness.lives();
        }
        *is_working |= report.done > self.done;
        self.done = self.done.max(report.done.clamp(0.0, 1.0));
        if gang.done_before.is_some_and(|before| self.done > before) {
            self.ledger.fruitless = 0;
        }
        let Some(outcome) = report.outcome else {
            // The gang that whoever led before had ordered beside it is not needed.
            if was_heard && is_news && leaving.is_none() {
                self.end_whole_beside(actions);
            }
            return;
        };
        let (gang, leaves_for) = (gang.clone(), leaving.as_ref().map(|leaving| leaving.next.clone()));
        match (outcome, leaves_for) {
            (Outcome::Completed, _) => {}
            // It has saved what it could, and ended as it was told.
            (_, Some(next)) => self.end_all(now, next, actions),
            (Outcome::Interrupted, None) => self.taken(now, &gang, &format!("interrupted, {}", self.kept()), actions),
            (Outcome::CapReached, None) => {
                self.has_lived(now, &gang, &format!("its lease ends, and {}", self.kept()), actions);
            }
            // One agent alone has started its program again; those of several machines leave that to us.
            (Outcome::Failed(why), None) if self.terms.nodes > 1 => {
                self.came_to_nothing(now, &gang, "its program failed", &why, actions);
            }
            (Outcome::Failed(why) | Outcome::GivenUp(why), None) => {
                self.end_all(now, Next::End(End::Failed(why)), actions);
            }
        }
    }

    pub(super) fn lost(&mut self, now: f64, gang: &Gang, why: &str, actions: &mut Vec<Action>) {
        if matches!(&self.phase, Phase::Running { leaving: None, .. }) {
            self.interruptions += 1;
            if let Which::Spot(pool) = gang.which {
                self.pass(now);
                self.watch.refused(pool);
            }
        }
        self.is_over(now, gang, why, actions);
    }

    /// A gang is no more, and the run goes on. That the life which it was granted is over says nothing of its place.
    pub(super) fn is_over(&mut self, now: f64, gang: &Gang, why: &str, actions: &mut Vec<Action>) {
        if let Phase::Running { leaving: Some(leaving), .. } = &self.phase {
            let next = leaving.next.clone();
            return self.end_all(now, next, actions);
        }
        actions.push(Action::Say(format!("{}: {why}", self.choice(gang.which).pool)));
        // Machines that were asked for beside it are wanted all the more, whether by this leader or by whoever led before.
        if let Some(Beside { gang, open: Some(open) }) = self.beside.clone() {
            actions.extend(self.leftover().into_iter().map(Action::Destroy));
            (self.beside, self.phase) = (None, Phase::Creating { gang, open });
            actions.push(Action::Wake(now));
            return;
        }
        self.end_all(now, Next::Take, actions);
    }

    fn run(&mut self, now: f64, actions: &mut Vec<Action>) {
        let (tick, silence) = (self.terms.limits.tick, self.terms.silence);
        let Phase::Running { gang, liveness, looked_at, decided_at, is_working, leaving, .. } = &mut self.phase else {
            return;
        };
        if let Some(Leaving { since, next }) = leaving.as_ref().filter(|leaving| now - leaving.since > LEAVES * silence)
        {
            let (since, next) = (*since, next.clone());
            actions.push(Action::Say(format!("it has not ended within {:.0} s of its notice", now - since)));
            return self.end_all(now, next, actions);
        }
        let is_leaving = leaving.is_some();
        let (silent, is_blind, working) = (liveness.silent(), liveness.is_blind(), *is_working);
        // A machine that boots says nothing yet.
        let patience =
            if working { SILENCES * silence } else { (SILENCES * silence).max(self.terms.limits.worst_changeover) };
        if !is_blind && silent > patience {
            let (gang, why) = (gang.clone(), format!("{patience:.0} s without a word of a program that runs"));
            return self.came_to_nothing(now, &gang, "nothing was heard for too long", &why, actions);
        }
        if now - *looked_at >= LOOK {
            *looked_at = now;
            actions.push(Action::List);
        }
        let next_look = *looked_at + LOOK;
        // Its own timer, and if that does not go, we. Who comes late first reads in the store how the run stands: it may be completed.
        if !is_blind && now >= gang.ends_at {
            let gang = gang.clone();
            return self.has_lived(now, &gang, "its lease has ended", actions);
        }
        if now - *decided_at >= tick && !is_leaving && self.beside.is_none() {
            *decided_at = now;
            self.pass(now);
            self.reconsider(now, actions);
        }
        actions.push(Action::Wake(next_look));
    }

    /// Lets the program save first, where there is one that can hear of it.
    fn leave(&mut self, now: f64, next: Next, actions: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Running { has_spoken: true, leaving, .. } => {
                *leaving = Some(Leaving { since: now, next });
                actions.push(Action::Notify);
                actions.push(Action::Wake(now + FIRST_PAUSE));
            }
            _ => self.end_all(now, next, actions),
        }
    }

    /// Ends every machine that may cost money, and then goes on.
    pub(super) fn end_all(&mut self, now: f64, next: Next, actions: &mut Vec<Action>) {
        // The answer is still under way.
        let is_open = matches!(self.phase, Phase::Creating { .. })
            || self.beside.as_ref().is_some_and(|beside| beside.open.is_some());
        if is_open {
            self.unclear_until = self.unclear_until.max(now + self.terms.settles);
        }
        let next = if next == Next::Take && self.beside.as_ref().is_none_or(|beside| beside.open.is_some()) {
            Next::Choose
        } else {
            next
        };
        if next != Next::Take {
            self.beside = None;
        }
        actions.extend(self.leftover().into_iter().map(Action::Destroy));
        self.phase =
            Phase::Ending { until: if next == Next::Take { now } else { self.unclear_until }, looked_at: now, next };
        // To see whether that is already all.
        actions.push(Action::Wake(now));
    }

    /// Machines that may cost money, but for those of a gang that takes over.
    fn leftover(&self) -> Vec<MachineId> {
        let stays =
            |machine: &MachineId| self.beside.as_ref().is_some_and(|beside| beside.gang.machines.contains(machine));
        self.rentals.open().map(|rental| rental.machine.clone()).filter(|machine| !stays(machine)).collect()
    }

    fn finish(&mut self, now: f64, until: f64, actions: &mut Vec<Action>) {
        let still = self.leftover();
        let Phase::Ending { looked_at, next, .. } = &mut self.phase else { return };
        if still.is_empty() && now >= until {
            let next = next.clone();
            if now >= self.unclear_until {
                self.ledger.void_unheard(None);
            }
            match next {
                Next::Take => self.take(now, actions),
                Next::Choose => {
                    self.phase = Phase::Choosing { from: now };
                    self.choose(now, actions);
                }
                Next::End(end) => self.phase = Phase::Ended(end),
            }
            return;
        }
        if now - *looked_at >= FIRST_PAUSE {
            *looked_at = now;
            actions.extend(still.into_iter().map(Action::Destroy));
            actions.push(Action::List);
        }
        actions.push(Action::Wake(now + FIRST_PAUSE));
    }
}
