//! The cheapest way through a known trace: the reference that no rule can beat.

use crate::policy::{Action, Limits};
use crate::simulation::replay::World;
use gpuplan_units::Usd;

/// Progress is counted in at most this many steps, so that the table stays small when tick and changeovers have no large
/// common measure.
const MOST_STEPS: f64 = 40_000.0;

/// Least cost over a known trace; `None` if the deadline cannot be met or the trace is too short to know.
///
/// Exact dynamic programme, equal to the integer programme of NSDI'24: at every tick one machine at most, every start costs
/// its changeover of progress. Progress is counted in the common measure of tick and changeovers; where that is finer than
/// `MOST_STEPS` of the work, a changeover is rounded up.
pub fn least_cost(limits: &Limits, world: &World, start: usize) -> Option<Usd> {
    let ticks = (limits.deadline / limits.tick + 1e-9).floor() as usize;
    let end = start.checked_add(ticks)?;
    if world.pools.iter().any(|pool| pool.len() < end) || limits.work > limits.deadline {
        return None;
    }
    // A changeover that outlasts the deadline gains nothing, however long it is; the table need not hold its length.
    let mut limits = limits.clone();
    let deadline = limits.deadline;
    let longest = std::iter::once(&mut limits.changeover)
        .chain(limits.pools.iter_mut().map(|terms| &mut terms.switch_changeover));
    longest.for_each(|time| *time = time.min(deadline));
    let limits = &limits;
    let mut table = Table::new(limits);
    for tick in start..end {
        let up: Vec<bool> = world.pools.iter().map(|pool| pool[tick]).collect();
        table.tick(&world.terms(limits, tick), &up, world.on_demand(tick));
    }
    let rows = table.idle.iter().chain(&table.spot).chain(&table.own).chain(&table.on_demand);
    let done = rows.map(|row| row[table.width - 1]).fold(f64::INFINITY, f64::min);
    done.is_finite().then(|| Usd::from_dollars(done)).flatten()
}

/// Least dollars to have made each progress, by what runs and where it ran last.
struct Table {
    /// Cells of a row; the last is all work done.
    width: usize,
    /// Seconds a step.
    step: f64,
    /// Places to have run last; the one past the pools is nowhere. One is enough where moving costs nothing extra.
    lasts: usize,
    idle: Vec<Vec<f64>>,
    spot: Vec<Vec<f64>>,
    own: Vec<Vec<f64>>,
    on_demand: Vec<Vec<f64>>,
}

impl Table {
    fn new(limits: &Limits) -> Self {
        let pools = limits.pools.len();
        let moves = limits
            .pools
            .iter()
            .any(|terms| terms.switch_cost > Usd::ZERO || terms.switch_changeover != limits.changeover);
        let lasts = if moves { pools + 1 } else { 1 };
        let times = limits.pools.iter().map(|terms| terms.switch_changeover).chain([limits.changeover, limits.tick]);
        let measure =
            times.clone().map(|time| (time * 1000.0).round() as u64).fold(0, common_measure).max(1) as f64 / 1000.0;
        // A tick stays a whole number of steps.
        let finest = times.clone().fold(limits.work, f64::max) / MOST_STEPS;
        let step = if measure >= finest { measure } else { limits.tick / (limits.tick / finest).floor().max(1.0) };
        let below = times.map(|time| (time / step - 1e-9).ceil() as usize).max().unwrap_or(0);
        // However little the work is, it takes a step.
        let width = ((limits.work / step - 1e-9).ceil() as usize).max(1) + below + 1;
        let rows = |count: usize| vec![vec![f64::INFINITY; width]; count];
        let mut idle = rows(lasts);
        idle[lasts - 1][below] = 0.0;
        Self { width, step, lasts, idle, spot: rows(pools), own: rows(pools), on_demand: rows(lasts) }
    }

    fn last_of(&self, pool: usize) -> usize {
        pool.min(self.lasts - 1)
    }

    fn tick(&mut self, limits: &Limits, up: &[bool], on_demand_up: bool) {
        // The best of all that ran last in the same place: from here one may idle or start.
        let mut best: Vec<Vec<f64>> =
            (0..self.lasts).map(|last| lower(&self.idle[last], &self.on_demand[last])).collect();
        for pool in 0..up.len() {
            let last = self.last_of(pool);
            best[last] = lower(&lower(&best[last], &self.spot[pool]), &self.own[pool]);
        }
        for (pool, up) in up.iter().enumerate() {
            self.spot[pool] = if *up {
                self.run(limits, Action::Spot(pool), &self.spot[pool], &best, true)
            } else {
                vec![f64::INFINITY; self.width]
            };
            if limits.pools[pool].on_demand.is_some() {
                self.own[pool] = self.run(limits, Action::OnDemand(Some(pool)), &self.own[pool], &best, on_demand_up);
            }
        }
        self.on_demand = best
            .iter()
            .zip(&self.on_demand)
            .map(|(from, running)| {
                self.run(limits, Action::OnDemand(None), running, std::slice::from_ref(from), on_demand_up)
            })
            .collect();
        self.idle = best;
    }

    /// A tick of `action`, going on from `running` or, where `may_start`, started from any of `froms`.
    fn run(&self, limits: &Limits, action: Action, running: &[f64], froms: &[Vec<f64>], may_start: bool) -> Vec<f64> {
        let tick = (limits.tick / self.step).round() as usize;
        let cost = limits.rate(action).dollars() * limits.tick / 3600.0;
        let mut row = vec![f64::INFINITY; self.width];
        advance(&mut row, running, tick, 0, cost);
        for (last, from) in froms.iter().enumerate().filter(|_| may_start) {
            let last = (froms.len() > 1 && last < limits.pools.len()).then_some(last);
            let changeover = (limits.changeover_to(action, last) / self.step - 1e-9).ceil() as usize;
            let moving = limits.switched_to(action, last).map_or(0.0, |terms| terms.switch_cost.dollars());
            advance(&mut row, from, tick, changeover, cost + moving);
        }
        row
    }
}

fn common_measure(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_measure(b, a % b) }
}

fn lower(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a.min(*b)).collect()
}

/// `from`, one tick and `cost` later, into `row` where that is less. All work done stays all work done.
fn advance(row: &mut [f64], from: &[f64], tick: usize, changeover: usize, cost: f64) {
    let end = row.len() - 1;
    for (progress, before) in from.iter().enumerate().take(end).filter(|(progress, _)| progress + tick >= changeover) {
        let to = (progress + tick - changeover).min(end);
        row[to] = row[to].min(before + cost);
    }
}
