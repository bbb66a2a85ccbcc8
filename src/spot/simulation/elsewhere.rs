//! Where moves between pools cost something: other pools as the programme sees them from one, and what is left to pay in each phase.

use crate::availability::chain::{PHASES, phase};
use crate::availability::watch::{PRIOR_AVAILABILITY, USUAL_AGE};
use crate::availability::{AvailabilityModel, CORRELATION};
use crate::policy::PoolView;
use crate::simulation::slack::CostRow;

/// Times left of which costs are kept, at most: between two of them costs are close to linear (keeping every step changed the mean cost of
/// 61 windows in one of twenty rows, by .1 %).
const TIMES: usize = 64;

/// The other pools of a job, like this one but without its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elsewhere {
    /// Hours of spot that a move costs.
    pub cost: f64,
    /// How often an hour one of them that is down comes back.
    returns: f64,
}

impl Elsewhere {
    /// So many others. Pools go down together, so they count as fewer that do not: n / (1 + (n - 1) r) of correlation r, as in a mean.
    pub fn new(model: &AvailabilityModel, others: usize, cost: f64) -> Self {
        let others = others as f64;
        let alone = others / (1.0 + (others - 1.0).max(0.0) * CORRELATION);
        Self { cost, returns: alone / model.mean_spell(PRIOR_AVAILABILITY, false).0 }
    }

    /// That one comes back within a step. None is taken to be up and to stay so: a job that counts on one waits until it has no slack for it.
    pub fn chance(&self, step: f64) -> f64 {
        -(-self.returns * step / 3600.0).exp_m1()
    }

    /// Phase in which it is found: that of a pool of which nothing else is known.
    pub fn phase() -> usize {
        phase(&PoolView { up: true, age: USUAL_AGE, availability: PRIOR_AVAILABILITY, frailty: 1.0 })
    }
}

/// Hours of spot that are left to pay, by time left, then phase, then slack.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Steps from one time left to the next.
    stride: usize,
    /// Cells of slack.
    cells: usize,
    idle: Vec<f32>,
    on_demand: Vec<f32>,
}

impl Costs {
    pub fn new(steps: usize, cells: usize) -> Self {
        Self { stride: steps.div_ceil(TIMES).max(1), cells, idle: Vec::new(), on_demand: Vec::new() }
    }

    /// What is left with so many steps to go, from none on: by phase, the cells of slack first.
    pub fn keep<const CELLS: usize>(&mut self, left: usize, idle: &[CostRow<CELLS>], on_demand: &[CostRow<CELLS>]) {
        if left.is_multiple_of(self.stride) {
            self.idle.extend(idle.iter().flat_map(|row| &row[..self.cells]));
            self.on_demand.extend(on_demand.iter().flat_map(|row| &row[..self.cells]));
        }
    }

    /// From idle, or from on-demand, with so many steps to go and in this cell of slack.
    pub fn at(&self, on_demand: bool, steps: f64, phase: usize, cell: usize) -> f64 {
        let costs = if on_demand { &self.on_demand } else { &self.idle };
        let row = |time: usize| costs.get((time * PHASES + phase) * self.cells + cell).copied().map(f64::from);
        let time = (steps / self.stride as f64).max(0.0);
        let last = costs.len() / (PHASES * self.cells) - 1;
        let below = (time as usize).min(last);
        let from = row(below).unwrap_or(f64::INFINITY);
        row(below + 1).map_or(from, |to| from + (time - below as f64).min(1.0) * (to - from))
    }
}
