//! The least expected cost of a job on one pool: a dynamic programme over time left, slack and the phase of the pool.

use crate::spot::availability::AvailabilityModel;
use crate::spot::chain::{Onward, PHASES, onward};

/// Cells of slack. With 121 instead, jobs with a changeover of half an hour cost up to 1 % more on the development traces and
/// the others the same: a coarse grid blurs the value of waiting, and so is careful where the model is too sure.
const CELLS: usize = 41;
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
            for (phase, (way, row)) in ways.iter().zip(block.chunks_exact_mut(CELLS)).enumerate() {
                solver.solve(phase, way, done, row);
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
        let action = self.actions.get((left * PHASES + phase) * CELLS + cell).copied().unwrap_or_default();
        let start = match action & 3 {
            0 => Start::Wait,
            1 => Start::Spot,
            _ => Start::OnDemand,
        };
        (start, action & LEAVE != 0)
    }
}

/// Expected cost to the end by phase and slack, for each thing that may run.
#[derive(Clone, Debug)]
struct Values {
    idle: Vec<Row>,
    spot: Vec<Row>,
    on_demand: Vec<Row>,
}

/// By slack.
type Row = [f32; CELLS];

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
        let values = || vec![[0.0; CELLS]; PHASES];
        let all = Values { idle: values(), spot: values(), on_demand: values() };
        let cells_for = |seconds: f64| (seconds / cell - 1e-6).ceil().max(0.0) as usize;
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

    /// One phase of one step. From cell `done` on there is more slack than time left: no work is left.
    fn solve(&mut self, phase: usize, way: &Onward, done: usize, actions: &mut [u8]) {
        let (kept, gone) = (mixed(&way.stays, &self.then.idle), mixed(&way.left, &self.then.idle));
        let wait = shifted(&between(way, &kept, &gone), self.wait);
        let stay = between(way, &mixed(&way.stays, &self.then.on_demand), &mixed(&way.left, &self.then.on_demand));
        let change = shifted(&stay, self.changeover);
        let (on_spot, start_spot) = if way.up { self.spot(way, &gone) } else { ([0.0; CELLS], [0.0; CELLS]) };
        let (now_idle, now_spot, now_on_demand) = (&mut self.now.idle[phase], &mut self.now.spot[phase], &mut self.now.on_demand[phase]);
        for cell in 0..CELLS {
            let (mut idle, mut action) = (self.on_demand + change[cell], 2);
            let mut on_demand = self.on_demand + stay[cell];
            if cell >= self.may_wait && wait[cell] <= idle {
                (idle, action) = (wait[cell], 0);
            }
            if way.up && cell >= self.may_start_spot {
                if start_spot[cell] <= idle {
                    (idle, action) = (start_spot[cell], 1);
                }
                if start_spot[cell] < on_demand {
                    on_demand = start_spot[cell];
                    action |= LEAVE;
                }
            }
            let values = if cell < done { (idle, on_spot[cell], on_demand) } else { (0.0, 0.0, 0.0) };
            (now_idle[cell], now_spot[cell], now_on_demand[cell]) = values;
            actions[cell] = action;
        }
    }

    /// Going on with spot, and starting it. A machine that is lost while it starts has cost only the time it ran.
    fn spot(&self, way: &Onward, gone: &Row) -> (Row, Row) {
        let kept = mixed(&way.stays, &self.then.spot);
        let (started, lost) = (shifted(&kept, self.changeover), shifted(gone, self.lost));
        let cost = |kept: &Row, gone: &Row| std::array::from_fn(|cell| self.spot + kept[cell] + way.leaves * (gone[cell] - kept[cell]));
        (cost(&kept, gone), cost(&started, &lost))
    }
}

/// Mean of staying and leaving.
fn between(way: &Onward, stays: &Row, left: &Row) -> Row {
    std::array::from_fn(|cell| stays[cell] + way.leaves * (left[cell] - stays[cell]))
}

/// Mean over the phases that a pool may stay in, or leave to.
fn mixed(parts: &[(usize, f32)], values: &[Row]) -> Row {
    let mut mean = [0.0; CELLS];
    for (phase, share) in parts {
        for (sum, value) in mean.iter_mut().zip(&values[*phase]) {
            *sum += share * value;
        }
    }
    mean
}

/// The values with so many cells of slack less; there is never less than none.
fn shifted(row: &Row, cells: f64) -> Row {
    let (whole, part) = ((cells.floor() as usize).min(CELLS - 1), cells.fract() as f32);
    // The row moved up by whole cells, and by one more: copies, which a processor does faster than looking up each cell.
    let (mut above, mut below) = ([row[0]; CELLS], [row[0]; CELLS]);
    above[whole..].copy_from_slice(&row[..CELLS - whole]);
    below[1..].copy_from_slice(&above[..CELLS - 1]);
    std::array::from_fn(|cell| above[cell] + part * (below[cell] - above[cell]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spot::chain::phase;
    use crate::spot::policy::PoolView;

    const TERMS: Terms =
        Terms { work: 48.0 * 3600.0, deadline: 60.0 * 3600.0, tick: 600.0, changeover: 720.0, worst_changeover: 2160.0, price_ratio: 3.0 };

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
