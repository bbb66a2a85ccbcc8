//! The assignment that saves most, as an integer program: how often each phase takes each pool.

use std::collections::BTreeMap;

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};

use crate::portfolio::assignment::candidate::{Candidate, Hours};
use crate::portfolio::lines::CostedPhase;

/// Branches that are looked at. A number and not a time, so that the answer is the same on every machine; companies of the tests are
/// settled within the first few.
const MOST_NODES: u64 = 300;

pub struct Solved {
    /// By candidate.
    pub repeats: Vec<u32>,
    /// No assignment saves more than this.
    pub bound_usd: f64,
}

/// Begins with repeats that are known to fit. `None`: the solver could not do it.
pub fn solve(candidates: &[Candidate], costed: &[CostedPhase], held: &Hours, start: &[u32]) -> Option<Solved> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut of_phase: BTreeMap<usize, Vec<(Variable, f64)>> = BTreeMap::new();
    let mut of_hours: BTreeMap<_, Vec<(Variable, f64)>> = BTreeMap::new();
    let mut variables = Vec::new();
    for candidate in candidates {
        let phase = costed[candidate.phase].phase;
        let hours = |month| held.get(&(candidate.pool, month)).copied().unwrap_or(0.0);
        let is_there = phase.in_months().all(|month| hours(month) >= candidate.a_month);
        let most = if is_there { candidate.most.min(phase.repeats) } else { 0 };
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let variable = problem.add_integer_var(candidate.saves, (0, most));
        of_phase.entry(candidate.phase).or_default().push((variable, 1.0));
        for month in phase.in_months() {
            of_hours.entry((candidate.pool, month)).or_default().push((variable, candidate.a_month));
        }
        variables.push(variable);
    }
    for (phase, terms) in of_phase {
        problem.add_constraint(terms, ComparisonOp::Le, f64::from(costed[phase].phase.repeats));
    }
    for (place, terms) in of_hours {
        // In parts of the hours there are, so that months and machines of all sizes are numbers of one size.
        let Some(all) = held.get(&place).copied().filter(|all| *all > 0.0) else { continue };
        let terms: Vec<_> = terms.into_iter().map(|(variable, hours)| (variable, hours / all)).collect();
        problem.add_constraint(terms, ComparisonOp::Le, 1.0);
    }
    let start = variables.iter().copied().zip(start.iter().map(|repeats| f64::from(*repeats))).collect();
    let mut options = SolveOptions::default();
    (options.node_limit, options.warm_start) = (Some(MOST_NODES), Some(start));
    let outcome = problem.solve_with(options).ok()?;
    let solution = outcome.solution()?;
    let bound_usd = outcome.stats().best_bound.unwrap_or(solution.objective()).max(solution.objective());
    let repeats = variables.iter().map(|variable| solution.var_value(*variable).round().max(0.0) as u32).collect();
    Some(Solved { repeats, bound_usd })
}
