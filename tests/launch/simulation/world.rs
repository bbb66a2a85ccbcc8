//! `World`: simulated clouds, the run's store and the agents, with everything going wrong that a seed asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpuplan::agent::rules::renewal::{Renewals, Shown};
use gpuplan::launch::events::{Event, Order, Rentable};
use gpuplan::launch::launcher::{LaunchError, Machine, MachineId, MachineState, Market, Pool};
use gpuplan::runstore::Ledger;
use gpuplan::units::draw::Draws;

use crate::launch::made;
use crate::launch::simulation::mutant::Mutant;
use crate::launch::simulation::{HOUR, LIFETIME, WORK};

const SAVES_EVERY: f64 = 900.0;
/// A machine lives so long on its share without a word of progress.
pub const TERM: f64 = 2.0 * HOUR;
/// A program that is told to leave has saved within so long.
const SAVES_WITHIN: f64 = 200.0;
/// An agent has its program save so long before the lease of its machine ends, or for the last quarter of what it lives. As long as a leader
/// waits for a gang that was told.
const NOTICE: f64 = 240.0;
/// A cloud ends a machine within so long of being told.
pub const ENDS_WITHIN: f64 = 40.0;
/// A list is behind by so much at most.
pub const LIST_BEHIND: f64 = 55.0;
/// A spot machine costs at most so much more than was planned.
pub const OVER_PLAN: f64 = 0.1;
/// What has ended is listed for about so long, as on EC2.
pub const LISTED_AFTER: f64 = HOUR;

/// A machine of the simulated clouds. Times in seconds of the run.
#[derive(Clone, Debug)]
pub struct Rented {
    pub machine: Machine,
    pub created: f64,
    listed_from: f64,
    pub boots: f64,
    pub rate: f64,
    /// The cloud takes it away, or somebody has ended it.
    ends_by_cloud: f64,
    /// Its own timer.
    expires: f64,
    /// From then on it does nothing, and its timer neither.
    pub freezes: f64,
    /// From then on it does nothing, since no boot script runs again; a timer that is kept goes off all the same.
    pub reboots: f64,
    /// Its timer outlives a reboot.
    keeps_end: bool,
    /// The number of the leader that ordered it.
    lead: u64,
    has_booted: bool,
    /// Seconds that the leader granted with the order.
    share: f64,
    /// The lease as its agent knows it, from its creation on; the machine goes by that, too.
    renewals: Renewals,
    /// What its timer is wrong by, where it goes by a clock that somebody sets.
    skew: f64,
    /// From then on its program gets nowhere, though its agent says that it lives.
    pub stalls: f64,
    /// The last term of its lease that the store has, and when that was asked for; the first one comes with the lease.
    renewed: u64,
    asked_at: f64,
    /// It has ended, and no list names it any more: nothing that happens changes what it was.
    pub is_over: bool,
}

impl Rented {
    pub fn ends(&self) -> f64 {
        let forgets = self.freezes < self.expires || (self.reboots < self.expires && !self.keeps_end);
        self.ends_by_cloud.min(self.term_timer()).min(if forgets { f64::INFINITY } else { self.expires })
    }

    /// The timer that its agent moves.
    fn term_timer(&self) -> f64 {
        let at = self.term_ends();
        if self.freezes.min(self.reboots) <= at { f64::INFINITY } else { at }
    }

    fn term_ends(&self) -> f64 {
        self.created + self.renewals.ends().as_secs_f64() + self.skew
    }

    /// It lives beyond its own time, and no hanging kernel is the reason.
    pub fn outlives_its_lease(&self, now: f64) -> bool {
        self.freezes >= self.expires && self.expires + ENDS_WITHIN < now.min(self.ends())
    }

    /// From then on its agent has its program save.
    pub fn saves_from(&self) -> f64 {
        let ends = self.expires.min(self.term_ends());
        ends - NOTICE.min((ends - self.boots).max(0.0) / 4.0)
    }

    fn is_at_work(&self, now: f64) -> bool {
        self.boots <= now && now < self.ends() && now < self.freezes.min(self.reboots)
    }

    /// `late`: seconds after its own end in which one that froze is ended.
    fn paid(&self, until: f64, late: f64) -> f64 {
        let excused = if self.freezes < self.expires { self.expires + late } else { f64::INFINITY };
        (self.ends().min(until).min(excused) - self.created).max(60.0) / HOUR * self.rate
    }
}

/// A machine that a completed run keeps for the next one. Times in seconds of the run.
#[derive(Clone, Debug)]
pub struct Warm {
    pub pool: Pool,
    /// From then on it is not to be had any more: it has ended, or another run has it.
    pub until: f64,
    /// It was created with that end.
    pub expires: f64,
    /// Once it is had, it is taken away, or freezes, after so long.
    pub taken_after: f64,
    pub freezes_after: f64,
}

impl Warm {
    /// With dice of its own, so that seeds without one go as they did before there were any.
    pub fn of(seed: u64, places: &[Rentable]) -> Option<Self> {
        let mut draws = Draws::new(seed, 8);
        let (exists, place, is_late) = (draws.uniform() < 0.2, draws.uniform(), draws.uniform() < 0.3);
        let until = if is_late { 0.0 } else { HOUR * draws.uniform() };
        let taken_after = -8.0 * HOUR * (1.0 - draws.uniform()).ln();
        let freezes_after = if draws.uniform() < 0.1 { 2.0 * HOUR * draws.uniform() } else { f64::INFINITY };
        let pool = places[(place * places.len() as f64) as usize].pool.clone();
        exists.then_some(Self { pool, until, expires: LIFETIME * 0.9, taken_after, freezes_after })
    }
}

/// What the agent of the first machine wrote last.
#[derive(Clone, Debug)]
pub struct Word {
    pub epoch: u64,
    pub beat: u64,
    pub done: f64,
    /// It has saved, and ends as it was told.
    pub leaves: bool,
    /// Nobody told it but its own lease.
    pub is_capped: bool,
}

/// The run's store, as far as leaders and agents speak through it.
#[derive(Debug, Default)]
pub struct Store {
    pub word: Option<Word>,
    pub ledger: Option<Ledger>,
    /// The epoch that is to save and end.
    pub stop: Option<u64>,
    /// The highest number of a leader.
    pub lead: u64,
    /// The gang of earlier leaders that this one goes on with.
    pub keeps: Option<u64>,
    /// Nobody of the leaders reaches it before.
    pub away_until: f64,
    /// Neither do the machines.
    machines_away_until: f64,
    /// For how long leaders have not reached it.
    pub away_for: f64,
}

/// What happens at its time. Leaders by their number.
pub enum Due {
    To {
        leader: usize,
        event: Box<Event>,
    },
    Arrives {
        leader: usize,
        /// Its number in the store.
        lead: u64,
        order: Box<Order>,
        refusal: Result<(), LaunchError>,
        answer_after: Option<f64>,
    },
    /// The leader looks into the store.
    Look {
        leader: usize,
    },
    /// Somebody leads the run again, from the journal of this leader.
    Follows {
        leader: usize,
    },
    /// Somebody else, who has the store alone, takes the lead from whoever has it, and may fall asleep at once.
    TakesOver {
        sleeps: bool,
    },
    /// Somebody stops the run that this leader led, with its journal.
    Stops {
        leader: usize,
    },
    /// Agents speak.
    Beat,
    StoreGoesAway,
    /// For everybody, and longer than half a term.
    StoreIsGoneForHours,
}

pub struct World {
    pub draws: Draws,
    /// Whether a machine that is ordered beside others hangs as it boots. Dice of its own: other seeds go as they went.
    hangs: Draws,
    /// What becomes of leases: programs that get nowhere, clocks of machines that jump, answers that are lost. The same.
    terms: Draws,
    pub chaos: f64,
    pub mutant: Option<Mutant>,
    pub nodes: u32,
    pub now: f64,
    /// By time and then in the order in which it was said, the next one last: there are few at any time.
    pub due: Vec<((u64, u64), Due)>,
    count: u64,
    /// In the order in which they were rented; at most one a token.
    pub rented: Vec<Rented>,
    /// Those that may still change, in the same order: what holds of the others was checked once they had ended.
    changing: Vec<usize>,
    /// Epochs with all their machines at work, and until when that stays so unless something happens to a machine.
    whole: (Vec<u64>, f64),
    /// What was listed last: where each stands, whether it is gone, and in words.
    listed: (Vec<(usize, bool)>, Arc<[Machine]>),
    /// What a yes was given for. Dollars.
    pub bound: f64,
    /// What those that are over cost until a leader that sees the store ends them.
    paid_by_timers: f64,
    /// Of each epoch, when the program of the first of its machines gets nowhere any more.
    stalls: BTreeMap<u64, f64>,
    /// Waits for this run; `None`: none does, or it is had.
    pub warm: Option<Warm>,
    pub store: Store,
    /// Safe work, and the epoch that may add to it.
    pub safe: f64,
    claimed: u64,
    beats: u64,
    /// The epoch that saves since it was told to leave, and when it will have.
    pub saving: Option<(u64, f64)>,
    /// The epoch whose agent spoke last, and when.
    pub spoke: Option<(u64, f64)>,
    pub whole_since: Option<(u64, f64)>,
    /// Epochs that were ordered while another gang runs: their agents wait until it has ended.
    pub beside: BTreeSet<u64>,
    /// The epoch that a leader wants to end for its own reasons, and since when.
    pub told: Option<(u64, f64)>,
    /// Of every call that came to the clouds, which remember them.
    pub tokens: BTreeSet<String>,
    /// The program gets nowhere on any machine, from its start on.
    pub hangs_everywhere: bool,
    /// Gangs whose leases ended and left the run no further, and how many at most no leader counts: that ended as nobody led, or whose count
    /// went with its leader.
    pub fruitless: BTreeSet<u64>,
    pub uncounted: usize,
    pub log: Vec<String>,
}

impl World {
    pub fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        let mut draws = Draws::new(seed, 7);
        let chaos = draws.uniform();
        let mut world = Self {
            draws,
            hangs: Draws::new(seed, 9),
            terms: Draws::new(seed, 10),
            chaos,
            mutant,
            nodes: 1,
            now: 0.0,
            due: Vec::new(),
            count: 0,
            rented: Vec::new(),
            changing: Vec::new(),
            whole: (Vec::new(), f64::NEG_INFINITY),
            listed: (Vec::new(), Arc::new([])),
            bound: 0.0,
            paid_by_timers: 0.0,
            stalls: BTreeMap::new(),
            warm: None,
            store: Store::default(),
            safe: 0.0,
            claimed: 0,
            beats: 0,
            saving: None,
            spoke: None,
            whole_since: None,
            beside: BTreeSet::new(),
            told: None,
            tokens: BTreeSet::new(),
            // Dice of its own again.
            hangs_everywhere: Draws::new(seed, 11).uniform() < 0.05,
            fruitless: BTreeSet::new(),
            uncounted: 0,
            log: Vec::new(),
        };
        world.at(30.0, Due::Beat);
        world.store_goes_away_later();
        if world.terms.uniform() < 0.15 * chaos {
            let after = 8.0 * HOUR * world.terms.uniform();
            world.at(after, Due::StoreIsGoneForHours);
        }
        world
    }

    pub fn lacks(&self, fix: Mutant) -> bool {
        self.mutant == Some(fix)
    }

    pub fn chance(&mut self, share: f64) -> bool {
        self.draws.uniform() < share
    }

    pub fn at(&mut self, after: f64, due: Due) {
        self.count += 1;
        let at = (((self.now + after) * 1000.0) as u64, self.count);
        let place = self.due.iter().rposition(|(other, _)| *other > at).map_or(0, |later| later + 1);
        self.due.insert(place, (at, due));
    }

    pub fn send(&mut self, after: f64, leader: usize, event: Event) {
        self.at(after, Due::To { leader, event: Box::new(event) });
    }

    /// The next that happens, unless a leader wakes before.
    pub fn next(&mut self, wake: f64) -> Option<Due> {
        let (first, _) = self.due.last().expect("agents speak for ever").0;
        let at = first as f64 / 1000.0;
        self.pass_to(self.now.max(at.min(wake)));
        if wake < at { None } else { self.due.pop().map(|(_, due)| due) }
    }

    /// Those that may still change.
    pub fn changing(&self) -> impl Iterator<Item = &Rented> {
        self.changing.iter().map(|place| &self.rented[*place])
    }

    /// After all that is checked was: who has ended and is listed no more has been seen as that.
    pub fn forget(&mut self) {
        let (now, rented, paid) = (self.now, &mut self.rented, &mut self.paid_by_timers);
        self.changing.retain(|place| {
            let machine = &mut rented[*place];
            machine.is_over = machine.ends() + LISTED_AFTER <= now;
            if machine.is_over {
                *paid += machine.paid(now, ENDS_WITHIN);
            }
            !machine.is_over
        });
    }

    pub fn say(&mut self, line: &str) {
        self.log.push(format!("{:.0}: {line}", self.now));
    }

    // The store.

    fn store_goes_away_later(&mut self) {
        let mean = 12.0 * HOUR / self.chaos.max(0.05);
        let after = -mean * (1.0 - self.draws.uniform()).ln();
        self.at(after, Due::StoreGoesAway);
    }

    /// For the leader alone, as with expired keys, or for everybody; for seconds or for half an hour.
    pub fn store_goes_away(&mut self) {
        let seconds = if self.chance(0.5) { 60.0 } else { 2400.0 } * self.draws.uniform();
        // Machines that alone cannot reach it are silent indeed.
        self.store.away_until = self.store.away_until.max(self.now + seconds);
        self.store.away_for += seconds;
        if self.chance(0.5) {
            self.store.machines_away_until = self.now + seconds;
        }
        self.store_goes_away_later();
    }

    pub fn store_is_gone_for_hours(&mut self) {
        let seconds = (0.5 + self.terms.uniform()) * TERM;
        self.store.away_until = self.store.away_until.max(self.now + seconds);
        self.store.machines_away_until = self.store.away_until;
        self.store.away_for += seconds;
        self.say("the store is gone for hours");
    }

    pub fn is_store_away(&self) -> bool {
        self.now < self.store.away_until
    }

    /// The store says so.
    pub fn is_completed(&self) -> bool {
        self.store.word.as_ref().is_some_and(|word| word.done >= 1.0)
    }

    // The agents.

    fn pass_to(&mut self, until: f64) {
        self.now = until;
        if until >= self.whole.1 {
            self.boot();
            self.whole = (self.whole(), self.stays_until());
        }
        let whole = &self.whole.0;
        // Whoever was ordered beside another gang waits while that one is at work, which has claimed the run before.
        let works = whole.iter().copied().find(|epoch| *epoch == self.claimed);
        let claims = whole.iter().copied().filter(|epoch| *epoch > self.claimed);
        let mut others = claims
            .filter(|epoch| works.is_none() || !self.beside.contains(epoch) || self.lacks(Mutant::NewGangDoesNotWait));
        let other = others.next();
        assert!(works.is_none() || other.is_none(), "two gangs at work: {whole:?}\n{}", self.log.join("\n"));
        assert!(others.next().is_none(), "two gangs claim the run: {whole:?}\n{}", self.log.join("\n"));
        let epoch = works.or(other);
        match (epoch, self.whole_since) {
            (Some(epoch), Some((of, since))) if epoch == of => {
                let times = ((until.min(self.stalls_from(epoch)) - since) / SAVES_EVERY).floor().max(0.0);
                if times >= 1.0 {
                    let saved = (self.safe + times * SAVES_EVERY).min(WORK);
                    (self.safe, self.whole_since) = (saved, Some((epoch, since + times * SAVES_EVERY)));
                }
            }
            (Some(epoch), _) => (self.claimed, self.whole_since) = (epoch, Some((epoch, until))),
            (None, _) => self.whole_since = None,
        }
    }

    /// Each machine looks as it boots whether it is still wanted, and ends itself if it is not.
    fn boot(&mut self) {
        let (lead, keeps, lacks_look) = (self.store.lead, self.store.keeps, self.lacks(Mutant::DeposedMachineBegins));
        for place in &self.changing {
            let rented = &mut self.rented[*place];
            if rented.has_booted || rented.boots > self.now {
                continue;
            }
            rented.has_booted = true;
            if !rented.is_at_work(self.now) {
                continue;
            }
            let is_wanted = rented.lead == lead || keeps == Some(rented.machine.epoch);
            if !is_wanted && !lacks_look {
                rented.ends_by_cloud = rented.ends_by_cloud.min(self.now);
            }
            assert!(is_wanted || !rented.is_at_work(self.now), "a machine of a deposed leader begins: {rented:?}");
        }
    }

    /// The next time that a machine boots, ends or stands still by itself.
    fn stays_until(&self) -> f64 {
        let times = self.changing().flat_map(|rented| [rented.boots, rented.ends(), rented.freezes, rented.reboots]);
        times.filter(|at| *at > self.now).fold(f64::INFINITY, f64::min)
    }

    /// Epochs with all their machines at work.
    fn whole(&self) -> Vec<u64> {
        let mut alive: Vec<(u64, u32)> = Vec::new();
        for rented in self.changing().filter(|rented| rented.is_at_work(self.now)) {
            match alive.iter_mut().find(|(epoch, _)| *epoch == rented.machine.epoch) {
                Some((_, count)) => *count += 1,
                None => alive.push((rented.machine.epoch, 1)),
            }
        }
        alive.into_iter().filter(|(_, count)| *count >= self.nodes).map(|(epoch, _)| epoch).collect()
    }

    /// Every half minute the agent of the claimed epoch says what is safe, unless its word is lost.
    pub fn beat(&mut self) {
        self.at(30.0, Due::Beat);
        self.beats += 1;
        self.whole.1 = f64::NEG_INFINITY;
        let is_lost = self.chance(0.2 * self.chaos) || self.now < self.store.machines_away_until;
        self.renew();
        let Some((epoch, since)) = self.whole_since.filter(|_| !is_lost) else { return };
        self.spoke = Some((epoch, self.now));
        let is_told = self.store.stop == Some(epoch);
        let is_over = self.saves_from(epoch) <= self.now && !self.lacks(Mutant::LeaseEndsWithoutNotice);
        let leaves = (is_told || is_over) && self.has_saved(epoch);
        if leaves {
            self.safe = (self.safe + (self.now.min(self.stalls_from(epoch)) - since).max(0.0)).min(WORK);
            self.whole_since = None;
            for rented in self.rented.iter_mut().filter(|rented| rented.machine.epoch == epoch) {
                rented.ends_by_cloud = rented.ends_by_cloud.min(self.now + ENDS_WITHIN);
                rented.freezes = rented.freezes.min(self.now);
            }
        }
        let is_capped = leaves && !is_told;
        self.store.word = Some(Word { epoch, beat: self.beats, done: self.safe / WORK, leaves, is_capped });
    }

    /// Every agent looks at its program, and asks the store for the next term of its own lease.
    fn renew(&mut self) {
        let gang = self.whole_since.map(|(epoch, _)| epoch);
        let is_away = self.now < self.store.machines_away_until;
        let stalled = gang.is_some_and(|epoch| self.stalls_from(epoch) <= self.now);
        let (now, safe, mutant) = (self.now, self.safe, self.mutant);
        for place in &self.changing {
            let rented = &mut self.rented[*place];
            if Some(rented.machine.epoch) != gang {
                continue;
            }
            let age = Duration::from_secs_f64(now - rented.created);
            let computes = !stalled || mutant == Some(Mutant::RenewsWithoutProgress);
            // A step a second, while it gets anywhere.
            let step = if computes { now as u64 } else { rented.stalls as u64 };
            let busy_at = if stalled { Duration::ZERO } else { age };
            let shown = Shown { step: Some(step.max(safe as u64)), busy_at, ..Shown::default() };
            rented.renewals.see(age, shown);
            let Some(number) = rented.renewals.due(age) else { continue };
            let is_lost = self.terms.uniform() < 0.3 * self.chaos;
            if mutant == Some(Mutant::RenewsWithoutTheStore) && is_away {
                rented.renewals.is_granted(age);
            }
            if is_away {
                continue;
            }
            if rented.renewed < number {
                (rented.asked_at, rented.renewed) = (now, number);
            }
            if is_lost {
                continue;
            }
            rented.renewals.is_granted(age);
            if mutant == Some(Mutant::TermBeginsWithTheAnswer) {
                rented.skew = now - rented.asked_at;
            }
        }
    }

    /// From then on the program of one of its machines gets nowhere, so none of them does.
    fn stalls_from(&self, epoch: u64) -> f64 {
        self.stalls.get(&epoch).copied().unwrap_or(f64::INFINITY)
    }

    /// A lease has ended, and whoever leads says that the run goes on.
    pub fn leads_no_further(&mut self, epoch: u64) {
        self.fruitless.insert(epoch);
        assert!(
            !self.hangs_everywhere || self.fruitless.len() <= 2 + self.uncounted,
            "leases leave the run no further, and it goes on\n{}",
            self.log.join("\n")
        );
    }

    /// Leases run out of what leaders granted and the store has.
    pub fn check_terms(&self) {
        for rented in self.changing() {
            let lives_until = self.now.min(rented.ends()).min(rented.freezes).min(rented.reboots);
            let share_ends = rented.created + rented.share;
            assert!(lives_until <= share_ends + ENDS_WITHIN, "beyond its share: {rented:?}\n{}", self.log.join("\n"));
            let term_ends = rented.asked_at + TERM;
            assert!(lives_until <= term_ends + ENDS_WITHIN, "beyond its term: {rented:?}\n{}", self.log.join("\n"));
            // Whoever begins the last term before it stalls lives it to its end.
            let idle = lives_until - self.stalls_from(rented.machine.epoch).max(rented.created);
            assert!(
                idle <= 1.5 * TERM + ENDS_WITHIN,
                "it gets nowhere and lives on: {rented:?}\n{}",
                self.log.join("\n")
            );
        }
    }

    /// The lease of a machine of the epoch is about to end from then on.
    pub fn saves_from(&self, epoch: u64) -> f64 {
        let of_epoch = self.rented.iter().filter(|rented| rented.machine.epoch == epoch);
        of_epoch.map(Rented::saves_from).fold(f64::INFINITY, f64::min)
    }

    /// Saving begins with the first word after the epoch was told, and takes seconds or minutes.
    fn has_saved(&mut self, epoch: u64) -> bool {
        let until = match self.saving.filter(|(of, _)| *of == epoch) {
            Some((_, until)) => until,
            None => self.now + SAVES_WITHIN * self.draws.uniform(),
        };
        self.saving = Some((epoch, until));
        self.now >= until
    }

    // The clouds.

    /// What becomes of a call that creates a machine.
    pub fn create(&mut self, leader: usize, lead: u64, order: Order) {
        let refusal = self.refusal(&order);
        let is_lost = self.chance(0.15 * self.chaos);
        let arrives = !is_lost || self.chance(0.5);
        let latency =
            if self.chance(0.1 * self.chaos) { 30.0 + 60.0 * self.draws.uniform() } else { 0.2 + self.draws.uniform() };
        if is_lost {
            // The caller's own limit of time makes it unclear.
            let unclear = Err(LaunchError::Unclear { code: "timeout".to_owned() });
            self.send(30.0, leader, Event::Answered { token: order.token.clone(), outcome: unclear });
        }
        if arrives {
            let order = Box::new(order);
            self.at(latency, Due::Arrives { leader, lead, order, refusal, answer_after: (!is_lost).then_some(0.3) });
        }
    }

    fn refusal(&mut self, order: &Order) -> Result<(), LaunchError> {
        let is_spot = order.choice.pool.market == Market::Spot;
        let scarce = if is_spot { 0.5 } else { 0.05 };
        if self.chance(scarce * self.chaos) {
            return Err(LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() });
        }
        if self.chance(0.05 * self.chaos) {
            return Err(LaunchError::Unclear { code: "RequestLimitExceeded".to_owned() });
        }
        if is_spot && self.chance(0.02 * self.chaos) {
            return Err(LaunchError::Quota { code: "L-7212CCBC".to_owned(), request: "aws service-quotas".to_owned() });
        }
        Ok(())
    }

    /// The same token is the same machine.
    pub fn arrive(
        &mut self,
        leader: usize,
        lead: u64,
        order: &Order,
        refusal: Result<(), LaunchError>,
        answer_after: Option<f64>,
    ) {
        self.tokens.insert(order.token.clone());
        let outcome = match (self.rented.iter().find(|rented| rented.machine.token == order.token), refusal) {
            (Some(rented), _) => Ok(rented.machine.clone()),
            (None, refusal) => match (self.take_over(order, lead), refusal) {
                (Some(machine), _) => Ok(machine),
                (None, Err(error)) => Err(error),
                (None, Ok(())) => Ok(self.rent(order, lead)),
            },
        };
        let Some(after) = answer_after else { return };
        let answer = Event::Answered { token: order.token.clone(), outcome };
        if self.chance(0.05 * self.chaos) {
            let late = after + 100.0 * self.draws.uniform();
            self.send(late, leader, answer.clone());
        }
        self.send(after, leader, answer);
    }

    /// The machine that waits there, if it still does: no cloud is asked for one. It keeps the end that it was created with, or has an earlier one.
    fn take_over(&mut self, order: &Order, lead: u64) -> Option<Machine> {
        let warm = self.warm.take_if(|warm| warm.pool == order.choice.pool)?;
        if self.now >= warm.until {
            self.say("the machine that waited is gone");
            return None;
        }
        self.say("the machine that waited is taken over");
        let machine = Machine { was_taken: true, ..made(order, "m-warm".to_owned()) };
        let rented = Rented {
            created: self.now,
            listed_from: self.now,
            boots: self.now + 10.0,
            rate: order.choice.rate.dollars(),
            ends_by_cloud: self.now + warm.taken_after,
            expires: warm.expires.min(self.now + order.lifetime),
            freezes: self.now + warm.freezes_after,
            reboots: f64::INFINITY,
            keeps_end: true,
            lead,
            has_booted: false,
            machine: machine.clone(),
            share: order.lifetime,
            renewals: self.lease(order.lifetime),
            skew: 0.0,
            stalls: if self.hangs_everywhere { self.now } else { f64::INFINITY },
            renewed: 0,
            asked_at: self.now,
            is_over: false,
        };
        self.has(rented);
        Some(machine)
    }

    fn rent(&mut self, order: &Order, lead: u64) -> Machine {
        assert!(order.lifetime <= LIFETIME);
        let mean = if order.choice.pool.market == Market::Spot { 4.0 * HOUR } else { 400.0 * HOUR };
        let taken = self.now - mean * (1.0 - self.draws.uniform()).ln();
        let reboots = if self.chance(0.05 * self.chaos) { 3.0 * HOUR * self.draws.uniform() } else { f64::INFINITY };
        // What the planned price has become meanwhile: the bid at most.
        let dearer = if order.choice.pool.market == Market::Spot { OVER_PLAN * self.draws.uniform() } else { 0.0 };
        let freezes = if self.chance(0.05 * self.chaos) { 3.0 * HOUR * self.draws.uniform() } else { f64::INFINITY };
        let hangs = self.beside.contains(&order.epoch) && self.hangs.uniform() < 0.1 * self.chaos;
        let freezes = if hangs { 60.0 } else { freezes };
        let stalls = if self.hangs_everywhere {
            0.0
        } else if self.terms.uniform() < 0.05 * self.chaos {
            4.0 * HOUR * self.terms.uniform()
        } else {
            f64::INFINITY
        };
        let jumps = self.terms.uniform() < 0.1 * self.chaos && self.lacks(Mutant::LeaseByTheWallClock);
        let skew = if jumps { 24.0 * HOUR } else { 0.0 };
        let machine = Machine { was_taken: true, ..made(order, format!("m-{}", self.rented.len())) };
        let rented = Rented {
            created: self.now,
            listed_from: self.now + LIST_BEHIND * self.draws.uniform() * self.chaos,
            boots: self.now + 100.0 + 400.0 * self.draws.uniform(),
            rate: order.choice.rate.dollars() * (1.0 + dearer),
            ends_by_cloud: taken,
            // An agent that moved the last of its timers could take what was not granted.
            expires: self.now + if self.lacks(Mutant::RenewsBeyondItsShare) { 10.0 * LIFETIME } else { order.lifetime },
            freezes: self.now + freezes,
            reboots: self.now + reboots,
            keeps_end: !self.lacks(Mutant::RebootForgetsTheEnd),
            lead,
            has_booted: false,
            machine: machine.clone(),
            share: order.lifetime,
            renewals: self.lease(order.lifetime),
            skew,
            stalls: self.now + stalls,
            renewed: 0,
            asked_at: self.now,
            is_over: false,
        };
        self.has(rented);
        machine
    }

    fn has(&mut self, rented: Rented) {
        let first = self.stalls.entry(rented.machine.epoch).or_insert(f64::INFINITY);
        *first = first.min(rented.stalls);
        self.changing.push(self.rented.len());
        self.whole.1 = f64::NEG_INFINITY;
        self.rented.push(rented);
    }

    /// How many terms the store has beyond the first ones, and how many machines ended with one of theirs before their share did.
    pub fn terms(&self) -> (u64, usize) {
        let renewed = self.rented.iter().map(|rented| rented.renewed).sum();
        let with_term =
            |rented: &&Rented| rented.term_timer() < rented.expires && rented.ends() >= rented.term_timer() - NOTICE;
        (renewed, self.rented.iter().filter(with_term).count())
    }

    fn lease(&self, share: f64) -> Renewals {
        let share = if self.lacks(Mutant::RenewsBeyondItsShare) { 10.0 * LIFETIME } else { share };
        let of = Duration::from_secs_f64;
        Renewals::new(Duration::ZERO, of(TERM), of(TERM), of(share))
    }

    pub fn destroy(&mut self, leader: usize, id: MachineId) {
        if self.chance(0.1 * self.chaos) {
            return;
        }
        self.end(&id);
        self.send(ENDS_WITHIN, leader, Event::Destroyed(id));
    }

    pub fn end(&mut self, id: &MachineId) {
        let gone = self.now + ENDS_WITHIN * self.draws.uniform();
        self.whole.1 = f64::NEG_INFINITY;
        if let Some(rented) = self.rented.iter_mut().find(|rented| rented.machine.id == *id) {
            rented.ends_by_cloud = rented.ends_by_cloud.min(gone);
        }
    }

    pub fn list(&mut self) -> Arc<[Machine]> {
        let is_shown = |rented: &&Rented| rented.listed_from <= self.now && self.now < rented.ends() + LISTED_AFTER;
        let is_gone = |place: &usize| self.rented[*place].ends() <= self.now;
        let shown = self.changing.iter().filter(|place| is_shown(&&self.rented[**place]));
        let shown: Vec<(usize, bool)> = shown.map(|place| (*place, is_gone(place))).collect();
        if shown != self.listed.0 {
            let state = |is_gone| if is_gone { MachineState::Gone } else { MachineState::Running };
            let machine = |(place, is_gone): &(usize, bool)| Machine {
                state: state(*is_gone),
                ..self.rented[*place].machine.clone()
            };
            self.listed = (shown.clone(), shown.iter().map(machine).collect());
        }
        self.listed.1.clone()
    }

    pub fn cost(&self, until: f64) -> f64 {
        self.rented.iter().map(|rented| rented.paid(until, f64::INFINITY)).sum()
    }

    /// Of a machine that froze, and whose timer froze with it, what it has cost until a leader that sees the store ends it.
    pub fn cost_by_timers(&self) -> f64 {
        self.paid_by_timers + self.changing().map(|rented| rented.paid(self.now, ENDS_WITHIN)).sum::<f64>()
    }
}
