//! Machines that are held already, own or committed: which runs take them, so that none is promised twice, and what that saves.

use std::collections::BTreeMap;

use crate::portfolio::Portfolio;
use crate::portfolio::assignment::candidate::{Candidate, Hours, candidates, hours_in};
use crate::portfolio::calendar::Month;
use crate::portfolio::lines::CostedPhase;
use crate::portfolio::planned::Placed;
use gpuplan_market::capacity::pool::Pool;

pub mod candidate;
mod solver;

pub use crate::portfolio::assignment::solver::Choice;

/// Which runs take which machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// By phase.
    pub placed: Vec<Vec<Placed>>,
    /// Against renting everything, in cash beside what is paid anyway.
    pub saved_usd: f64,
    /// No assignment saves more than this.
    pub bound_usd: f64,
}

/// What every assignment rests on.
pub const RULE: &str = "whole runs take held machines, one after another, so that all of them together save most; \
    what does not fit is rented at the next best offer";

/// Machine-hours of the pool in the month.
pub fn machine_hours_in(pool: &Pool, month: Month) -> f64 {
    hours_in(pool, month) * f64::from(pool.nodes)
}

/// Gives held machines to runs so that they save most, never more than there are. `pools` are those of the portfolio, or others to see
/// what they would be worth. Every run takes `work` times its hours and saves as much less or more.
pub fn assign(portfolio: &Portfolio, pools: &[Pool], costed: &[CostedPhase], work: f64) -> Assignment {
    let (candidates, held) = (candidates(pools, costed, work), hours_held(portfolio, pools));
    let as_many_as_fit = vec![u32::MAX; candidates.len()];
    let saved =
        |repeats: &[u32]| -> f64 { candidates.iter().zip(repeats).map(|(one, n)| one.saves * f64::from(*n)).sum() };
    // Those that save most for an hour first: where to begin, and all there is if the solver gives up.
    let mut repeats = Filling::new(&candidates, costed, &held).take(&as_many_as_fit).repeats;
    let mut bound_usd = best_of_each(&candidates, costed);
    if let Some(solved) = solver::solve(&candidates, costed, &held, &BTreeMap::new(), &repeats) {
        // Held to the hours there are once more: the solver's own are right to within its tolerance only.
        let filled = Filling::new(&candidates, costed, &held).take(&solved.repeats).take(&as_many_as_fit).repeats;
        if saved(&filled) > saved(&repeats) {
            repeats = filled;
        }
        bound_usd = bound_usd.min(solved.bound_usd);
    }
    let mut placed = vec![Vec::new(); costed.len()];
    for (candidate, repeats) in candidates.iter().zip(&repeats).filter(|(_, repeats)| **repeats > 0) {
        placed[candidate.phase].push(Placed { held: candidate.held, repeats: *repeats });
    }
    Assignment { placed, saved_usd: saved(&repeats), bound_usd: bound_usd.max(saved(&repeats)) }
}

/// How many machines of each pool to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    /// By pool.
    pub nodes: Vec<u32>,
    /// No numbers within the choice save more than this beyond what the chosen machines cost, against renting everything.
    pub bound_usd: f64,
}

/// Chooses the numbers of machines of some pools and the runs that take them at once, so that most is saved beyond what is paid. `pools` has
/// as many machines of each as may be taken. `None`: the solver could not do it.
pub fn choose(
    portfolio: &Portfolio,
    pools: &[Pool],
    chosen: &BTreeMap<usize, Choice>,
    costed: &[CostedPhase],
    work: f64,
) -> Option<Sizing> {
    let (candidates, held) = (candidates(pools, costed, work), hours_held(portfolio, pools));
    let as_many_as_fit = vec![u32::MAX; candidates.len()];
    let start = Filling::new(&candidates, costed, &held).take(&as_many_as_fit).repeats;
    let solved = solver::solve(&candidates, costed, &held, chosen, &start)?;
    let nodes = |(at, pool): (usize, &Pool)| solved.nodes.get(&at).copied().unwrap_or(pool.nodes);
    Some(Sizing { nodes: pools.iter().enumerate().map(nodes).collect(), bound_usd: solved.bound_usd })
}

fn hours_held(portfolio: &Portfolio, pools: &[Pool]) -> Hours {
    let of_pool = |(at, pool): (usize, &Pool)| {
        portfolio.all_months().map(|month| ((at, month), machine_hours_in(pool, month))).collect::<Vec<_>>()
    };
    pools.iter().enumerate().flat_map(of_pool).collect()
}

/// Hours and repeats that nothing was given to yet.
struct Filling<'a> {
    candidates: &'a [Candidate],
    costed: &'a [CostedPhase<'a>],
    left: Hours,
    /// By phase.
    open: Vec<u32>,
    /// By candidate.
    repeats: Vec<u32>,
}

impl<'a> Filling<'a> {
    fn new(candidates: &'a [Candidate], costed: &'a [CostedPhase<'a>], held: &Hours) -> Self {
        let open = costed.iter().map(|costed| costed.phase.repeats).collect();
        Self { candidates, costed, left: held.clone(), open, repeats: vec![0; candidates.len()] }
    }

    /// Gives to candidates, in their order, as many repeats more as are wanted and fit.
    fn take(mut self, wanted: &[u32]) -> Self {
        for (at, candidate) in self.candidates.iter().enumerate() {
            let phase = self.costed[candidate.phase].phase;
            let of_month = |month| self.left.get(&(candidate.pool, month)).copied().unwrap_or(0.0);
            let least = phase.in_months().map(of_month).fold(f64::INFINITY, f64::min);
            let most = candidate.most.saturating_sub(self.repeats[at]).min(self.open[candidate.phase]);
            let repeats = wanted[at].min(most).min(whole_times(least, candidate.a_month));
            for month in phase.in_months() {
                if let Some(left) = self.left.get_mut(&(candidate.pool, month)) {
                    *left = (*left - f64::from(repeats) * candidate.a_month).max(0.0);
                }
            }
            self.open[candidate.phase] -= repeats;
            self.repeats[at] += repeats;
        }
        self
    }
}

/// Times that `each` is in `all`; never more than there is.
fn whole_times(all: f64, each: f64) -> u32 {
    let times = (all / each).floor().max(0.0) as u32;
    if f64::from(times) * each > all { times.saturating_sub(1) } else { times }
}

/// What would be saved if every repeat had the machines that are best for it.
fn best_of_each(candidates: &[Candidate], costed: &[CostedPhase]) -> f64 {
    let mut best = vec![0.0_f64; costed.len()];
    for candidate in candidates {
        best[candidate.phase] = best[candidate.phase].max(candidate.saves);
    }
    best.iter().zip(costed).map(|(best, costed)| best * f64::from(costed.phase.repeats)).sum()
}

#[cfg(test)]
mod tests;
