//! The programme of the least expected cost, a step of time after the other, backwards from the deadline.

#![expect(clippy::inline_always, reason = "what `pass` calls is compiled with it, for each kind of vectors")]

use multiversion::multiversion;

use crate::availability::AGES;
use crate::availability::chain::{Onward, PHASES};
use crate::policy::safety::whole_ticks_up;
use crate::simulation::actions::{Actions, LEAVE, START_ON_DEMAND, START_SPOT};
use crate::simulation::elsewhere::Elsewhere;
use crate::simulation::slack::{CostRow, Loss, between, each};
use crate::simulation::terms::{Terms, WAITING};

/// From these cells of slack on no work is left, with so many steps to go and with one less.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub now: usize,
    pub then: usize,
}

/// Expected cost to the end by phase and slack, for each thing that may run.
#[derive(Clone, Debug)]
pub struct Values<const CELLS: usize> {
    /// Who waits has something left to do, however little: where no work is left, it is the cost of a start and a step. Else a short job in
    /// a wide cell would seem to be done by waiting, as a part of it is carried over into no work and a part into more.
    pub idle: Vec<CostRow<CELLS>>,
    spot: Vec<CostRow<CELLS>>,
    /// A changeover to spot under way, by the steps that come before the one in which it ends, and within them by phase. Its slack is time left less
    /// work alone, so that a machine that is lost on the way has cost the steps it had and no more.
    starting: Vec<CostRow<CELLS>>,
    pub on_demand: Vec<CostRow<CELLS>>,
}

/// Rows are as wide as the slack needs: wider ones would only be filled.
pub struct Solver<const CELLS: usize> {
    /// With one step less to go; after a pass, with as many as it was for.
    pub then: Values<CELLS>,
    /// The same, once the regime has moved on.
    drifted: Values<CELLS>,
    now: Values<CELLS>,
    /// Cost of a step.
    spot: f32,
    on_demand: f32,
    waiting: f32,
    /// Slack lost by a step without work, by a changeover, and by the part of it that is left for its last step.
    wait: Loss<CELLS>,
    changeover: Loss<CELLS>,
    last: Loss<CELLS>,
    /// Steps of a changeover before its last one.
    stages: usize,
    /// Below these cells of slack the worst changeover would miss the deadline: after a step of waiting, or at a tick of a changeover to spot
    /// under way, which the net would end before it has done any work.
    may_wait: usize,
    may_start_spot: usize,
    elsewhere: Option<Elsewhere>,
    /// That another pool comes up within a step, and what a start there costs, with the move.
    elsewhere_comes: f32,
    elsewhere_starts: CostRow<CELLS>,
}

/// One step of time for all phases, with so many left.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn pass<const CELLS: usize>(
    solver: &mut Solver<CELLS>,
    ways: &[Onward],
    done: Done,
    left: usize,
    actions: &mut Actions,
) {
    solver.drift(ways);
    solver.look_elsewhere(ways, done);
    for (first, spell) in ways.chunks_exact(AGES.len()).enumerate().map(|(index, spell)| (index * AGES.len(), spell)) {
        // A pool that leaves its state is at age 0 of the other, however old it was.
        let gone = solver.gone(&spell[0], done.then);
        for (age, way) in spell.iter().enumerate() {
            let phase = first + age;
            let chosen = solver.solve(phase, way, &gone, done.now);
            actions.put(phase, left, &chosen);
        }
    }
    std::mem::swap(&mut solver.now, &mut solver.then);
}

impl<const CELLS: usize> Solver<CELLS> {
    pub fn new(terms: &Terms, step: f64, slacks: &[f64], elsewhere: Option<Elsewhere>) -> Self {
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
            let towards = |from: &[CostRow<CELLS>], to: &mut [CostRow<CELLS>]| {
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
    fn gone(&self, way: &Onward, done: usize) -> Gone<CELLS> {
        let mixed = |values: &[CostRow<CELLS>]| between(&values[way.left[0].0], &values[way.left[1].0], way.left[1].1);
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
    fn solve(&mut self, phase: usize, way: &Onward, gone: &Gone<CELLS>, done: usize) -> [u8; CELLS] {
        let kept = |values: &[CostRow<CELLS>]| between(&values[phase], &values[way.older], way.ages);
        let waited = self.wait.applied_to(&between(&kept(&self.drifted.idle), &gone.idle, way.leaves));
        let mut wait: CostRow<CELLS> = each(|cell| self.waiting + waited[cell]);
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
        chosen
    }

    /// Going on with spot, and starting it: step by step until its changeover has ended, since it may be lost in each of them.
    #[inline(always)]
    fn spot(&mut self, phase: usize, way: &Onward, gone: &Gone<CELLS>) -> (CostRow<CELLS>, CostRow<CELLS>) {
        let kept = |values: &[CostRow<CELLS>]| between(&values[phase], &values[way.older], way.ages);
        let spot = self.spot;
        let cost = |kept: &CostRow<CELLS>, gone: &CostRow<CELLS>| -> CostRow<CELLS> {
            each(|cell| spot + kept[cell] + way.leaves * (gone[cell] - kept[cell]))
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
struct Gone<const CELLS: usize> {
    idle: CostRow<CELLS>,
    while_ending: CostRow<CELLS>,
    while_starting: CostRow<CELLS>,
    while_working: CostRow<CELLS>,
    on_demand: CostRow<CELLS>,
}
