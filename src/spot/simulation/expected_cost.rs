//! The least expected cost of a job on one pool: a dynamic programme over time left, slack and the phase of the pool.

#![expect(clippy::inline_always, reason = "what `pass` calls is compiled with it, for each kind of vectors")]

use multiversion::multiversion;

use crate::availability::chain::{Onward, PHASES, onward};
use crate::availability::{AGES, AvailabilityModel};
use crate::policy::safety::whole_ticks_up;
use crate::simulation::elsewhere::{Costs, Elsewhere};
use crate::simulation::slack::{CELLS, CostRow, Loss, between, cells, width};

/// Steps of time; longer ones are taken for longer jobs.
const MOST_STEPS: f64 = 1500.0;
/// Seconds of a step where a job is no longer than that. The rates of the youngest ages are those of ten minutes, in which most spells end that are
/// short: a step of half an hour would let them hold for all of it.
const LONGEST_STEP: f64 = 600.0;
/// Steps of a changeover to spot, each of which may be the last one of the machine; longer steps are taken for longer changeovers.
const MOST_STAGES: f64 = 12.0;
/// Slack beyond this, in work and in seconds, changes nothing.
const MOST_SLACK_OF_WORK: f64 = 2.0;
const MOST_SLACK: f64 = 240.0 * 3600.0;
/// Whoever waits wants the work done, too: an hour of it counts as this share of an hour on on-demand machines. Judged, so that nobody
/// waits for a day to save cents.
pub const WAITING: f64 = 0.01;

/// What the programme is solved for. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Time to the deadline at most. Of a job that has less a longer table with the same step says the same.
    pub horizon: f64,
    pub tick: f64,
    pub changeover: f64,
    pub worst_changeover: f64,
    /// On-demand rate over spot rate.
    pub price_ratio: f64,
}

impl Terms {
    /// Time to the deadline that matters to this job. Seconds.
    pub fn horizon_of(work: f64, deadline: f64, tick: f64) -> f64 {
        let most = (work * MOST_SLACK_OF_WORK).max(MOST_SLACK);
        work + (deadline - work).min(most).max(tick)
    }

    /// Seconds between two decisions of the programme: a tick, or half a changeover and ten minutes at most where ticks are shorter; longer for long
    /// horizons and changeovers.
    pub fn step(&self) -> f64 {
        let fine = ((self.changeover / 2.0).min(LONGEST_STEP) / self.tick).floor().max(1.0);
        let coarse = (self.horizon / MOST_STEPS).max(self.changeover / MOST_STAGES);
        self.tick * fine.max((coarse / self.tick).ceil())
    }

    /// Whether a table for these terms answers for the others, too: it does so exactly.
    pub fn cover(&self, other: &Self) -> bool {
        self.horizon >= other.horizon
            && self.step() == other.step()
            && *self == Self { horizon: self.horizon, ..*other }
    }
}

/// What to do from idle, and whether to leave on-demand for spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Wait,
    Spot,
    OnDemand,
}

/// The best action in every cell.
#[derive(Clone, Debug)]
pub struct Table {
    step: f64,
    steps: usize,
    /// Work and slack together of what is asked, at most. Seconds.
    horizon: f64,
    /// Slack of each cell, in seconds.
    slacks: Vec<f64>,
    /// By whole steps of slack: cells with less.
    cells_below: Vec<u8>,
    /// Two bits for `Start`, and `LEAVE`.
    actions: Vec<u8>,
    /// Where pools are weighed against each other.
    costs: Option<Costs>,
}

/// To wait is 0.
const START_SPOT: u8 = 1;
const START_ON_DEMAND: u8 = 2;
const LEAVE: u8 = 4;

impl Table {
    /// Of a job on this pool alone, or on others to which it moves at no cost.
    pub fn new(model: &AvailabilityModel, terms: &Terms) -> Self {
        Self::beside(model, terms, None)
    }

    /// Solves backwards from the deadline. Costs are in hours of spot.
    pub fn beside(model: &AvailabilityModel, terms: &Terms, elsewhere: Option<Elsewhere>) -> Self {
        let step = terms.step();
        // The nearest cell may have half a cell more slack than what is asked, and work is counted in whole steps.
        let steps = ((terms.horizon + width(terms.horizon, step) / 2.0) / step).ceil() as usize + 1;
        let slacks = cells(terms.horizon, step);
        let count = slacks.len();
        let mut solver = Solver::new(terms, step, &slacks, elsewhere);
        let ways = onward(model, step);
        let mut actions = vec![0_u8; (steps + 1) * PHASES * count];
        let mut costs = elsewhere.map(|_| Costs::new(steps, count));
        let mut keep = |left: usize, now: &Values| {
            if let Some(costs) = &mut costs {
                costs.keep(left, &now.idle, &now.on_demand);
            }
        };
        keep(0, &solver.then);
        let mut done = Done::default();
        for (left, block) in actions.chunks_exact_mut(PHASES * count).enumerate().skip(1) {
            done.then = done.now;
            while done.now < count && slacks[done.now] < left as f64 * step - 1e-6 {
                done.now += 1;
            }
            pass(&mut solver, &ways, done, block);
            keep(left, &solver.then);
        }
        let most_steps = (slacks[count - 1] / step) as usize + 1;
        let below = |steps: usize| slacks.partition_point(|slack| *slack < steps as f64 * step) as u8;
        let cells_below = (0..=most_steps).map(below).collect();
        Self { step, steps, horizon: terms.horizon, slacks, cells_below, actions, costs }
    }

    /// From idle, and from on-demand, with this slack (time left less work and changeover left) and work left.
    pub fn best(&self, work: f64, slack: f64, phase: usize) -> (Start, bool) {
        let (slack, below, above) = self.cells(work, slack);
        // The nearest cell, and between two the lower one, whatever a sum of seconds was rounded to.
        let cell = if slack - self.slacks[below] < self.slacks[above] - slack + 1e-3 { below } else { above };
        // With the slack of the cell: what is rounded is slack, and never work, which may be less than a cell.
        let left = (((work + self.slacks[cell]) / self.step - 1e-6).ceil() as usize).min(self.steps);
        let action = self.actions[(left * PHASES + phase) * self.slacks.len() + cell];
        let start = match action & 3 {
            START_ON_DEMAND => Start::OnDemand,
            START_SPOT => Start::Spot,
            _ => Start::Wait,
        };
        (start, action & LEAVE != 0)
    }

    /// Seconds between two decisions.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Whether it was made to weigh pools.
    pub fn has_costs(&self) -> bool {
        self.costs.is_some()
    }

    /// Hours of spot that are left to pay, from idle or from on-demand. `None`: pools are not weighed.
    pub fn cost(&self, on_demand: bool, work: f64, slack: f64, phase: usize) -> Option<f64> {
        let costs = self.costs.as_ref()?;
        let (slack, below, above) = self.cells(work, slack);
        let at = |cell: usize| costs.at(on_demand, (work + self.slacks[cell]) / self.step, phase, cell);
        let (from, to) = (at(below), at(above));
        let width = self.slacks[above] - self.slacks[below];
        Some(if width > 0.0 { from + (slack - self.slacks[below]) / width * (to - from) } else { from })
    }

    /// The slack that counts, and the cells below and above it.
    fn cells(&self, work: f64, slack: f64) -> (f64, usize, usize) {
        // Beyond the horizon more slack changes nothing, and the work stays the one that is asked for.
        let most = (self.horizon - work).max(0.0);
        let slack = slack.clamp(0.0, most.min(self.slacks[self.slacks.len() - 1]));
        // The first cell with no less: the one of the whole steps, or one beside it.
        let mut above = usize::from(self.cells_below[(slack / self.step) as usize]);
        while above > 0 && self.slacks[above - 1] >= slack {
            above -= 1;
        }
        while above < self.slacks.len() - 1 && self.slacks[above] < slack {
            above += 1;
        }
        (slack, above.saturating_sub(1), above)
    }
}

/// From these cells of slack on no work is left, with so many steps to go and with one less.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    now: usize,
    then: usize,
}

/// Expected cost to the end by phase and slack, for each thing that may run.
#[derive(Clone, Debug)]
struct Values {
    /// Who waits has something left to do, however little: where no work is left, it is the cost of a start and a step. Else a short job in
    /// a wide cell would seem to be done by waiting, as a part of it is carried over into no work and a part into more.
    idle: Vec<CostRow>,
    spot: Vec<CostRow>,
    /// A changeover to spot under way, by the steps that come before the one in which it ends, and within them by phase. Its slack is time left less
    /// work alone, so that a machine that is lost on the way has cost the steps it had and no more.
    starting: Vec<CostRow>,
    on_demand: Vec<CostRow>,
}

struct Solver {
    /// With one step less to go.
    then: Values,
    /// The same, once the regime has moved on.
    drifted: Values,
    now: Values,
    /// Cost of a step.
    spot: f32,
    on_demand: f32,
    waiting: f32,
    /// Slack lost by a step without work, by a changeover, and by the part of it that is left for its last step.
    wait: Loss,
    changeover: Loss,
    last: Loss,
    /// Steps of a changeover before its last one.
    stages: usize,
    /// Below these cells of slack the worst changeover would miss the deadline: after a step of waiting, or at a tick of a changeover to spot
    /// under way, which the net would end before it has done any work.
    may_wait: usize,
    may_start_spot: usize,
    elsewhere: Option<Elsewhere>,
    /// That another pool comes up within a step, and what a start there costs, with the move.
    elsewhere_comes: f32,
    elsewhere_starts: CostRow,
}

/// One step of time for all phases.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn pass(solver: &mut Solver, ways: &[Onward], done: Done, actions: &mut [u8]) {
    let count = actions.len() / PHASES;
    solver.drift(ways);
    solver.look_elsewhere(ways, done);
    for (first, spell) in ways.chunks_exact(AGES.len()).enumerate().map(|(index, spell)| (index * AGES.len(), spell)) {
        // A pool that leaves its state is at age 0 of the other, however old it was.
        let gone = solver.gone(&spell[0], done.then);
        for (age, way) in spell.iter().enumerate() {
            let phase = first + age;
            solver.solve(phase, way, &gone, done.now, &mut actions[phase * count..(phase + 1) * count]);
        }
    }
    std::mem::swap(&mut solver.now, &mut solver.then);
}

impl Solver {
    fn new(terms: &Terms, step: f64, slacks: &[f64], elsewhere: Option<Elsewhere>) -> Self {
        let values = |cost: f32| vec![[cost; CELLS]; PHASES];
        let on_demand = (terms.price_ratio * step / 3600.0) as f32;
        let start = on_demand * (1.0 + terms.changeover / step) as f32;
        let stages = ((terms.changeover / step - 1e-9).ceil() - 1.0).max(0.0);
        let starting = vec![[0.0; CELLS]; PHASES * stages as usize];
        let all = Values { idle: values(start), spot: values(0.0), starting, on_demand: values(0.0) };
        let cells_for = |seconds: f64| slacks.partition_point(|slack| *slack < seconds - 1e-6);
        let worst = terms.worst_changeover;
        Self {
            drifted: all.clone(),
            then: all.clone(),
            now: all,
            spot: (step / 3600.0) as f32,
            on_demand,
            waiting: WAITING as f32 * on_demand,
            wait: Loss::new(step, step, slacks),
            changeover: Loss::new(terms.changeover, step, slacks),
            last: Loss::new(terms.changeover - stages * step, step, slacks),
            stages: stages as usize,
            may_wait: cells_for(worst + step),
            may_start_spot: cells_for(worst + worst.min(whole_ticks_up(terms.changeover, terms.tick))),
            elsewhere,
            elsewhere_comes: elsewhere.map_or(0.0, |elsewhere| elsewhere.chance(step) as f32),
            elsewhere_starts: [f32::INFINITY; CELLS],
        }
    }

    /// What a start in another pool comes to in this step.
    #[inline(always)]
    fn look_elsewhere(&mut self, ways: &[Onward], done: Done) {
        let Some(elsewhere) = self.elsewhere else { return };
        let phase = Elsewhere::phase();
        let gone = self.gone(&ways[phase], done.then);
        let (_, start) = self.spot(phase, &ways[phase], &gone);
        self.elsewhere_starts = start.map(|cost| cost + elsewhere.cost as f32);
        self.elsewhere_starts[..self.may_start_spot].fill(f32::INFINITY);
    }

    /// A step passes, in which recent availability moves on: the same for every age of a state, and for whatever runs.
    #[inline(always)]
    fn drift(&mut self, ways: &[Onward]) {
        let Self { then, drifted, .. } = self;
        for (phase, way) in ways.iter().enumerate() {
            let towards = |from: &[CostRow], to: &mut [CostRow]| {
                to[phase] = between(&from[phase], &from[way.next], way.moves);
            };
            towards(&then.idle, &mut drifted.idle);
            towards(&then.on_demand, &mut drifted.on_demand);
            if way.up {
                towards(&then.spot, &mut drifted.spot);
                let stages = then.starting.chunks_exact(PHASES).zip(drifted.starting.chunks_exact_mut(PHASES));
                stages.for_each(|(from, to)| towards(from, to));
            }
        }
    }

    /// What is left to pay once the pool has left its state. From cell `done` on the step that it did so in was the last one of the work.
    #[inline(always)]
    fn gone(&self, way: &Onward, done: usize) -> Gone {
        let mixed = |values: &[CostRow]| between(&values[way.left[0].0], &values[way.left[1].0], way.left[1].1);
        let idle = mixed(&self.then.idle);
        let mut while_working = idle;
        while_working[done..].fill(0.0);
        Gone {
            while_ending: self.last.applied_to(&idle),
            while_starting: self.wait.applied_to(&idle),
            while_working,
            idle,
            on_demand: mixed(&self.then.on_demand),
        }
    }

    /// One phase of one step. From cell `done` on there is more slack than time left: no work is left.
    #[inline(always)]
    fn solve(&mut self, phase: usize, way: &Onward, gone: &Gone, done: usize, actions: &mut [u8]) {
        let kept = |values: &[CostRow]| between(&values[phase], &values[way.older], way.ages);
        let waited = self.wait.applied_to(&between(&kept(&self.drifted.idle), &gone.idle, way.leaves));
        let mut wait: CostRow = std::array::from_fn(|cell| self.waiting + waited[cell]);
        let stay = between(&kept(&self.drifted.on_demand), &gone.on_demand, way.leaves);
        let change = self.changeover.applied_to(&stay);
        let (mut on_spot, mut start_spot) =
            if way.up { self.spot(phase, way, gone) } else { ([0.0; CELLS], [f32::INFINITY; CELLS]) };
        wait[..self.may_wait].fill(f32::INFINITY);
        start_spot[..self.may_start_spot].fill(f32::INFINITY);
        let (now_idle, now_on_demand) = (&mut self.now.idle[phase], &mut self.now.on_demand[phase]);
        // Choices without a branch, for all cells at once.
        let mut chosen = [0_u8; CELLS];
        for cell in 0..CELLS {
            let (start, keep) = (self.on_demand + change[cell], self.on_demand + stay[cell]);
            let waits = wait[cell] <= start;
            let idle = if waits { wait[cell] } else { start };
            let (begins, leaves) = (start_spot[cell] <= idle, start_spot[cell] < keep);
            now_idle[cell] = if begins { start_spot[cell] } else { idle };
            now_on_demand[cell] = if leaves { start_spot[cell] } else { keep };
            let idle_choice = if begins { START_SPOT } else { START_ON_DEMAND * u8::from(!waits) };
            chosen[cell] = idle_choice | (LEAVE * u8::from(leaves));
        }
        if self.elsewhere.is_some() {
            for row in [&mut *now_idle, &mut *now_on_demand] {
                for (cost, there) in row.iter_mut().zip(&self.elsewhere_starts) {
                    *cost -= self.elsewhere_comes * (*cost - there).max(0.0);
                }
            }
        }
        for row in [now_on_demand, &mut on_spot] {
            row[done..].fill(0.0);
        }
        self.now.spot[phase] = on_spot;
        actions.copy_from_slice(&chosen[..actions.len()]);
    }

    /// Going on with spot, and starting it: step by step until its changeover has ended, since it may be lost in each of them.
    #[inline(always)]
    fn spot(&mut self, phase: usize, way: &Onward, gone: &Gone) -> (CostRow, CostRow) {
        let kept = |values: &[CostRow]| between(&values[phase], &values[way.older], way.ages);
        let spot = self.spot;
        let cost = |kept: &CostRow, gone: &CostRow| -> CostRow {
            std::array::from_fn(|cell| spot + kept[cell] + way.leaves * (gone[cell] - kept[cell]))
        };
        let running = kept(&self.drifted.spot);
        let mut start = cost(&self.last.applied_to(&running), &gone.while_ending);
        for first in (0..self.stages).map(|stage| stage * PHASES) {
            self.now.starting[first + phase] = start;
            let onward = self.wait.applied_to(&kept(&self.drifted.starting[first..first + PHASES]));
            start = cost(&onward, &gone.while_starting);
        }
        (cost(&running, &gone.while_working), start)
    }
}

/// Costs after the pool has left its state, by slack: idle, with a start cut short in the step in which it would have ended or before, with the
/// machine that did the work lost, on on-demand.
struct Gone {
    idle: CostRow,
    while_ending: CostRow,
    while_starting: CostRow,
    while_working: CostRow,
    on_demand: CostRow,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::chain::phase;
    use crate::policy::PoolView;

    const WORK: f64 = 48.0 * 3600.0;
    const TERMS: Terms =
        Terms { horizon: 60.0 * 3600.0, tick: 600.0, changeover: 720.0, worst_changeover: 2160.0, price_ratio: 3.0 };

    fn view(up: bool, hours: f64) -> usize {
        phase(&PoolView { up, age: hours * 3600.0, availability: 0.5, frailty: 1.0 })
    }

    /// Whoever had ten days more than the horizon waited for all of them.
    #[test]
    fn more_slack_than_the_horizon_changes_nothing() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        for phase in 0..PHASES {
            let within = table.best(WORK, TERMS.horizon - WORK, phase);
            assert_eq!(table.best(WORK, 1000.0 * 3600.0, phase), within, "{phase}");
        }
    }

    #[test]
    fn cells_are_found_as_a_search_finds_them() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        let most = table.slacks[table.slacks.len() - 1];
        let near = table.slacks.iter().flat_map(|slack| [slack - 1e-9, *slack, slack + 1e-9]);
        let steps = (0..=(most / 7.0) as u32).map(|at| 7.0 * f64::from(at));
        for slack in near.chain(steps).map(|slack| slack.clamp(0.0, most.min(TERMS.horizon))) {
            let above = table.slacks.partition_point(|of| *of < slack).min(table.slacks.len() - 1);
            assert_eq!(table.cells(0.0, slack), (slack, above.saturating_sub(1), above), "{slack}");
        }
    }

    #[test]
    fn slack_is_waited_with_and_its_lack_is_not() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        assert_eq!(table.best(WORK, 12.0 * 3600.0, view(false, 0.0)).0, Start::Wait);
        assert_eq!(table.best(WORK, 2000.0, view(false, 0.0)).0, Start::OnDemand);
        assert_eq!(table.best(WORK, 12.0 * 3600.0, view(true, 5.0)).0, Start::Spot);
    }

    #[test]
    fn on_demand_is_left_for_spot_that_has_lasted() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        assert!(table.best(WORK, 2.0 * 3600.0, view(true, 8.0)).1);
        assert!(!table.best(WORK, 2.0 * 3600.0, view(true, 0.0)).1);
    }

    /// The whole changeover was charged, and an hour of it was not begun before a pool had been up for one.
    #[test]
    fn a_machine_that_is_lost_on_its_way_costs_the_steps_that_it_had() {
        let hour = Terms { horizon: 40.0 * 3600.0, changeover: 3600.0, worst_changeover: 3600.0, ..TERMS };
        let table = Table::new(&AvailabilityModel::prior(), &hour);
        for slack in [2.5, 5.5, 9.0] {
            assert_eq!(table.best(WORK / 2.0, slack * 3600.0, view(true, 0.5)).0, Start::Spot, "{slack} h");
        }
    }

    #[test]
    fn a_step_is_no_longer_than_the_rates_of_its_age_hold() {
        for (tick, changeover, horizon, step) in [
            (600.0, 3600.0, 40.0, 600.0),
            (32.0, 720.0, 40.0, 352.0),
            (600.0, 36_000.0, 40.0, 3000.0),
            (600.0, 720.0, 400.0, 1200.0),
        ] {
            let terms =
                Terms { horizon: horizon * 3600.0, tick, changeover, worst_changeover: changeover, price_ratio: 3.0 };
            assert_eq!(terms.step(), step, "{terms:?}");
        }
    }

    #[test]
    fn spot_that_saves_nothing_is_never_started() {
        let table = Table::new(&AvailabilityModel::prior(), &Terms { price_ratio: 0.9, ..TERMS });
        assert!((0..PHASES).all(|phase| !table.best(WORK, 3.0 * 3600.0, phase).1));
    }

    #[test]
    fn odd_terms_give_a_table_all_the_same() {
        for (work, deadline, changeover) in [(3600.0, 1800.0, 0.0), (1e7, 1e9, 7200.0), (60.0, 60.0, 36_000.0)] {
            let horizon = Terms::horizon_of(work, deadline, 600.0);
            let terms = Terms { horizon, changeover, worst_changeover: 3.0 * changeover, ..TERMS };
            let table = Table::new(&AvailabilityModel::prior(), &terms);
            let _ = table.best(work, deadline - work, 0);
        }
    }

    #[test]
    fn a_longer_table_says_the_same() {
        let longer = Terms { horizon: 100.0 * 3600.0, ..TERMS };
        assert!(longer.cover(&TERMS) && !TERMS.cover(&longer));
        assert!(!Terms { changeover: 900.0, ..longer }.cover(&TERMS));
        assert!(!Terms { horizon: 1e7, ..TERMS }.cover(&TERMS), "its steps are longer");
        let (short, long) =
            (Table::new(&AvailabilityModel::prior(), &TERMS), Table::new(&AvailabilityModel::prior(), &longer));
        for work in (0..48).map(|hours| f64::from(hours) * 3600.0) {
            for slack in (0..24).map(|halves| f64::from(halves) * 1800.0) {
                for phase in 0..PHASES {
                    assert_eq!(short.best(work, slack, phase), long.best(work, slack, phase), "{work} {slack} {phase}");
                }
            }
        }
    }
}
