//! The least expected cost of a job on one pool: a dynamic programme over time left, slack and the phase of the pool.

use crate::availability::chain::{Onward, PHASES, onward};
use crate::availability::{AGES, AvailabilityModel};

/// Cells of slack. With 121 instead, jobs with a changeover of half an hour cost up to 1 % more on the development traces and
/// the others the same: a coarse grid blurs the value of waiting, and so is careful where the model is too sure.
const CELLS: usize = 41;
const WIDTH: usize = CELLS.next_multiple_of(4);
/// Steps of time; longer ones are taken for longer jobs.
const MOST_STEPS: f64 = 1500.0;
/// Slack beyond this, in work and in seconds, changes nothing.
const MOST_SLACK_OF_WORK: f64 = 2.0;
const MOST_SLACK: f64 = 240.0 * 3600.0;

/// What the programme is solved for. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    pub work: f64,
    pub deadline: f64,
    pub tick: f64,
    pub changeover: f64,
    pub worst_changeover: f64,
    /// On-demand rate over spot rate.
    pub price_ratio: f64,
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
    cell: f64,
    steps: usize,
    /// Two bits for `Start`, and `LEAVE`.
    actions: Vec<u8>,
}

/// To wait is 0.
const START_SPOT: u8 = 1;
const START_ON_DEMAND: u8 = 2;
const LEAVE: u8 = 4;

impl Table {
    /// Solves backwards from the deadline. Costs are in hours of spot.
    pub fn new(model: &AvailabilityModel, terms: &Terms) -> Self {
        let most = (terms.work * MOST_SLACK_OF_WORK).max(MOST_SLACK);
        let slack = (terms.deadline - terms.work).min(most).max(terms.tick);
        let horizon = terms.work + slack;
        let fine = (terms.changeover / 2.0 / terms.tick).floor().max(1.0);
        let step = terms.tick * fine.max((horizon / MOST_STEPS / terms.tick).ceil());
        let steps = (horizon / step + 1e-9).floor() as usize;
        let cell = slack / (CELLS - 1) as f64;
        let mut solver = Solver::new(terms, step, cell);
        let ways = onward(model, step);
        let mut actions = vec![0_u8; (steps + 1) * PHASES * CELLS];
        for (left, block) in actions.chunks_exact_mut(PHASES * CELLS).enumerate().skip(1) {
            let done = ((left as f64 * step / cell - 1e-9).ceil() as usize).min(CELLS);
            for (first, spell) in
                ways.chunks_exact(AGES.len()).enumerate().map(|(index, spell)| (index * AGES.len(), spell))
            {
                // A pool that leaves its state is at age 0 of the other, however old it was.
                let gone = solver.gone(&spell[0]);
                for (age, way) in spell.iter().enumerate() {
                    let phase = first + age;
                    solver.solve(phase, way, &gone, done, &mut block[phase * CELLS..(phase + 1) * CELLS]);
                }
            }
            std::mem::swap(&mut solver.now, &mut solver.then);
        }
        Self { step, cell, steps, actions }
    }

    /// From idle, and from on-demand, with this slack (time left less work and changeover left) and work left.
    pub fn best(&self, work: f64, slack: f64, phase: usize) -> (Start, bool) {
        let slack = slack.clamp(0.0, self.cell * (CELLS - 1) as f64);
        let left = (((work + slack) / self.step + 1e-6).floor() as usize).min(self.steps);
        let cell = ((slack / self.cell + 0.5).floor() as usize).min(CELLS - 1);
        let action = self.actions[(left * PHASES + phase) * CELLS + cell];
        let start = match action & 3 {
            START_ON_DEMAND => Start::OnDemand,
            START_SPOT => Start::Spot,
            _ => Start::Wait,
        };
        (start, action & LEAVE != 0)
    }
}

/// Expected cost to the end by phase and slack, for each thing that may run.
#[derive(Clone, Debug)]
struct Values {
    idle: Vec<CostRow>,
    spot: Vec<CostRow>,
    on_demand: Vec<CostRow>,
}

/// By slack. Cells above the most slack only fill a processor's vectors: less slack never follows from more.
type CostRow = [f32; WIDTH];

struct Solver {
    /// With one step less to go.
    then: Values,
    now: Values,
    /// Cost of a step.
    spot: f32,
    on_demand: f32,
    /// Cells of slack lost by waiting a step, by a changeover, and by one that ends when the machine is lost after a step.
    wait: f64,
    changeover: f64,
    lost: f64,
    /// Below these cells of slack the worst changeover would miss the deadline.
    may_wait: usize,
    may_start_spot: usize,
}

impl Solver {
    fn new(terms: &Terms, step: f64, cell: f64) -> Self {
        let values = || vec![[0.0; WIDTH]; PHASES];
        let all = Values { idle: values(), spot: values(), on_demand: values() };
        let cells_for = |seconds: f64| ((seconds / cell - 1e-6).ceil().max(0.0) as usize).min(WIDTH);
        let worst = terms.worst_changeover;
        Self {
            then: all.clone(),
            now: all,
            spot: (step / 3600.0) as f32,
            on_demand: (terms.price_ratio * step / 3600.0) as f32,
            wait: step / cell,
            changeover: terms.changeover / cell,
            lost: terms.changeover.min(step) / cell,
            may_wait: cells_for(worst + step),
            may_start_spot: cells_for(worst + worst.min(step)),
        }
    }

    /// What is left to pay once the pool has left its state.
    fn gone(&self, way: &Onward) -> Gone {
        let idle = mixed(&way.left, &self.then.idle);
        Gone { idle, while_starting: shifted(&idle, self.lost), on_demand: mixed(&way.left, &self.then.on_demand) }
    }

    /// One phase of one step. From cell `done` on there is more slack than time left: no work is left.
    fn solve(&mut self, phase: usize, way: &Onward, gone: &Gone, done: usize, actions: &mut [u8]) {
        let mut wait = shifted(&between(way, &mixed(&way.stays, &self.then.idle), &gone.idle), self.wait);
        let stay = between(way, &mixed(&way.stays, &self.then.on_demand), &gone.on_demand);
        let change = shifted(&stay, self.changeover);
        let (mut on_spot, mut start_spot) =
            if way.up { self.spot(way, gone) } else { ([0.0; WIDTH], [f32::INFINITY; WIDTH]) };
        wait[..self.may_wait].fill(f32::INFINITY);
        start_spot[..self.may_start_spot].fill(f32::INFINITY);
        let (now_idle, now_on_demand) = (&mut self.now.idle[phase], &mut self.now.on_demand[phase]);
        // Choices without a branch, for all cells at once.
        let mut chosen = [0_u8; WIDTH];
        for cell in 0..WIDTH {
            let (start, keep) = (self.on_demand + change[cell], self.on_demand + stay[cell]);
            let waits = wait[cell] <= start;
            let idle = if waits { wait[cell] } else { start };
            let (begins, leaves) = (start_spot[cell] <= idle, start_spot[cell] < keep);
            now_idle[cell] = if begins { start_spot[cell] } else { idle };
            now_on_demand[cell] = if leaves { start_spot[cell] } else { keep };
            let idle_choice = if begins { START_SPOT } else { START_ON_DEMAND * u8::from(!waits) };
            chosen[cell] = idle_choice | (LEAVE * u8::from(leaves));
        }
        for row in [now_idle, now_on_demand, &mut on_spot] {
            row[done..].fill(0.0);
        }
        self.now.spot[phase] = on_spot;
        actions.copy_from_slice(&chosen[..CELLS]);
    }

    /// Going on with spot, and starting it. A machine that is lost while it starts has cost only the time it ran.
    fn spot(&self, way: &Onward, gone: &Gone) -> (CostRow, CostRow) {
        let kept = mixed(&way.stays, &self.then.spot);
        let started = shifted(&kept, self.changeover);
        let cost = |kept: &CostRow, gone: &CostRow| {
            std::array::from_fn(|cell| self.spot + kept[cell] + way.leaves * (gone[cell] - kept[cell]))
        };
        (cost(&kept, &gone.idle), cost(&started, &gone.while_starting))
    }
}

/// Costs after the pool has left its state, by slack: idle, with a start cut short, on on-demand.
struct Gone {
    idle: CostRow,
    while_starting: CostRow,
    on_demand: CostRow,
}

/// Mean of staying and leaving.
fn between(way: &Onward, stays: &CostRow, left: &CostRow) -> CostRow {
    std::array::from_fn(|cell| stays[cell] + way.leaves * (left[cell] - stays[cell]))
}

/// Mean over the phases that a pool may stay in, or leave to.
fn mixed<const PARTS: usize>(parts: &[(usize, f32); PARTS], values: &[CostRow]) -> CostRow {
    let mut mean = [0.0; WIDTH];
    for (phase, share) in parts {
        for (sum, value) in mean.iter_mut().zip(&values[*phase]) {
            *sum += share * value;
        }
    }
    mean
}

/// The values with so many cells of slack less; there is never less than none.
fn shifted(row: &CostRow, cells: f64) -> CostRow {
    let (whole, part) = ((cells.floor() as usize).min(WIDTH - 1), cells.fract() as f32);
    // Behind as many cells without slack, so that the row moved up by whole cells, and by one more, are two of its windows.
    let mut padded = [row[0]; 2 * WIDTH];
    padded[WIDTH..].copy_from_slice(row);
    let (above, below) = (&padded[WIDTH - whole..][..WIDTH], &padded[WIDTH - whole - 1..][..WIDTH]);
    std::array::from_fn(|cell| above[cell] + part * (below[cell] - above[cell]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::chain::phase;
    use crate::policy::PoolView;

    const TERMS: Terms = Terms {
        work: 48.0 * 3600.0,
        deadline: 60.0 * 3600.0,
        tick: 600.0,
        changeover: 720.0,
        worst_changeover: 2160.0,
        price_ratio: 3.0,
    };

    fn view(up: bool, hours: f64) -> usize {
        phase(&PoolView { up, age: hours * 3600.0, availability: 0.5, probed: 0.0 })
    }

    #[test]
    fn slack_is_waited_with_and_its_lack_is_not() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        assert_eq!(table.best(TERMS.work, 12.0 * 3600.0, view(false, 0.0)).0, Start::Wait);
        assert_eq!(table.best(TERMS.work, 2000.0, view(false, 0.0)).0, Start::OnDemand);
        assert_eq!(table.best(TERMS.work, 12.0 * 3600.0, view(true, 5.0)).0, Start::Spot);
    }

    #[test]
    fn on_demand_is_left_for_spot_that_has_lasted() {
        let table = Table::new(&AvailabilityModel::prior(), &TERMS);
        assert!(table.best(TERMS.work, 2.0 * 3600.0, view(true, 8.0)).1);
        assert!(!table.best(TERMS.work, 2.0 * 3600.0, view(true, 0.0)).1);
    }

    #[test]
    fn spot_that_saves_nothing_is_never_started() {
        let table = Table::new(&AvailabilityModel::prior(), &Terms { price_ratio: 0.9, ..TERMS });
        assert!((0..PHASES).all(|phase| !table.best(TERMS.work, 3.0 * 3600.0, phase).1));
    }

    #[test]
    fn odd_terms_give_a_table_all_the_same() {
        for (work, deadline, changeover) in [(3600.0, 1800.0, 0.0), (1e7, 1e9, 7200.0), (60.0, 60.0, 36_000.0)] {
            let terms = Terms { work, deadline, changeover, worst_changeover: 3.0 * changeover, ..TERMS };
            let table = Table::new(&AvailabilityModel::prior(), &terms);
            let _ = table.best(work, deadline - work, 0);
        }
    }
}
