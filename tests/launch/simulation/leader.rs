//! `Leader`: the real controller with what surrounds it: a journal that survives it, and looks into a store that may not answer.

use std::collections::BTreeMap;

use gpuplan::launch::controller::Controller;
use gpuplan::launch::controller::liveness::Sign;
use gpuplan::launch::events::{Action, Event, Order, Outcome, Report, ResumeState, Standing, Terms};
use gpuplan::launch::launcher::{LaunchError, MachineState};
use gpuplan::launch::names::Launch;
use gpuplan::launch::rental::{Rental, Rentals};

use crate::launch::simulation::WORK;
use crate::launch::simulation::mutant::Mutant;
use crate::launch::simulation::world::{Due, World};

/// Between two looks into the store.
const LOOK: f64 = 30.0;

/// What would survive a crash: orders before they are sent, answers once they came.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    pub past: ResumeState,
    open: BTreeMap<String, f64>,
    /// By token, the machine that it is.
    answers: Vec<(String, String)>,
    /// Every machine that a cloud named.
    found: Vec<Standing>,
    /// So many of them were there when those that stand were counted last.
    counted: usize,
}

impl Journal {
    /// What the store and the marks of the machines tell somebody who has no other journal.
    fn adopted(terms: &Terms, world: &mut World) -> Self {
        let all: Vec<_> = terms.spot.iter().chain(&terms.on_demand).collect();
        let listed = world.list();
        let listed = listed.iter().filter(|machine| machine.state != MachineState::Gone);
        let mut past = ResumeState { orders: 1, ..ResumeState::default() };
        for machine in listed {
            let choice = all.iter().find(|choice| choice.pool == machine.pool).unwrap();
            past.epoch = past.epoch.max(machine.epoch);
            past.standing.push(Standing {
                machine: machine.id.clone(),
                epoch: machine.epoch,
                pool: machine.pool.clone(),
            });
            past.rentals.add(Rental {
                machine: machine.id.clone(),
                rate: choice.rate,
                minimum_seconds: choice.minimum_seconds,
                since: world.now,
                until: None,
                moved: None,
            });
        }
        if past.rentals.0.is_empty() {
            past.epoch = world.store.word.as_ref().map_or(0, |word| word.epoch) + 1000;
        }
        past.done = world.store.word.as_ref().map_or(0.0, |word| word.done);
        Self { found: past.standing.clone(), counted: past.standing.len(), past, ..Self::default() }
    }
}

impl Journal {
    /// Machines that a cloud names are written down before the controller hears of them.
    fn finds(&mut self, event: &Event) {
        if let Event::Answered { token, outcome: Ok(machine) } = event {
            self.answers.push((token.clone(), machine.id.0.clone()));
        }
        let machines = match event {
            Event::Answered { outcome: Ok(machine), .. } => std::slice::from_ref(machine),
            Event::Listed { machines, .. } => machines,
            _ => return,
        };
        for machine in machines {
            // What is listed is what was found last.
            if !self.found.iter().rev().any(|found| found.machine == machine.id) {
                let (machine, epoch, pool) = (machine.id.clone(), machine.epoch, machine.pool.clone());
                self.found.push(Standing { machine, epoch, pool });
            }
        }
    }
}

pub struct Leader {
    number: usize,
    /// As the store numbers those who lead.
    pub lead: u64,
    pub controller: Controller,
    pub journal: Journal,
    pub is_dead: bool,
    /// The last that ran: its loss or silence is the reason why machines are ended.
    gang: Option<u64>,
    /// The last wish to be woken stands.
    pub wake: f64,
    /// What its clock is wrong by.
    skew: f64,
    /// Looks that were made, where an old word is taken for a new one.
    looks: u64,
    seen_done: f64,
    /// Of all leases that were open when it began.
    first_lease_ends: f64,
    /// Of each rental, which machine of the world it is.
    places: Vec<Option<usize>>,
}

impl Leader {
    /// Knows what a journal has.
    pub fn follows(number: usize, terms: &Terms, journal: Journal, world: &mut World) -> Self {
        world.store.lead += 1;
        let terms = led(terms, world.store.lead);
        let mut journal = journal;
        let mut ledger = world.store.ledger.clone().filter(|_| !world.lacks(Mutant::LedgerIsForgotten));
        if let Some(ledger) = ledger.as_mut().filter(|_| world.lacks(Mutant::FruitlessIsForgotten)) {
            ledger.fruitless = 0;
        }
        journal.past.ledger = ledger.map(|ledger| journal.past.settled(ledger, &journal.answers));
        // The store says what the time is, whatever the clock of the machine does, and it never goes back.
        let is_wrong = world.chance(0.2 * world.chaos) && world.lacks(Mutant::WallClock) && journal.past.orders > 0;
        let skew = if is_wrong { 24.0 * 3600.0 } else { 0.0 };
        let now = world.now + skew;
        let controller = if journal.past.orders > 0 {
            Controller::resume(terms, journal.past.clone(), now)
        } else {
            Controller::new(terms, 0, now)
        };
        let leases = journal.past.ledger.iter().flat_map(|ledger| &ledger.open);
        let first_lease_ends = leases.map(|lease| lease.granted_at + lease.seconds).fold(f64::INFINITY, f64::min);
        let lead = world.store.lead;
        world.store.keeps = controller.gang_epoch();
        let mut leader = Self {
            number,
            lead,
            controller,
            journal,
            is_dead: false,
            gang: None,
            wake: f64::INFINITY,
            skew,
            looks: 0,
            seen_done: 0.0,
            first_lease_ends,
            places: Vec::new(),
        };
        world.at(LOOK, Due::Look { leader: number });
        leader.hear(Event::Clock, world);
        // How the run stands is read first of all.
        if let Some(event) = leader.read(world) {
            leader.hear(event, world);
        }
        leader
    }

    /// Knows the store and the clouds alone.
    pub fn takes_over(number: usize, terms: &Terms, world: &mut World) -> Self {
        let journal = Journal::adopted(terms, world);
        Self::follows(number, terms, journal, world)
    }

    /// Before each call that rents or ends, and at each look: whether it may. Unknown while the store is away.
    fn may_act(&mut self, world: &World) -> bool {
        let is_deposed = world.store.lead != self.lead && !world.lacks(Mutant::NobodyAsksWhoLeads);
        if is_deposed && !world.is_store_away() {
            self.is_dead = true;
        }
        !self.is_dead && !world.is_store_away()
    }

    pub fn hear(&mut self, event: Event, world: &mut World) {
        let settled = settled(&event);
        self.journal.finds(&event);
        self.gang = self.controller.gang_epoch().or(self.gang);
        let mut actions = self.controller.step(world.now + self.skew, event);
        if self.first_lease_ends <= world.now && world.lacks(Mutant::AnyLeaseEndsTheGang) {
            self.first_lease_ends = f64::INFINITY;
            actions.push(Action::Say("its lease has ended".to_owned()));
            let running = self.controller.running().into_iter().flat_map(|(machines, _)| machines);
            actions.extend(running.cloned().map(Action::Destroy));
        }
        let is_news = self.remember(settled);
        if is_news || self.places.len() < self.controller.rentals().0.len() {
            world.check_books(self.controller.rentals(), &mut self.places);
        }
        for action in actions {
            self.act(action, world);
        }
        assert!(self.controller.done() >= self.seen_done, "progress went back");
        assert!(self.controller.done() * WORK <= world.safe + 1e-6, "more was heard than is safe");
        self.seen_done = self.controller.done();
    }

    /// One action of the controller: the journal first.
    fn act(&mut self, action: Action, world: &mut World) {
        match action {
            Action::Create(order) => self.create(*order, world),
            Action::Destroy(id) => {
                if self.may_act(world) {
                    world.check_end(&id, self.gang.unwrap_or(self.controller.epoch()));
                    world.destroy(self.number, id);
                }
            }
            Action::Notify => {
                let epoch = self.speaks();
                world.told = Some((epoch, world.now));
                if world.lacks(Mutant::EndsWithoutNotice) {
                    let sign = Sign { epoch, beat: 0 };
                    let (epoch, done) = (sign.epoch, self.controller.done());
                    let outcome = Some(Outcome::Interrupted);
                    let report = Report { epoch, sign, done, has_saved: true, has_started: true, outcome };
                    world.send(0.1, self.number, Event::Reported(report));
                } else if self.may_act(world) {
                    world.store.stop = Some(epoch);
                }
            }
            Action::List => {
                if !world.chance(0.1 * world.chaos) {
                    // An answer may take as long as a call may.
                    let longest = if world.chance(0.4 * world.chaos) { 60.0 } else { 5.0 };
                    let (machines, after) = (world.list(), 0.1 + longest * world.draws.uniform());
                    let age = if world.lacks(Mutant::ListsHaveNoAge) { 0.0 } else { after };
                    let asked_at = world.now + after - age + self.skew;
                    world.send(after, self.number, Event::Listed { machines, asked_at });
                }
            }
            Action::Wake(at) => self.wake = (at - self.skew).max(world.now + 0.001),
            Action::Say(line) => {
                if line.contains(": its lease ") {
                    world.leads_no_further(self.controller.epoch());
                }
                world.say(&line);
            }
        }
    }

    fn create(&mut self, order: Order, world: &mut World) {
        // Whoever asks for a gang first reads how the run stands.
        let is_first = order.node == 0 && !self.journal.open.contains_key(&order.token);
        if is_first && world.is_completed() && self.may_act(world) {
            if !world.lacks(Mutant::CompletionIsMissed) {
                let sign = Sign { epoch: 0, beat: 0 };
                let outcome = Some(Outcome::Completed);
                let report = Report { epoch: 0, sign, done: 1.0, has_saved: true, has_started: true, outcome };
                return world.send(0.1, self.number, Event::Reported(report));
            }
            panic!("a gang is asked for, and the run is completed\n{}", world.log.join("\n"));
        }
        if !self.may_act(world) {
            // What the last gang said could not be told from the words of the next.
            let unclear = Err(LaunchError::Unclear { code: "the store did not answer".to_owned() });
            return world.send(0.1, self.number, Event::Answered { token: order.token, outcome: unclear });
        }
        let granted = world.store.ledger.as_ref().filter(|granted| granted.number >= order.ledger.number);
        if let Some(granted) =
            granted.filter(|granted| **granted != order.ledger && !world.lacks(Mutant::LedgerIsForgotten))
        {
            let event = Event::Granted(granted.clone());
            return world.send(0.1, self.number, event);
        }
        world.store.ledger = Some(order.ledger.clone());
        world.check_leases(&order.ledger);
        if self.journal.open.insert(order.token.clone(), world.now).is_none() {
            self.journal.past.orders += 1;
        }
        self.journal.past.epoch = self.journal.past.epoch.max(order.epoch);
        if self.controller.gang_epoch().is_some() {
            world.beside.insert(order.epoch);
        }
        world.create(self.number, self.lead, order);
        if world.chance(0.002 * world.chaos) {
            // Between its look and the arrival of its call.
            world.at(0.1, Due::TakesOver { sleeps: true });
        }
        if world.chance(0.004 * world.chaos) {
            // It dies before it hears the answer, and somebody stops the run.
            self.is_dead = true;
            self.remember(None);
            let after = 3.0 * world.draws.uniform();
            world.at(after, Due::Stops { leader: self.number });
        }
    }

    /// True: machines came, went, or cost something else.
    fn remember(&mut self, settled: Option<String>) -> bool {
        let journal = &mut self.journal;
        if let Some(token) = settled {
            journal.open.remove(&token);
        }
        let is_news = have_changed(&journal.past.rentals, self.controller.rentals());
        if is_news {
            journal.past.rentals = self.controller.rentals().clone();
        }
        if is_news || journal.counted != journal.found.len() {
            let rentals = &journal.past.rentals;
            let stands = |found: &&Standing| rentals.open().any(|rental| rental.machine == found.machine);
            journal.past.standing = journal.found.iter().filter(stands).cloned().collect();
            journal.counted = journal.found.len();
        }
        journal.past.done = self.controller.done();
        journal.past.interruptions = self.controller.interruptions;
        journal.past.open_since = journal.open.values().copied().reduce(f64::max);
        is_news
    }

    /// The gang that runs, or else the last that was ordered.
    fn speaks(&self) -> u64 {
        self.controller.gang_epoch().unwrap_or(self.controller.epoch())
    }

    /// What the store says of the gang.
    pub fn look(&mut self, world: &mut World) {
        world.at(LOOK, Due::Look { leader: self.number });
        self.looks += 1;
        self.may_act(world);
        if self.is_dead {
            return;
        }
        if let Some(event) = self.read(world) {
            self.hear(event, world);
        }
    }

    /// A machine that is gone may have said before that the run is completed: the store is read before a list counts.
    pub fn is_shown(&mut self, listed: Event, world: &mut World) {
        if let Some(event @ Event::Reported(_)) = self.read(world) {
            self.hear(event, world);
        }
        self.hear(listed, world);
    }

    fn read(&self, world: &World) -> Option<Event> {
        // What the gang before it said last stands there until one that was ordered beside it speaks, and is heard as that.
        let speaks = self.speaks();
        let is_heard = |epoch: u64| epoch == speaks || world.beside.contains(&speaks);
        let is_completed = world.is_completed() && !world.lacks(Mutant::CompletionIsMissed);
        let spoken = world.store.word.clone().filter(|spoken| is_heard(spoken.epoch) || is_completed);
        let is_anothers = spoken.as_ref().is_some_and(|spoken| spoken.epoch != speaks);
        if is_anothers && world.lacks(Mutant::WordsOfTheOldGangCount) {
            return None;
        }
        Some(match spoken {
            _ if world.is_store_away() && world.lacks(Mutant::BlindIsSilent) => Event::Silent,
            _ if world.is_store_away() => Event::Unreadable,
            None => Event::Silent,
            Some(spoken) => {
                let beat = if world.lacks(Mutant::OldWordIsLife) { self.looks } else { spoken.beat };
                Event::Reported(Report {
                    epoch: spoken.epoch,
                    sign: Sign { epoch: spoken.epoch, beat },
                    done: spoken.done,
                    has_saved: spoken.done > 0.0,
                    has_started: true,
                    outcome: match spoken {
                        _ if spoken.done >= 1.0 => Some(Outcome::Completed),
                        _ if spoken.is_capped => Some(Outcome::CapReached),
                        _ => spoken.leaves.then_some(Outcome::Interrupted),
                    },
                })
            }
        })
    }
}

/// The terms of the same run under another leader.
pub fn led(terms: &Terms, lead: u64) -> Terms {
    Terms { launch: Launch { lead, ..terms.launch.clone() }, ..terms.clone() }
}

/// Which machine it is, since when and what is charged at least stay as they were.
fn have_changed(before: &Rentals, now: &Rentals) -> bool {
    let has = |(a, b): (&Rental, &Rental)| a.until != b.until || a.rate != b.rate || a.moved != b.moved;
    before.0.len() != now.0.len() || before.0.iter().zip(&now.0).any(has)
}

/// The token of an order that the event answers clearly.
fn settled(event: &Event) -> Option<String> {
    match event {
        Event::Answered { token, outcome } if !matches!(outcome, Err(LaunchError::Unclear { .. })) => {
            Some(token.clone())
        }
        _ => None,
    }
}
