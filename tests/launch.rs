//! Deterministic simulation: controller, journal, agents and clouds on virtual time, with everything going wrong that a seed asks.
//!
//! Answers are lost, late, doubled; lists are behind; machines are taken with and without a word; the controller dies and is
//! rebuilt from its journal at any step. What must hold whatever happens is checked at every event.

mod failover;
mod gangs;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use rayon::prelude::*;

use gpuplan::launch::controller::Controller;
use gpuplan::launch::events::{Action, End, Event, Order, Outcome, Rentable, Report, ResumeState, Terms};
use gpuplan::launch::launcher::{LaunchError, Machine, MachineId, MachineState, Market, Pool};
use gpuplan::spot::AvailabilityModel;
use gpuplan::spot::policy::semi_markov::Tables;
use gpuplan::spot::policy::{Limits, Policy, PoolTerms};
use gpuplan::units::draw::Draws;
use gpuplan::units::{Usd, UsdPerHour};

const HOUR: f64 = 3600.0;
const TICK: f64 = 600.0;
const WORK: f64 = 6.0 * HOUR;
const DEADLINE: f64 = 12.0 * HOUR;
const LIFETIME: f64 = 10.0 * HOUR;
const SAVES_EVERY: f64 = 900.0;
/// A cloud ends a machine within so long of being told.
const ENDS_WITHIN: f64 = 40.0;
/// A list is behind by so much at most.
const LIST_BEHIND: f64 = 55.0;
/// What has ended is listed for about so long, as on EC2.
const LISTED_AFTER: f64 = HOUR;

/// A machine of the simulated clouds.
#[derive(Clone, Debug)]
struct Rented {
    machine: Machine,
    created: f64,
    listed_from: f64,
    /// The cloud takes it away, the user ends it, or its own timer does.
    ends: f64,
    boots: f64,
    rate: f64,
}

/// What would survive a crash: orders before they are sent, answers once they came.
#[derive(Clone, Debug, Default)]
struct Journal {
    past: ResumeState,
    open: BTreeMap<String, Order>,
}

enum Due {
    To(Event),
    Arrives { order: Order, then: Option<Result<(), LaunchError>>, answer_after: Option<f64> },
}

struct World {
    draws: Draws,
    chaos: f64,
    now: f64,
    /// The last wish to be woken stands.
    wake: f64,
    due: BTreeMap<(u64, u64), Due>,
    count: u64,
    /// In the order in which they were rented; at most one a token.
    rented: Vec<Rented>,
    /// Safe work, and the epoch that may add to it.
    safe: f64,
    claimed: u64,
    whole_since: Option<(u64, f64)>,
    journal: Journal,
    seen_done: f64,
    crashes: u32,
    log: Vec<String>,
}

fn terms(nodes: u32, budget: Option<f64>) -> Terms {
    static TABLES: OnceLock<Arc<Tables>> = OnceLock::new();
    let pool = |zone: &str, market| Pool {
        cloud: "sim".to_owned(),
        region: "r".to_owned(),
        zone_id: Some(zone.to_owned()),
        instance_type: "p5.48xlarge".to_owned(),
        market,
    };
    let choice = |zone: &str, market, rate: &str| Rentable {
        pool: pool(zone, market),
        rate: UsdPerHour::parse(rate).unwrap(),
        minimum_seconds: 60,
    };
    let spot = vec![choice("a", Market::Spot, "20"), choice("b", Market::Spot, "22"), choice("c", Market::Spot, "25")];
    let on_demand = vec![choice("a", Market::OnDemand, "60"), choice("b", Market::OnDemand, "60")];
    let all = |choice: &Rentable| UsdPerHour::from_nanos(choice.rate.nanos() * i64::from(nodes));
    let pools = spot.iter().map(|spot| PoolTerms {
        spot: all(spot),
        on_demand: None,
        switch_cost: Usd::ZERO,
        switch_changeover: 720.0,
    });
    let limits = Limits {
        work: WORK,
        deadline: DEADLINE,
        tick: TICK,
        changeover: 720.0,
        worst_changeover: 2160.0,
        on_demand: all(&on_demand[0]),
        pools: pools.collect(),
        budget: budget.map(|budget| Usd::from_dollars(budget).unwrap()),
    };
    let one = Limits { budget: None, ..limits.clone() };
    let tables = TABLES.get_or_init(|| Arc::new(Tables::new(&AvailabilityModel::prior(), &one))).clone();
    let policy = if nodes == 1 { Policy::SemiMarkov(tables) } else { Policy::SlackReserve };
    Terms {
        run: "run".to_owned(),
        nodes,
        spot,
        on_demand,
        limits,
        policy,
        lifetime: LIFETIME,
        gang_limit: 900.0,
        silence: 120.0,
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed, 7);
        let chaos = draws.uniform();
        Self {
            draws,
            chaos,
            now: 0.0,
            wake: f64::INFINITY,
            due: BTreeMap::new(),
            count: 0,
            rented: Vec::new(),
            safe: 0.0,
            claimed: 0,
            whole_since: None,
            journal: Journal::default(),
            seen_done: 0.0,
            crashes: 0,
            log: Vec::new(),
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        self.draws.uniform() < share
    }

    fn at(&mut self, after: f64, due: Due) {
        self.count += 1;
        self.due.insert((((self.now + after) * 1000.0) as u64, self.count), due);
    }

    fn send(&mut self, after: f64, event: Event) {
        self.at(after, Due::To(event));
    }

    fn act_all(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.act(action);
        }
    }

    /// One action of the controller: the journal first.
    fn act(&mut self, action: Action) {
        match action {
            Action::Create(order) => self.create(order),
            Action::Destroy(id) => {
                if !self.chance(0.1 * self.chaos) {
                    let gone = self.now + ENDS_WITHIN * self.draws.uniform();
                    if let Some(rented) = self.rented.iter_mut().find(|rented| rented.machine.id == id) {
                        rented.ends = rented.ends.min(gone);
                    }
                    self.send(ENDS_WITHIN, Event::Destroyed(id));
                }
            }
            Action::List => {
                if !self.chance(0.1 * self.chaos) {
                    let listed = self.list();
                    let after = 0.1 + 5.0 * self.draws.uniform();
                    self.send(after, Event::Listed(listed));
                }
            }
            Action::Wake(at) => self.wake = at.max(self.now + 0.001),
            Action::Say(line) => self.log.push(format!("{:.0}: {line}", self.now)),
        }
    }

    fn create(&mut self, order: Order) {
        if self.journal.open.insert(order.token.clone(), order.clone()).is_none() {
            self.journal.past.orders += 1;
        }
        self.journal.past.epoch = self.journal.past.epoch.max(order.epoch);
        self.journal.past.last_pool = Some(order.choice.pool.clone());
        let refusal = self.refusal(&order);
        let is_lost = self.chance(0.15 * self.chaos);
        let arrives = !is_lost || self.chance(0.5);
        let latency =
            if self.chance(0.1 * self.chaos) { 30.0 + 60.0 * self.draws.uniform() } else { 0.2 + self.draws.uniform() };
        if is_lost {
            // The caller's own limit of time makes it unclear.
            let unclear = Err(LaunchError::Unclear { code: "timeout".to_owned() });
            self.send(30.0, Event::Answered { token: order.token.clone(), outcome: unclear });
        }
        if arrives {
            self.at(latency, Due::Arrives { order, then: Some(refusal), answer_after: (!is_lost).then_some(0.3) });
        }
    }

    fn refusal(&mut self, order: &Order) -> Result<(), LaunchError> {
        let is_spot = order.choice.pool.market == Market::Spot;
        let scarce = if is_spot { 0.5 } else { 0.05 };
        if self.chance(scarce * self.chaos) {
            return Err(LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() });
        }
        if is_spot && self.chance(0.02 * self.chaos) {
            return Err(LaunchError::Quota { code: "L-7212CCBC".to_owned(), request: "aws service-quotas".to_owned() });
        }
        Ok(())
    }

    /// The same token is the same machine.
    fn arrive(&mut self, order: &Order, refusal: Result<(), LaunchError>, answer_after: Option<f64>) {
        let outcome = match (self.rented.iter().find(|rented| rented.machine.token == order.token), refusal) {
            (Some(rented), _) => Ok(rented.machine.clone()),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => {
                let mean = if order.choice.pool.market == Market::Spot { 4.0 * HOUR } else { 400.0 * HOUR };
                let taken = self.now - mean * (1.0 - self.draws.uniform()).ln();
                let machine = Machine {
                    id: MachineId(format!("m-{}", self.rented.len())),
                    run: "run".to_owned(),
                    epoch: order.epoch,
                    node: order.node,
                    token: order.token.clone(),
                    pool: order.choice.pool.clone(),
                    state: MachineState::Running,
                    reason: None,
                    was_taken: true,
                    created_at: Timestamp::UNIX_EPOCH,
                    expires_at: Timestamp::UNIX_EPOCH,
                    owner: String::new(),
                };
                let rented = Rented {
                    created: self.now,
                    listed_from: self.now + LIST_BEHIND * self.draws.uniform() * self.chaos,
                    ends: taken.min(self.now + order.lifetime),
                    boots: self.now + 100.0 + 400.0 * self.draws.uniform(),
                    rate: order.choice.rate.dollars(),
                    machine: machine.clone(),
                };
                assert!(order.lifetime <= LIFETIME);
                self.rented.push(rented);
                Ok(machine)
            }
        };
        let Some(after) = answer_after else { return };
        let answer = Event::Answered { token: order.token.clone(), outcome };
        if self.chance(0.05 * self.chaos) {
            let late = after + 100.0 * self.draws.uniform();
            self.send(late, answer.clone());
        }
        self.send(after, answer);
    }

    fn list(&self) -> Vec<Machine> {
        let shown =
            self.rented.iter().filter(|rented| rented.listed_from <= self.now && self.now < rented.ends + LISTED_AFTER);
        let state = |rented: &Rented| if rented.ends <= self.now { MachineState::Gone } else { MachineState::Running };
        shown.map(|rented| Machine { state: state(rented), ..rented.machine.clone() }).collect()
    }

    /// Epochs with all their machines alive and booted.
    fn whole(&self, nodes: u32) -> Vec<u64> {
        let mut alive: Vec<(u64, u32)> = Vec::new();
        for rented in &self.rented {
            if rented.boots <= self.now && self.now < rented.ends {
                match alive.iter_mut().find(|(epoch, _)| *epoch == rented.machine.epoch) {
                    Some((_, count)) => *count += 1,
                    None => alive.push((rented.machine.epoch, 1)),
                }
            }
        }
        alive.into_iter().filter(|(_, count)| *count >= nodes).map(|(epoch, _)| epoch).collect()
    }

    /// What the agents do until `until`: the highest whole epoch claims the run and saves at its pace; each says so.
    fn agents(&mut self, until: f64, nodes: u32) {
        let whole = self.whole(nodes);
        assert!(whole.len() <= 1, "two gangs at work: {whole:?}\n{}", self.log.join("\n"));
        let epoch = whole.first().copied().filter(|epoch| *epoch >= self.claimed);
        match (epoch, self.whole_since) {
            (Some(epoch), Some((of, since))) if epoch == of => {
                let times = ((until - since) / SAVES_EVERY).floor();
                if times >= 1.0 {
                    let saved = (self.safe + times * SAVES_EVERY).min(WORK);
                    (self.safe, self.whole_since) = (saved, Some((epoch, since + times * SAVES_EVERY)));
                }
            }
            (Some(epoch), _) => (self.claimed, self.whole_since) = (epoch, Some((epoch, until))),
            (None, _) => self.whole_since = None,
        }
    }

    /// Every half minute the agent of the claimed epoch says what is safe, sometimes late, sometimes not.
    fn report(&mut self) {
        if self.whole_since.is_none() || self.chance(0.2 * self.chaos) {
            return;
        }
        let done = self.safe / WORK;
        let outcome = (self.safe >= WORK).then_some(Outcome::Completed);
        let after = if self.chance(0.1 * self.chaos) { 200.0 * self.draws.uniform() } else { 1.0 };
        self.send(after, Event::Reported(Report { epoch: self.claimed, done, has_started: true, outcome }));
    }

    fn cost(&self, until: f64) -> f64 {
        self.rented.iter().map(|rented| (rented.ends.min(until) - rented.created).max(60.0) / HOUR * rented.rate).sum()
    }
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

fn remember(journal: &mut Journal, controller: &Controller, settled: Option<String>) {
    if let Some(token) = settled {
        journal.open.remove(&token);
    }
    if journal.past.rentals != *controller.rentals() {
        journal.past.rentals = controller.rentals().clone();
    }
    journal.past.done = controller.done();
    journal.past.interruptions = controller.interruptions;
    journal.past.has_open_order = !journal.open.is_empty();
}

/// Runs one seed to its end, and gives what was said and how it ended.
fn simulate(seed: u64) -> (End, Vec<String>) {
    let mut world = World::new(seed);
    let nodes = 1 + u32::from(world.chance(0.4)) * 2;
    let budget = world.chance(0.5).then(|| 100.0 * f64::from(nodes) * (0.5 + 3.0 * world.draws.uniform()));
    let is_stopped = world.chance(0.1);
    let terms = terms(nodes, budget);
    let mut controller = Controller::new(terms.clone(), 0, 0.0);
    let actions = controller.step(0.0, Event::Clock);
    world.act_all(actions);
    if is_stopped {
        let at = 8.0 * HOUR * world.draws.uniform();
        world.send(at, Event::Stop);
    }
    let (mut next_report, mut events) = (30.0, 0);
    while controller.end().is_none() {
        events += 1;
        assert!(
            events < 200_000 && world.now < 20.0 * 24.0 * HOUR,
            "no end after {events} events at {}, wake {}: {:?}",
            world.now,
            world.wake,
            &world.log[world.log.len().saturating_sub(20)..]
        );
        let first = world.due.keys().next().copied();
        let at = first.map_or(f64::INFINITY, |(at, _)| at as f64 / 1000.0);
        if world.wake < at.min(next_report) {
            world.now = world.now.max(std::mem::replace(&mut world.wake, f64::INFINITY));
            world.agents(world.now, nodes);
            hear(&mut world, &mut controller, &terms, Event::Clock);
            continue;
        }
        if at > next_report {
            world.now = next_report;
            world.agents(world.now, nodes);
            world.report();
            next_report += 30.0;
            continue;
        }
        let Some(due) = first.and_then(|key| world.due.remove(&key)) else { continue };
        world.now = world.now.max(at);
        world.agents(world.now, nodes);
        let event = match due {
            Due::To(event) => event,
            Due::Arrives { order, then, answer_after } => {
                world.arrive(&order, then.unwrap_or(Ok(())), answer_after);
                continue;
            }
        };
        if world.crashes < 5 && world.chance(0.003 * world.chaos) {
            // The controller dies before it hears of this, and somebody starts another, which knows the journal alone.
            world.crashes += 1;
            world.now += 300.0 * world.draws.uniform();
            controller = Controller::resume(terms.clone(), world.journal.past.clone(), world.now);
            let actions = controller.step(world.now, Event::Clock);
            world.act_all(actions);
            continue;
        }
        hear(&mut world, &mut controller, &terms, event);
    }
    at_the_end(&world, &controller, &terms);
    let line = format!(
        "{:?} after {:.0} s, ${:.2}, {} machines",
        controller.end(),
        world.now,
        world.cost(world.now),
        world.rented.len()
    );
    world.log.push(line);
    (controller.end().cloned().unwrap(), world.log)
}

fn hear(world: &mut World, controller: &mut Controller, terms: &Terms, event: Event) {
    let settled = settled(&event);
    let actions = controller.step(world.now, event);
    remember(&mut world.journal, controller, settled);
    world.act_all(actions);
    check(world, controller, terms);
}

fn check(world: &mut World, controller: &Controller, terms: &Terms) {
    assert!(controller.done() >= world.seen_done, "progress went back");
    assert!(controller.done() * WORK <= world.safe + 1e-6, "more was heard than is safe");
    world.seen_done = controller.done();
    if let Some(budget) = terms.limits.budget {
        // A step of the policy, and the time in which a cloud ends a machine or lists one that nobody heard of.
        let step = (TICK + ENDS_WITHIN + LIST_BEHIND) / HOUR * 60.0 * f64::from(terms.nodes);
        assert!(world.cost(world.now) <= budget.dollars() + step, "${} of {budget}", world.cost(world.now));
    }
}

fn at_the_end(world: &World, controller: &Controller, terms: &Terms) {
    // An order that nobody answered may still arrive; whatever it makes ends by itself, and `gc` finds it by its tag.
    let alive: Vec<&Rented> =
        world.rented.iter().filter(|rented| world.now < rented.ends && rented.created < world.now - 120.0).collect();
    assert!(alive.is_empty(), "left behind: {alive:?}\n{}", world.log.join("\n"));
    let known = |rented: &Rented| controller.rentals().0.iter().any(|rental| rental.machine == rented.machine.id);
    let lost = world
        .rented
        .iter()
        .filter(|rented| rented.ends > rented.created + LIST_BEHIND + 120.0 && !known(rented))
        .count();
    assert_eq!(lost, 0, "a machine was paid for that nobody knows\n{}", world.log.join("\n"));
    let said = controller.rentals().spent(world.now).dollars();
    let slack =
        0.05 * world.cost(world.now) + f64::from(terms.nodes) * 60.0 * (ENDS_WITHIN + LIST_BEHIND) / HOUR * 40.0;
    assert!(said + slack >= world.cost(world.now), "said ${said}, paid ${}", world.cost(world.now));
    if controller.end() == Some(&End::Completed) {
        assert!(world.safe >= WORK);
    }
}

#[test]
fn whatever_goes_wrong_nothing_is_lost() {
    let asked = std::env::var("GPUPLAN_SIMULATED_SEEDS").ok().and_then(|text| text.parse().ok());
    let seeds: u64 = asked.unwrap_or(2_500);
    // One that went wrong, alone.
    if let Some(seed) = std::env::var("GPUPLAN_SIMULATED_SEED").ok().and_then(|text| text.parse().ok()) {
        let (end, log) = simulate(seed);
        return assert!(log.is_empty(), "seed {seed} {end:?}\n{}", log.join("\n"));
    }
    let run = |seed: u64| std::panic::catch_unwind(|| simulate(seed)).unwrap_or_else(|_| panic!("seed {seed}")).0;
    let all: Vec<End> = (0..seeds).into_par_iter().map(run).collect();
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for end in all {
        *ends.entry(format!("{end:?}").split('(').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let of = |name: &str| ends.get(name).copied().unwrap_or_default();
    assert!(of("Completed") > of("OutOfBudget") && of("OutOfBudget") > 0 && of("Stopped") > 0, "{ends:?}");
}

#[test]
fn a_seed_says_the_same_again() {
    for seed in [1, 2, 3] {
        assert_eq!(simulate(seed), simulate(seed));
    }
}
