//! Phases that could take machines that are held, and what that would save.

use std::collections::BTreeMap;

use crate::portfolio::Phase;
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::CostedPhase;
use gpuplan_market::capacity::pool::Pool;

/// Hours of the month in which the pool is there.
pub fn hours_in(pool: &Pool, month: Month) -> f64 {
    let (begin, end) = (month.begin(), month.ahead(1).begin());
    let from = pool.from.map_or(begin, |from| from.clamp(begin, end));
    let until = pool.until.map_or(end, |until| until.clamp(begin, end));
    until.duration_since(from).as_secs_f64().max(0.0) / 3600.0
}

/// A phase that could take a pool.
pub struct Candidate {
    pub phase: usize,
    pub held: usize,
    pub pool: usize,
    /// Dollars that one repeat saves.
    pub saves: f64,
    /// Machine-hours of one repeat in each month of the phase.
    pub a_month: f64,
    /// Machines of one repeat.
    pub nodes: u32,
    /// Repeats that fit one after another on these.
    pub after_another: u32,
    /// Repeats that fit on as many machines at a time as there are.
    pub most: u32,
}

impl Candidate {
    fn saves_an_hour(&self, months: u32) -> f64 {
        self.saves / (self.a_month * f64::from(months))
    }
}

/// Repeats of a run of so many hours that one set of machines can do one after another in the months of a phase.
fn after_another(phase: &Phase, hours: f64, pool: &Pool) -> u32 {
    let window: f64 = phase.in_months().map(|month| hours_in(pool, month)).sum();
    // A float that is too large becomes the largest number.
    (window / hours).floor().max(0.0) as u32
}

/// Those that save most for an hour first. Every run takes `work` times its hours and saves as much less or more.
pub fn candidates(pools: &[Pool], costed: &[CostedPhase], work: f64) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, CostedPhase { phase, once, .. }) in costed.iter().enumerate() {
        for (number, held) in once.held.iter().enumerate() {
            let pool = &pools[held.pool];
            let nodes = held.machines.nodes.max(1);
            let after_another = after_another(phase, work * held.hours.expected, pool);
            let candidate = Candidate {
                phase: at,
                held: number,
                pool: held.pool,
                saves: work * (once.cost.expected.dollars() - held.cash(pool)),
                a_month: work * held.machine_hours / f64::from(phase.months),
                nodes,
                after_another,
                most: (pool.nodes / nodes).saturating_mul(after_another),
            };
            if candidate.saves > 0.0 && candidate.a_month > 0.0 {
                found.push(candidate);
            }
        }
    }
    let worth = |one: &Candidate| one.saves_an_hour(costed[one.phase].phase.months);
    found.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then_with(|| (a.phase, a.held).cmp(&(b.phase, b.held))));
    found
}

/// Machine-hours by pool and month.
pub type Hours = BTreeMap<(usize, Month), f64>;
