//! Machines that are held already, own or committed: which runs take them, so that none is promised twice, and what that saves.

use std::collections::BTreeMap;

use crate::portfolio::calendar::Month;
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::planned::{HeldPlan, Placed};
use crate::portfolio::{Phase, Portfolio};
use gpuplan_market::capacity::pool::Pool;

/// Which runs take which machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// By phase.
    pub placed: Vec<Vec<Placed>>,
    /// Against renting everything, in cash beside what is paid anyway.
    pub saved_usd: f64,
    /// That no assignment saves more than.
    pub bound_usd: f64,
}

/// What every assignment rests on.
pub const RULE: &str = "runs that save most for an hour of a held machine take it first, whole runs one after another; \
    what does not fit is rented at the next best offer";

/// Hours of the month in which the pool is there.
pub fn hours_in(pool: &Pool, month: Month) -> f64 {
    let (begin, end) = (month.begin(), month.ahead(1).begin());
    let from = pool.from.map_or(begin, |from| from.clamp(begin, end));
    let until = pool.until.map_or(end, |until| until.clamp(begin, end));
    until.duration_since(from).as_secs_f64().max(0.0) / 3600.0
}

/// Machine-hours of the pool in the month.
pub fn machine_hours_in(pool: &Pool, month: Month) -> f64 {
    hours_in(pool, month) * f64::from(pool.nodes)
}

/// A phase that could take a pool.
struct Candidate {
    phase: usize,
    held: usize,
    pool: usize,
    /// Dollars that one repeat saves.
    saves: f64,
    /// Machine-hours of one repeat in each month of the phase.
    a_month: f64,
    /// Repeats that fit one after another on as many machines at a time as there are.
    most: u32,
}

impl Candidate {
    fn saves_an_hour(&self, months: u32) -> f64 {
        self.saves / (self.a_month * f64::from(months))
    }
}

/// Repeats of a run of so many hours that machines can do in the months of a phase: on each set of machines one after another.
fn most_repeats(phase: &Phase, held: &HeldPlan, pool: &Pool) -> u32 {
    let window: f64 = phase.in_months().map(|month| hours_in(pool, month)).sum();
    let at_a_time = pool.nodes / held.machines.nodes.max(1);
    // A float that is too large becomes the largest number.
    let after_another = (window / held.hours.expected).floor().max(0.0) as u32;
    at_a_time.saturating_mul(after_another)
}

fn candidates(pools: &[Pool], costed: &[CostedPhase]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (at, CostedPhase { phase, once, .. }) in costed.iter().enumerate() {
        for (number, held) in once.held.iter().enumerate() {
            let pool = &pools[held.pool];
            let candidate = Candidate {
                phase: at,
                held: number,
                pool: held.pool,
                saves: once.cost.expected.dollars() - held.cash(pool),
                a_month: held.machine_hours / f64::from(phase.months),
                most: most_repeats(phase, held, pool),
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
type Hours = BTreeMap<(usize, Month), f64>;

/// Gives held machines to the runs that save most by them, never more than there are. `pools` are those of the portfolio, or others to
/// see what they would be worth.
pub fn assign(portfolio: &Portfolio, pools: &[Pool], costed: &[CostedPhase]) -> Assignment {
    let candidates = candidates(pools, costed);
    let of_pool = |(at, pool): (usize, &Pool)| {
        portfolio.all_months().map(|month| ((at, month), machine_hours_in(pool, month))).collect::<Vec<_>>()
    };
    let held: Hours = pools.iter().enumerate().flat_map(of_pool).collect();
    let mut left = held.clone();
    // What an hour is worth to the best run that did not get it.
    let mut prices = Hours::new();
    let mut assignment = Assignment { placed: vec![Vec::new(); costed.len()], ..Assignment::default() };
    let mut open: Vec<u32> = costed.iter().map(|costed| costed.phase.repeats).collect();
    for candidate in &candidates {
        let phase = costed[candidate.phase].phase;
        let of_month = |month| left.get(&(candidate.pool, month)).copied().unwrap_or(0.0);
        let least = phase.in_months().map(of_month).fold(f64::INFINITY, f64::min);
        let fit = whole_times(least, candidate.a_month);
        let wanted = open[candidate.phase].min(candidate.most);
        let repeats = wanted.min(fit);
        if repeats < wanted {
            for month in phase.in_months().filter(|month| of_month(*month) <= least) {
                let price = prices.entry((candidate.pool, month)).or_insert(0.0);
                // All of what it saves is laid on the months that had too little.
                *price = price.max(candidate.saves / candidate.a_month);
            }
        }
        if repeats == 0 {
            continue;
        }
        for month in phase.in_months() {
            if let Some(left) = left.get_mut(&(candidate.pool, month)) {
                *left = (*left - f64::from(repeats) * candidate.a_month).max(0.0);
            }
        }
        open[candidate.phase] -= repeats;
        assignment.saved_usd += candidate.saves * f64::from(repeats);
        assignment.placed[candidate.phase].push(Placed { held: candidate.held, repeats });
    }
    assignment.bound_usd = [Hours::new(), prices]
        .iter()
        .map(|prices| bound(prices, &held, &candidates, costed))
        .fold(f64::INFINITY, f64::min);
    assignment
}

/// Times that `each` is in `all`; never more than there is.
fn whole_times(all: f64, each: f64) -> u32 {
    let times = (all / each).floor().max(0.0) as u32;
    if f64::from(times) * each > all { times.saturating_sub(1) } else { times }
}

/// That no assignment saves more than, by weak duality: whatever prices hours have, nobody does better than to sell all of them at
/// those prices and to give every repeat what it saves beyond them (Lagrangian relaxation of the capacities).
fn bound(prices: &Hours, held: &Hours, candidates: &[Candidate], costed: &[CostedPhase]) -> f64 {
    let price = |pool: usize, month: Month| prices.get(&(pool, month)).copied().unwrap_or(0.0);
    let sold: f64 = held.iter().map(|((pool, month), hours)| price(*pool, *month) * hours).sum();
    let mut best = vec![0.0_f64; costed.len()];
    for candidate in candidates {
        let paid: f64 = costed[candidate.phase].phase.in_months().map(|month| price(candidate.pool, month)).sum();
        let beyond = candidate.saves - paid * candidate.a_month;
        best[candidate.phase] = best[candidate.phase].max(beyond);
    }
    sold + best.iter().zip(costed).map(|(beyond, costed)| beyond * f64::from(costed.phase.repeats)).sum::<f64>()
}

/// What one more machine of each pool would save over the portfolio. Dollars.
pub fn worth_of_one_more(portfolio: &Portfolio, costed: &[CostedPhase], saved_usd: f64) -> Vec<f64> {
    let one_more = |at: usize| {
        let mut pools = portfolio.pools.clone();
        pools[at].nodes = pools[at].nodes.saturating_add(1);
        // The rule is no optimum: a machine more is at least worth nothing.
        (assign(portfolio, &pools, costed).saved_usd - saved_usd).max(0.0)
    };
    (0..portfolio.pools.len()).map(one_more).collect()
}

#[cfg(test)]
mod tests;
