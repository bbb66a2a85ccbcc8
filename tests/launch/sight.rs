//! The policy that is simulated is the policy that runs: over traces, the controller takes the decisions of the replay, tick by tick.
//!
//! Answers come at once and machines are taken at the start of a tick, so that both see the same world; what a late answer or a lost one
//! does is the matter of the simulation. The committed traces are part of the counts of H100 machines on Google Cloud, October 2025, every
//! ten minutes (andylizf/skynomad-artifact, commit 62b9aaa1, Apache-2.0): the first 1,000 ticks of three zones.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpuplan::launch::controller::Controller;
use gpuplan::launch::controller::liveness::Sign;
use gpuplan::launch::events::{Action, End, Event, Order, Outcome, Rentable, Report, Terms};
use gpuplan::launch::launcher::{LaunchError, Machine, MachineState, Market, Pool};
use gpuplan::launch::names::Launch;
use gpuplan::spot::AvailabilityModel;
use gpuplan::spot::history::Saw;
use gpuplan::spot::policy::reason::Reason;
use gpuplan::spot::policy::semi_markov::Tables;
use gpuplan::spot::policy::{self, Limits, Policy, PoolTerms};
use gpuplan::spot::replay::{self, World, replay};
use gpuplan::spot::trace::Trace;
use gpuplan::spot::watch::{FIRST_PAUSE, Watch};
use gpuplan::units::{Usd, UsdPerHour};

use crate::launch::made;
use crate::launch::simulation::{HOUR, TICK};

const TRACES: &str = include_str!("../fixtures/spot_h100.jsonl");
/// Nothing of this world takes so long. Seconds.
const NEVER: f64 = 1e8;

/// A run on pools that are up as a trace says, led by the real controller.
struct Led<'a> {
    controller: Controller,
    limits: &'a Limits,
    nodes: u32,
    world: World<'a>,
    tick: usize,
    now: f64,
    beats: u64,
    /// Where each gang stands.
    places: BTreeMap<u64, policy::Action>,
    machines: BTreeMap<u64, Vec<Machine>>,
    /// Work left, and what is left of the changeover of the gang that runs.
    left: f64,
    changing: f64,
    last_pool: Option<usize>,
    runs: Option<u64>,
}

impl<'a> Led<'a> {
    fn new(policy: &Policy, limits: &'a Limits, nodes: u32, world: World<'a>, start: usize) -> Self {
        Self {
            controller: Controller::new(terms(policy, limits, nodes), 0, 0.0),
            limits,
            nodes,
            world,
            tick: start,
            now: 0.0,
            beats: 0,
            places: BTreeMap::new(),
            machines: BTreeMap::new(),
            left: limits.work,
            changing: 0.0,
            last_pool: None,
            runs: None,
        }
    }

    fn hear(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.controller.step(self.now, event) {
                match action {
                    Action::Create(order) => {
                        let outcome = self.create(&order);
                        events.push(Event::Answered { token: order.token, outcome });
                    }
                    Action::Destroy(machine) => events.push(Event::Destroyed(machine)),
                    Action::Notify => events.push(self.report(Some(Outcome::Interrupted))),
                    Action::List | Action::Wake(_) | Action::Say(_) => {}
                }
            }
        }
        if self.controller.end().is_none() && self.controller.gang_epoch().is_none() {
            // The controller asks to be woken for what is left to do at this moment.
            for action in self.controller.step(self.now, Event::Clock) {
                assert!(!matches!(action, Action::Create(_)), "{action:?}");
            }
        }
    }

    fn create(&mut self, order: &Order) -> Result<Machine, LaunchError> {
        let spot = order.choice.pool.zone_id.as_deref().and_then(|zone| zone.parse::<usize>().ok());
        let place = spot.map_or(policy::Action::OnDemand(None), policy::Action::Spot);
        if spot.is_some_and(|pool| !self.world.pools[pool][self.tick]) {
            return Err(LaunchError::Capacity { code: "InsufficientInstanceCapacity".to_owned() });
        }
        let machine = Machine { was_taken: true, ..made(order, format!("{}-{}", order.epoch, order.node)) };
        self.places.insert(order.epoch, place);
        self.machines.entry(order.epoch).or_default().push(machine.clone());
        Ok(machine)
    }

    fn report(&mut self, outcome: Option<Outcome>) -> Event {
        self.beats += 1;
        let epoch = self.controller.gang_epoch().unwrap_or_default();
        let done = (1.0 - self.left / self.limits.work).min(1.0);
        Event::Reported(Report {
            epoch,
            sign: Sign { epoch, beat: self.beats },
            done,
            has_saved: true,
            has_started: true,
            outcome,
        })
    }

    /// The cloud says what one machine of each pool costs now; nothing is done for that alone.
    fn hear_prices(&mut self) {
        if self.world.rates.is_empty() {
            return;
        }
        let of_one = |rates: &&[UsdPerHour]| UsdPerHour::from_nanos(rates[self.tick].nanos() / i64::from(self.nodes));
        let prices = self.world.rates.iter().map(|rates| Some(of_one(rates))).collect();
        assert_eq!(self.controller.step(self.now, Event::Priced(prices)), []);
    }

    /// What runs in each tick until the work is done, and what was seen of the pools meanwhile.
    fn decisions(mut self) -> Run {
        let mut taken = Vec::new();
        loop {
            self.hear_prices();
            let running = self.controller.gang_epoch();
            let is_gone =
                |epoch| matches!(self.places[&epoch], policy::Action::Spot(pool) if !self.world.pools[pool][self.tick]);
            if let Some(epoch) = running.filter(|epoch| is_gone(*epoch)) {
                let gone = |machine: &Machine| Machine { state: MachineState::Gone, ..machine.clone() };
                let machines = self.machines[&epoch].iter().map(gone).collect();
                self.hear(Event::Listed { machines, asked_at: self.now });
            }
            self.hear(Event::Clock);
            assert!(self.controller.end().is_none(), "{:?}", self.controller.end());
            let runs = self.controller.gang_epoch();
            let action = runs.map_or(policy::Action::Idle, |epoch| self.places[&epoch]);
            taken.push(action);
            if let Some(epoch) = runs.filter(|_| runs != self.runs) {
                assert_eq!(self.machines[&epoch].len() as u32, self.nodes);
                self.changing = self.limits.changeover_to(action, self.last_pool);
            }
            self.runs = runs;
            if runs.is_some() {
                self.left -= (TICK - self.changing).max(0.0);
                self.changing = (self.changing - TICK).max(0.0);
                self.last_pool = action.pool().or(self.last_pool);
            }
            (self.tick, self.now) = (self.tick + 1, self.now + TICK - 1.0);
            if self.left <= 1e-6 {
                let completed = self.report(Some(Outcome::Completed));
                self.hear(completed);
                assert_eq!(self.controller.end(), Some(&End::Completed));
                let spent = self.controller.rentals().spent(self.now);
                return Run { taken, seen: self.controller.take_sightings(), spent };
            }
            if runs.is_some() {
                let report = self.report(None);
                self.hear(report);
            }
            self.now += 1.0;
        }
    }
}

/// What a run came to.
struct Run {
    taken: Vec<policy::Action>,
    seen: Vec<(Pool, Saw)>,
    spent: Usd,
}

fn terms(policy: &Policy, limits: &Limits, nodes: u32) -> Terms {
    let choice = |zone: String, market, rate: UsdPerHour| {
        let rate = UsdPerHour::from_nanos(rate.nanos() / i64::from(nodes));
        let (cloud, region, instance_type) = ("sim".to_owned(), "r".to_owned(), "a3-highgpu-1g".to_owned());
        let pool = Pool { cloud, region, zone_id: Some(zone), instance_type, market };
        Rentable { pool, rate, minimum_seconds: 60, most: rate, start: Usd::ZERO }
    };
    let spot = limits.pools.iter().enumerate().map(|(pool, terms)| choice(pool.to_string(), Market::Spot, terms.spot));
    Terms {
        launch: Launch { run: "run".to_owned(), at: 7, lead: 1 },
        nodes,
        spot: spot.collect(),
        on_demand: vec![choice("any".to_owned(), Market::OnDemand, limits.on_demand)],
        limits: limits.clone(),
        policy: policy.clone(),
        first: None,
        bound: None,
        lifetime: NEVER,
        gang_limit: 900.0,
        silence: NEVER,
        settles: 0.0,
    }
}

/// Controller and replay decide alike in every window that fits. How many windows there are.
fn compare(jobs: &[Vec<Vec<bool>>], nodes: u32, starts: usize) -> usize {
    let mut windows = 0;
    for job in jobs {
        let pools: Vec<&[bool]> = job.iter().map(Vec::as_slice).collect();
        for (work, deadline, changeover) in [(6.0, 9.0, 0.2), (12.0, 14.0, 0.3), (24.0, 30.0, 0.2), (1.0, 6.0, 0.35)] {
            let limits = limits(work, deadline, changeover, pools.len());
            let tables = Arc::new(Tables::new(&AvailabilityModel::prior(), &limits));
            for policy in [Policy::SemiMarkov(tables), Policy::SlackReserve] {
                let room = pools[0].len() - (deadline * HOUR / TICK) as usize - 10;
                for window in 0..starts {
                    let start = room * window / starts;
                    let watch = Watch::attempts(pools.len(), TICK, FIRST_PAUSE);
                    let replayed = replay(&policy, &limits, &World::from_pools(&pools), start, watch, true).unwrap();
                    let expected: Vec<policy::Action> = (replayed.decisions.iter())
                        .flat_map(|stretch| std::iter::repeat_n(stretch.action, stretch.ticks as usize))
                        .collect();
                    let Run { taken, seen, .. } =
                        Led::new(&policy, &limits, nodes, World::from_pools(&pools), start).decisions();
                    windows += 1;
                    let pools = pools.len();
                    assert_eq!(
                        taken, expected,
                        "{work} h in {deadline} h from {start}, {pools} pools, {nodes} machines"
                    );
                    // Whatever is had is lost or left in the end, and all of it is seen.
                    let of = |saw: Saw| seen.iter().filter(|(_, seen)| *seen == saw).count();
                    let runs = expected.chunk_by(|one, next| one == next);
                    let begun = runs.filter(|run| matches!(run[0], policy::Action::Spot(_))).count();
                    assert_eq!(of(Saw::Lost), replayed.interruptions as usize, "{seen:?}");
                    assert!(of(Saw::Gave) >= begun && of(Saw::Gave) == of(Saw::Lost) + of(Saw::Left), "{seen:?}");
                }
            }
        }
    }
    windows
}

fn limits(work: f64, deadline: f64, changeover: f64, pools: usize) -> Limits {
    let terms = |pool: usize| PoolTerms {
        spot: UsdPerHour::from_nanos(1_000_000_000 + 120_000_000 * pool as i64),
        on_demand: None,
        switch_cost: Usd::from_dollars(0.1 * pool as f64).unwrap(),
        // Where a changeover ends with a tick, the replay knows it one report earlier.
        switch_changeover: (changeover + 0.031 * pool as f64) * HOUR,
    };
    Limits {
        work: work * HOUR,
        deadline: deadline * HOUR,
        tick: TICK,
        changeover: changeover * HOUR,
        worst_changeover: 3.0 * changeover * HOUR,
        on_demand: UsdPerHour::from_nanos(3_000_000_000),
        pools: (0..pools).map(terms).collect(),
        budget: None,
    }
}

/// Each pool alone, and all of them together.
fn jobs(traces: &[Trace], nodes: u32) -> Vec<Vec<Vec<bool>>> {
    let all: Vec<Vec<bool>> = traces.iter().map(|trace| trace.up(nodes)).collect();
    all.iter().map(|pool| vec![pool.clone()]).chain([all.clone()]).collect()
}

#[test]
fn the_controller_decides_as_the_replay_does() {
    let traces = Trace::parse_all(TRACES, "h100").unwrap();
    let mut windows = 0;
    for nodes in [1, 8] {
        windows += compare(&jobs(&traces, nodes), nodes, 6);
    }
    assert!(windows >= 200, "{windows}");
}

/// A step of V100 prices, us-east-2a to its highest (andylizf/skynomad-artifact, Apache-2.0): spot at .918 dollars an hour, at 1.846 from the
/// middle of each window on, and back for its last quarter; the other pools hold still between the two.
#[test]
fn the_controller_decides_as_the_replay_does_where_a_pool_becomes_dearer() {
    const LOW: i64 = 918_000_000;
    const HIGH: i64 = 1_846_000_000;
    let traces = Trace::parse_all(TRACES, "h100").unwrap();
    let nodes = 2;
    let up: Vec<Vec<bool>> = traces.iter().map(|trace| trace.up(nodes)).collect();
    let pools: Vec<&[bool]> = up.iter().map(Vec::as_slice).collect();
    let (mut windows, mut moves, mut otherwise) = (0, 0, 0);
    for (work, deadline) in [(6.0, 9.0), (12.0, 20.0), (24.0, 30.0)] {
        let ticks = (deadline * HOUR / TICK) as usize;
        let on_demand = UsdPerHour::from_nanos(3_060_000_000 * i64::from(nodes));
        let mut limits = Limits { on_demand, ..limits(work, deadline, 0.2, pools.len()) };
        for start in (0..pools[0].len() - ticks - 10).step_by(60) {
            let rates: Vec<Vec<UsdPerHour>> = (0..pools.len())
                .map(|pool| {
                    let at = |tick: usize| match (pool, (tick.saturating_sub(start)) * 4 / ticks) {
                        (0, 0 | 1 | 3..) => LOW,
                        (0, _) => HIGH,
                        _ => i64::midpoint(LOW, HIGH) + 20_000_000 * pool as i64,
                    };
                    (0..up[0].len()).map(|tick| UsdPerHour::from_nanos(at(tick) * i64::from(nodes))).collect()
                })
                .collect();
            let rates: Vec<&[UsdPerHour]> = rates.iter().map(Vec::as_slice).collect();
            let world = World { rates: &rates, ..World::from_pools(&pools) };
            limits = world.terms(&limits, start).into_owned();
            let model = AvailabilityModel::prior();
            let all = [LOW, HIGH].into_iter().map(|rate| UsdPerHour::from_nanos(rate * i64::from(nodes)));
            let policy = Policy::SemiMarkov(Arc::new(Tables::moving(&model, &limits, all)));
            let watch = || Watch::attempts(pools.len(), TICK, FIRST_PAUSE);
            let of = |world: &World| replay(&policy, &limits, world, start, watch(), true).unwrap();
            let replayed = of(&world);
            let course = |outcome: &replay::Outcome| -> Vec<policy::Action> {
                let all = outcome.decisions.iter();
                all.flat_map(|stretch| std::iter::repeat_n(stretch.action, stretch.ticks as usize)).collect()
            };
            let led = Led::new(&policy, &limits, nodes, world, start).decisions();
            assert_eq!(led.taken, course(&replayed), "{work} h in {deadline} h from {start}");
            windows += 1;
            moves += replayed.decisions.iter().filter(|stretch| stretch.reason == Reason::CheaperPool).count();
            otherwise += usize::from(course(&of(&World::from_pools(&pools))) != led.taken);
            // Machines that were ordered beside others are paid for at once, as a replay pays whole ticks: they agree to a tick of on-demand.
            let (paid, cost) = (led.spent.dollars(), replayed.cost.dollars());
            let most = limits.on_demand.dollars() * TICK / HOUR * f64::from(replayed.starts + 1);
            assert!((paid - cost).abs() <= most, "{paid} paid, {cost} replayed");
        }
    }
    assert!(windows >= 40 && moves >= 10 && otherwise >= 20, "{windows} windows, {moves} moves, {otherwise} otherwise");
}

/// The same over the traces of another file, such as the public ones of AWS, which have no licence.
#[test]
#[ignore = "needs the public traces: GPUPLAN_SPOT_TRACES names the unpacked file"]
fn the_controller_decides_as_the_replay_does_on_public_traces() {
    let file = std::env::var("GPUPLAN_SPOT_TRACES").expect("GPUPLAN_SPOT_TRACES is not set");
    let all = Trace::parse_all(&std::fs::read_to_string(file).unwrap(), "traces").unwrap();
    let traces: Vec<Trace> = all.into_iter().filter(|trace| trace.gap == TICK).collect();
    let most = traces.iter().flat_map(|trace| trace.obtainable.iter().copied()).max().unwrap_or_default();
    for nodes in [1, 4, 16].into_iter().filter(|nodes| *nodes <= most) {
        assert!(compare(&jobs(&traces, nodes), nodes, 8) > 0, "{nodes} machines");
    }
}
