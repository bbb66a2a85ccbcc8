//! The assignment that saves most, as an integer program: how often each phase takes each pool, and how many machines there should be.

use std::collections::BTreeMap;

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};

use crate::portfolio::assignment::candidate::{Candidate, Hours};
use crate::portfolio::lines::CostedPhase;

/// Branches that are looked at. A number and not a time, so that the answer is the same on every machine; companies of the tests are
/// settled within the first few.
const MOST_NODES: u64 = 300;

/// A pool whose number of machines is to be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Machines; what the program knows as the hours of the pool is of all of them.
    pub most: u32,
    /// What is paid for each, used or not. Dollars.
    pub paid: f64,
}

pub struct Solved {
    /// By candidate.
    pub repeats: Vec<u32>,
    /// Of the pools that are chosen.
    pub nodes: BTreeMap<usize, u32>,
    /// No assignment saves more than this, beyond what is paid for machines that are chosen.
    pub bound_usd: f64,
}

/// Begins with repeats that are known to fit all machines. `chosen` are pools by number. `None`: the solver could not do it.
pub fn solve(
    candidates: &[Candidate],
    costed: &[CostedPhase],
    held: &Hours,
    chosen: &BTreeMap<usize, Choice>,
    start: &[u32],
) -> Option<Solved> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let whole = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let nodes: BTreeMap<usize, Variable> = chosen
        .iter()
        .map(|(pool, choice)| (*pool, problem.add_integer_var(-choice.paid, (0, whole(choice.most)))))
        .collect();
    let mut begin: Vec<(Variable, f64)> =
        nodes.iter().map(|(pool, variable)| (*variable, f64::from(chosen[pool].most))).collect();
    let mut of_phase: BTreeMap<usize, Vec<(Variable, f64)>> = BTreeMap::new();
    let mut of_hours: BTreeMap<_, Vec<(Variable, f64)>> = BTreeMap::new();
    let mut variables = Vec::new();
    for (candidate, start) in candidates.iter().zip(start) {
        let phase = costed[candidate.phase].phase;
        let hours = |month| held.get(&(candidate.pool, month)).copied().unwrap_or(0.0);
        let is_there = phase.in_months().all(|month| hours(month) >= candidate.a_month);
        let most = if is_there { candidate.most.min(phase.repeats) } else { 0 };
        let variable = problem.add_integer_var(candidate.saves, (0, whole(most)));
        of_phase.entry(candidate.phase).or_default().push((variable, 1.0));
        for month in phase.in_months() {
            of_hours.entry((candidate.pool, month)).or_default().push((variable, candidate.a_month));
        }
        if let Some(all) = nodes.get(&candidate.pool).filter(|_| most > 0) {
            // As many sets of machines at a time as there are, and on each so many repeats one after another.
            let sets_there = chosen[&candidate.pool].most / candidate.nodes;
            let sets = problem.add_integer_var(0.0, (0, whole(sets_there)));
            problem.add_constraint([(sets, f64::from(candidate.nodes)), (*all, -1.0)], ComparisonOp::Le, 0.0);
            let each = f64::from(candidate.after_another.min(most));
            problem.add_constraint([(variable, 1.0), (sets, -each)], ComparisonOp::Le, 0.0);
            begin.push((sets, f64::from(sets_there)));
        }
        begin.push((variable, f64::from(*start)));
        variables.push(variable);
    }
    for (phase, terms) in of_phase {
        problem.add_constraint(terms, ComparisonOp::Le, f64::from(costed[phase].phase.repeats));
    }
    for ((pool, month), terms) in of_hours {
        // In parts of the hours there are, so that months and machines of all sizes are numbers of one size.
        let Some(all) = held.get(&(pool, month)).copied().filter(|all| *all > 0.0) else { continue };
        let mut terms: Vec<_> = terms.into_iter().map(|(variable, hours)| (variable, hours / all)).collect();
        match nodes.get(&pool) {
            Some(variable) => {
                terms.push((*variable, -1.0 / f64::from(chosen[&pool].most)));
                problem.add_constraint(terms, ComparisonOp::Le, 0.0);
            }
            None => problem.add_constraint(terms, ComparisonOp::Le, 1.0),
        }
    }
    let mut options = SolveOptions::default();
    (options.node_limit, options.warm_start) = (Some(MOST_NODES), Some(begin.into_iter().collect()));
    let outcome = problem.solve_with(options).ok()?;
    let solution = outcome.solution()?;
    let bound_usd = outcome.stats().best_bound.unwrap_or(solution.objective()).max(solution.objective());
    let number = |variable: &Variable| solution.var_value(*variable).round().max(0.0) as u32;
    Some(Solved {
        repeats: variables.iter().map(number).collect(),
        nodes: nodes.iter().map(|(pool, variable)| (*pool, number(variable))).collect(),
        bound_usd,
    })
}
