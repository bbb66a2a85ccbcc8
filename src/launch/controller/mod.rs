//! `Controller`: one run as a pure state machine. Answers, reports and the clock go in, calls to make come out.
//!
//! It rents gangs of machines, one epoch after the other: all machines of a gang or none, never a second gang before every
//! machine of the first is known to be gone. What to rent is said by `spot::policy::decide`, the rule that plans and replays run.

pub mod events;
pub mod liveness;
mod money;
mod orders;
mod phase;
mod refusals;
pub mod rental;
mod standing;

use crate::controller::events::{Action, End, Event, Outcome, Report, ResumeState, Terms};
use crate::controller::liveness::Liveness;
use crate::controller::phase::{Gang, Leaving, Next, Phase, Which};
use crate::controller::refusals::Refusals;
use crate::controller::rental::{Rental, Rentals};
use crate::ports::launch_error::LaunchError;
use crate::ports::machine::{Machine, MachineId, MachineState, Pool};
use gpuplan_runstore::Ledger;
use gpuplan_spot::policy::reason::Reason;
use gpuplan_spot::policy::{self, Observation, State};
use gpuplan_spot::watch::Watch;

/// Pauses between repeats of a call without a clear answer, doubled each time. Seconds.
const FIRST_PAUSE: f64 = 5.0;
/// Of the time in which a call settles: a list may miss what was created less than this before. When that was, only the cloud
/// knows: an answer may come long after its order, and the machine was created at any time between.
const LISTS_ARE_LATE: f64 = 0.5;
/// Between two looks at what the cloud says of the machines. Seconds.
const LOOK: f64 = 30.0;
/// Gangs in a row that may end by themselves and leave the run no further.
const MOST_FRUITLESS: u32 = 3;
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
    watch: Watch,
    refusals: Refusals,
    rentals: Rentals,
    ledger: Ledger,
    epoch: u64,
    orders: u64,
    done: f64,
    last_pool: Option<usize>,
    /// An order may have left a machine that no list shows before then.
    unclear_until: f64,
    /// When the youngest machine was first heard of: it was created no later.
    heard_of: f64,
    pub interruptions: u32,
    last_refusal: Option<(Pool, LaunchError)>,
    /// Gangs in a row that ended by themselves and left the run no further.
    fruitless: u32,
}

impl Controller {
    /// `epoch` is the highest that the run has had; 0 for a new one.
    pub fn new(terms: Terms, epoch: u64, now: f64) -> Self {
        let mut watch = Watch::new(terms.spot.len(), terms.limits.tick, f64::INFINITY);
        // Nobody has asked yet: every pool may have machines.
        watch.advance(None, |_| true);
        (0..terms.spot.len()).for_each(|pool| watch.may_be_up(pool));
        Self {
            watch,
            phase: Phase::Choosing { from: now },
            refusals: Refusals::default(),
            rentals: Rentals::default(),
            ledger: Ledger::new(terms.launch.moment()),
            epoch,
            orders: 0,
            done: 0.0,
            last_pool: None,
            unclear_until: f64::NEG_INFINITY,
            heard_of: f64::NEG_INFINITY,
            interruptions: 0,
            last_refusal: None,
            fruitless: 0,
            terms,
        }
    }

    /// The run as a journal knows it, after the one who led it is gone: a whole gang is kept, anything less is ended.
    pub fn resume(terms: Terms, past: ResumeState, now: f64) -> Self {
        let mut resumed = Self::new(terms, past.epoch, now);
        (resumed.orders, resumed.done, resumed.interruptions) = (past.orders, past.done, past.interruptions);
        resumed.ledger = past
            .ledger
            .map_or_else(|| Ledger::settled(past.rentals.spent(now), resumed.terms.launch.moment()), Ledger::inherited);
        resumed.rentals = past.rentals;
        (resumed.unclear_until, resumed.heard_of) = (now + resumed.terms.settles, now);
        let open: Vec<&Rental> = resumed.rentals.open().collect();
        let which = past.last_pool.and_then(|pool| {
            let spot = resumed.terms.spot.iter().position(|choice| choice.pool == pool).map(Which::Spot);
            spot.or_else(|| resumed.terms.on_demand.iter().position(|choice| choice.pool == pool).map(Which::OnDemand))
        });
        let is_whole = open.len() == resumed.terms.nodes as usize && past.open_since.is_none();
        resumed.phase = match which.filter(|_| is_whole) {
            Some(which) => {
                let since = open.iter().map(|rental| rental.since).fold(f64::INFINITY, f64::min);
                let gang = Gang {
                    epoch: past.epoch,
                    which,
                    since,
                    ends_at: resumed.ledger.ends_at(now + resumed.terms.lifetime),
                    machines: open.iter().map(|rental| rental.machine.clone()).collect(),
                };
                Phase::Running {
                    gang,
                    // A store that nobody has read yet says nothing of the gang.
                    liveness: Liveness::default(),
                    looked_at: f64::NEG_INFINITY,
                    decided_at: now,
                    // A gang that may still boot has its time to.
                    is_working: now - since > resumed.terms.limits.worst_changeover,
                    has_spoken: true,
                    leaving: None,
                }
            }
            None => Phase::Ending { until: resumed.unclear_until, looked_at: f64::NEG_INFINITY, next: Next::Choose },
        };
        resumed
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

    /// Share of the work that is safe.
    pub fn done(&self) -> f64 {
        self.done
    }

    pub fn rentals(&self) -> &Rentals {
        &self.rentals
    }

    /// Takes one event and says what to do. Times are seconds since the run began; they never go back.
    pub fn step(&mut self, now: f64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
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
            Event::Stop => {
                let is_ending = match &self.phase {
                    Phase::Ended(_) | Phase::Ending { next: Next::End(_), .. } => true,
                    Phase::Running { leaving: Some(leaving), .. } => leaving.next != Next::Choose,
                    _ => false,
                };
                if !is_ending {
                    self.leave(now, Next::End(End::Stopped), &mut actions);
                }
            }
        }
        self.advance(now, &mut actions);
        actions
    }

    fn advance(&mut self, now: f64, actions: &mut Vec<Action>) {
        match self.phase.clone() {
            Phase::Choosing { from } if now >= from => self.choose(now, actions),
            Phase::Choosing { from } => actions.push(Action::Wake(from)),
            Phase::Creating { gang, open } => self.create(now, gang, open, actions),
            Phase::Running { gang, .. } => self.run(now, &gang, actions),
            Phase::Ending { until, looked_at, next } => self.finish(now, until, looked_at, next, actions),
            Phase::Ended(_) => {}
        }
    }

    /// Asks the policy, and orders the first machine of a gang.
    fn choose(&mut self, now: f64, actions: &mut Vec<Action>) {
        for pool in 0..self.terms.spot.len() {
            if !self.watch.views()[pool].up && self.refusals.until(&self.terms.spot[pool].pool, now).is_none() {
                self.watch.may_be_up(pool);
            }
        }
        let mut decision = self.decide(now, policy::Action::Idle, 0.0);
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
        match which {
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
        // What is known gets older; nobody is asked.
        self.watch.advance(None, |_| false);
        actions.push(Action::List);
        actions.push(Action::Say(format!("waiting: {reason}")));
        actions.push(Action::Wake(from));
        self.phase = Phase::Choosing { from };
    }

    fn decide(&self, now: f64, running: policy::Action, pending: f64) -> policy::Decision {
        let limits = &self.terms.limits;
        let worst = if pending > 0.0 { pending + limits.worst_changeover - limits.changeover } else { 0.0 };
        let state = State {
            elapsed: now,
            left: limits.work * (1.0 - self.done),
            spent: self.ledger.spent(now),
            running,
            last_pool: self.last_pool,
            pending,
            pending_worst: worst,
        };
        let seen = Observation { pools: self.watch.views(), on_demand: self.free_on_demand(now).is_some() };
        policy::decide(&self.terms.policy, &state, &seen, limits)
    }

    fn afford(&self, now: f64, wish: policy::Decision) -> policy::Decision {
        let state = State { spent: self.ledger.spent(now), last_pool: self.last_pool, ..State::default() };
        policy::within_budget(wish, &state, &self.terms.limits)
    }

    fn listed(&mut self, now: f64, asked_at: f64, machines: &[Machine], actions: &mut Vec<Action>) {
        for machine in machines {
            self.ledger.is_had_by(&machine.token, &machine.id.0);
        }
        for machine in machines.iter().filter(|machine| machine.state == MachineState::Gone) {
            // What came and went unheard is written down with the least that it costs.
            self.rent_as_listed(machine, now);
            self.is_gone(&machine.id, now);
        }
        let awaited =
            if let Phase::Creating { open, .. } = &self.phase { Some(open.order.token.clone()) } else { None };
        for machine in machines.iter().filter(|machine| machine.state != MachineState::Gone) {
            if awaited.as_deref() != Some(machine.token.as_str()) && !self.has(&machine.id) {
                self.give_back(now, machine, actions);
            }
        }
        if let Phase::Running { gang, looked_at, .. } = &mut self.phase {
            *looked_at = now;
            let gang = gang.clone();
            let is_lost = |id: &MachineId| match machines.iter().find(|machine| machine.id == *id) {
                Some(machine) => machine.state == MachineState::Gone,
                None => asked_at > self.heard_of + self.terms.settles * LISTS_ARE_LATE,
            };
            if gang.machines.iter().any(is_lost) {
                let by_itself = |machine: &&Machine| {
                    gang.machines.contains(&machine.id) && machine.state == MachineState::Gone && !machine.was_taken
                };
                match machines.iter().find(by_itself) {
                    Some(machine) => {
                        let why = machine.reason.as_deref().unwrap_or("it does not say why");
                        self.came_to_nothing(now, &gang, "a machine ended", &format!("{}: {why}", machine.id), actions);
                    }
                    None => self.lost(now, &gang, "a machine is gone", actions),
                }
            }
        }
        if let Phase::Ending { looked_at, .. } = &mut self.phase {
            *looked_at = now;
            // What a list does not name any more is gone, once lists are not late.
            let is_listed = |rental: &&Rental| machines.iter().any(|machine| machine.id == rental.machine);
            let is_late = asked_at > self.heard_of + self.terms.settles * LISTS_ARE_LATE;
            let gone: Vec<MachineId> = self
                .rentals
                .open()
                .filter(|rental| is_late && !is_listed(rental))
                .map(|rental| rental.machine.clone())
                .collect();
            for id in gone {
                self.is_gone(&id, now);
            }
        }
        self.settle_unheard(now, asked_at, machines);
    }

    fn reported(&mut self, now: f64, report: Report, actions: &mut Vec<Action>) {
        let Phase::Running { gang, liveness, is_working, has_spoken, leaving, .. } = &mut self.phase else { return };
        // An agent of an earlier epoch has been fenced: what it says does not count.
        if report.epoch != gang.epoch {
            return;
        }
        *has_spoken = true;
        let is_news = liveness.saw(now, Some(report.sign), self.terms.silence * LONGEST_STEP);
        // A first machine that waits for the others says so for ever, and all of them cost money.
        if is_news && (report.has_started || self.terms.nodes == 1) {
            liveness.lives();
        }
        if report.done > self.done {
            *is_working = true;
            self.fruitless = 0;
        }
        self.done = self.done.max(report.done.clamp(0.0, 1.0));
        let (gang, leaves_for) = (gang.clone(), leaving.as_ref().map(|leaving| leaving.next.clone()));
        match (report.outcome, leaves_for) {
            (None, _) => {}
            (Some(Outcome::Completed), _) => {
                self.done = 1.0;
                self.end_all(now, Next::End(End::Completed), actions);
            }
            // It has saved what it could, and ended as it was told.
            (Some(_), Some(next)) => self.end_all(now, next, actions),
            (Some(Outcome::Interrupted), None) => self.lost(now, &gang, "interrupted, its work is saved", actions),
            // One agent alone has started its program again; those of several machines leave that to us.
            (Some(Outcome::Failed(why)), None) if self.terms.nodes > 1 => {
                self.came_to_nothing(now, &gang, "its program failed", &why, actions);
            }
            (Some(Outcome::Failed(why) | Outcome::GivenUp(why)), None) => {
                self.end_all(now, Next::End(End::Failed(why)), actions);
            }
        }
    }

    /// A gang ended by itself: nobody took its machines away. One whose boot script fails, or whose life is too short, does so
    /// everywhere: after a few that left the run no further it ends before it costs more.
    fn came_to_nothing(&mut self, now: f64, gang: &Gang, what: &str, why: &str, actions: &mut Vec<Action>) {
        let Phase::Running { is_working, has_spoken, leaving, .. } = &self.phase else { return };
        if *is_working || leaving.is_some() {
            return self.lost(now, gang, what, actions);
        }
        let lacks = if *has_spoken { "got any further" } else { "said a word" };
        self.fruitless += 1;
        if self.fruitless < MOST_FRUITLESS {
            return self.lost(now, gang, &format!("{what} before the run {lacks}"), actions);
        }
        let why = format!("{MOST_FRUITLESS} times in a row {what} before the run {lacks} ({why})");
        self.end_all(now, Next::End(End::Failed(why)), actions);
    }

    fn lost(&mut self, now: f64, gang: &Gang, why: &str, actions: &mut Vec<Action>) {
        if let Phase::Running { leaving: Some(leaving), .. } = &self.phase {
            let next = leaving.next.clone();
            return self.end_all(now, next, actions);
        }
        actions.push(Action::Say(format!("{}: {why}", self.choice(gang.which).pool)));
        self.interruptions += 1;
        if let Which::Spot(pool) = gang.which {
            self.watch.failed(pool);
            let refusal = LaunchError::Capacity { code: "taken away".to_owned() };
            self.refusals.refused(&self.terms.spot[pool].pool.clone(), &refusal, now);
        }
        self.end_all(now, Next::Choose, actions);
    }

    fn run(&mut self, now: f64, gang: &Gang, actions: &mut Vec<Action>) {
        let (tick, silence) = (self.terms.limits.tick, self.terms.silence);
        let Phase::Running { liveness, looked_at, decided_at, is_working, leaving, .. } = &mut self.phase else {
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
            let why = format!("{patience:.0} s without a word of a program that runs");
            return self.came_to_nothing(now, gang, "nothing was heard for too long", &why, actions);
        }
        if now - *looked_at >= LOOK {
            *looked_at = now;
            actions.push(Action::List);
        }
        let next_look = *looked_at + LOOK;
        if now >= gang.ends_at {
            // Its own timer, and if that does not go, we.
            return self.lost(now, gang, "its lease has ended", actions);
        }
        if now - *decided_at >= tick && !is_leaving {
            *decided_at = now;
            let running = match gang.which {
                Which::Spot(pool) => policy::Action::Spot(pool),
                Which::OnDemand(_) => self.terms.limits.cheapest_on_demand(),
            };
            self.watch.advance(running.pool().filter(|_| !running.is_on_demand()), |_| true);
            let pending = if working { 0.0 } else { (self.terms.limits.changeover - (now - gang.since)).max(1e-3) };
            let decision = self.decide(now, running, pending);
            if decision.reason == Reason::BudgetReached {
                return self.end_all(now, Next::End(End::OutOfBudget), actions);
            }
            // What the gang has saved since the store was read last is not known, so nobody can say that it is behind.
            if !is_blind && decision.action != running && decision.action != policy::Action::Idle {
                actions.push(Action::Say(format!("moving: {}", decision.reason)));
                return self.leave(now, Next::Choose, actions);
            }
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
    fn end_all(&mut self, now: f64, next: Next, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Creating { .. }) {
            // The answer is still under way.
            self.unclear_until = self.unclear_until.max(now + self.terms.settles);
        }
        actions.extend(self.rentals.open().map(|rental| Action::Destroy(rental.machine.clone())));
        self.phase = Phase::Ending { until: self.unclear_until, looked_at: now, next };
        // To see whether that is already all.
        actions.push(Action::Wake(now));
    }

    fn finish(&mut self, now: f64, until: f64, looked_at: f64, next: Next, actions: &mut Vec<Action>) {
        let still: Vec<MachineId> = self.rentals.open().map(|rental| rental.machine.clone()).collect();
        if still.is_empty() && now >= until {
            self.ledger.void_unheard(None);
            match next {
                Next::Choose => {
                    self.phase = Phase::Choosing { from: now };
                    self.choose(now, actions);
                }
                Next::End(end) => self.phase = Phase::Ended(end),
            }
            return;
        }
        if now - looked_at >= FIRST_PAUSE {
            actions.extend(still.into_iter().map(Action::Destroy));
            actions.push(Action::List);
            self.phase = Phase::Ending { until, looked_at: now, next };
        }
        actions.push(Action::Wake(now + FIRST_PAUSE));
    }
}
