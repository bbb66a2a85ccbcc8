//! What is left to do: how far each phase is, and the portfolio of what is still to come.

use jiff::Timestamp;

use crate::portfolio::budget::months_for;
use crate::portfolio::calendar::Month;
use crate::portfolio::planned::{HeldPlan, PhaseCost, PhaseCostLine};
use crate::portfolio::{Phase, Portfolio};
use crate::spending::spent::RunKnown;
use crate::status::attribution::Attributed;
use gpuplan_units::{Quantiles, Usd};

/// A run that is under way is never counted as done, however much it has spent.
const MOST_OF_A_RUN: f64 = 0.95;
/// Parts of what is left of a run, so that amounts are split exactly.
const PARTS: i128 = 1_000_000;

/// How far a phase is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Of its repeats.
    pub done: f64,
    pub is_late: bool,
}

/// The portfolio from this month on, with what doing each of its phases once costs.
pub struct Remaining {
    pub portfolio: Portfolio,
    pub once: Vec<PhaseCost>,
    /// Of every phase of the whole portfolio.
    pub progress: Vec<Progress>,
}

pub fn remaining(portfolio: &Portfolio, once: &[PhaseCost], attributed: &Attributed, now: Timestamp) -> Remaining {
    let first = Month::containing(now).max(portfolio.start);
    let end = portfolio.start.ahead(portfolio.months);
    let (mut phases, mut costs, mut progress) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (phase, once)) in portfolio.phases.iter().zip(once).enumerate() {
        let done = if phase.is_ended { f64::from(phase.repeats) } else { done(at, phase, once, attributed, now) };
        let left = (f64::from(phase.repeats) - done).max(0.0);
        let last = phase.start.ahead(phase.months);
        progress.push(Progress { done, is_late: left > 0.0 && last <= first });
        if left <= 0.0 {
            continue;
        }
        let repeats = left.ceil().max(1.0);
        let once = part_of(once, left / repeats);
        let start = phase.start.max(first);
        let months = last.since(start).max(months_for(start, once.hours.expected) as i32).max(1) as u32;
        phases.push(Phase { repeats: repeats as u32, start, months, ..phase.clone() });
        costs.push(once);
    }
    let end = phases.iter().map(|phase| phase.start.ahead(phase.months)).chain([end, first.ahead(1)]).max();
    let months = end.map_or(1, |end| end.since(first).max(1) as u32);
    Remaining { portfolio: Portfolio { start: first, months, phases, ..portfolio.clone() }, once: costs, progress }
}

/// Repeats that are done: completed runs, and of a run under way the share of its expected cost that is spent. Where only bills know of
/// runs, the share of the months that is over.
fn done(at: usize, phase: &Phase, once: &PhaseCost, attributed: &Attributed, now: Timestamp) -> f64 {
    let most = f64::from(phase.repeats);
    let Some(known) = attributed.known.get(&at).filter(|known| !known.is_empty()) else {
        let (begin, end) = (phase.start.begin(), phase.start.ahead(phase.months).begin());
        let over = now.duration_since(begin).as_secs_f64() / end.duration_since(begin).as_secs_f64();
        return if attributed.of_phase(at) > Usd::ZERO { most * over.clamp(0.0, 1.0) } else { 0.0 };
    };
    let each = once.cost.expected.dollars();
    let part = |run: &RunKnown| match run.outcome.as_deref() {
        Some("completed") => 1.0,
        // It can be resumed from what it saved, which is not known here: nothing counts as done.
        Some(outcome) if outcome != "interrupted" => 0.0,
        _ if each > 0.0 => {
            let spent = attributed.by_run.get(&run.run).copied().unwrap_or_default().dollars();
            (spent / each).clamp(0.0, MOST_OF_A_RUN)
        }
        _ => 0.0,
    };
    known.iter().map(part).sum::<f64>().min(most)
}

/// A share of doing a phase once.
fn part_of(once: &PhaseCost, share: f64) -> PhaseCost {
    let parts = (share * PARTS as f64).round() as i128;
    if parts >= PARTS {
        return once.clone();
    }
    let usd = |amount: Usd| amount.share(parts, PARTS);
    let hours = |hours: Quantiles<f64>| Quantiles {
        expected: hours.expected * share,
        p50: hours.p50 * share,
        p90: hours.p90 * share,
    };
    let line = |line: &PhaseCostLine| PhaseCostLine {
        quantity: line.quantity * share,
        cost: usd(line.cost),
        assumption: format!("{}; {:.0} % of a run is left", line.assumption, share * 100.0),
        ..line.clone()
    };
    let held = |held: &HeldPlan| HeldPlan {
        hours: hours(held.hours),
        machine_hours: held.machine_hours * share,
        lines: held.lines.iter().map(line).collect(),
        ..held.clone()
    };
    let lines: Vec<PhaseCostLine> = once.lines.iter().map(line).collect();
    PhaseCost {
        hours: hours(once.hours),
        cost: Quantiles {
            // The lines add up to it.
            expected: lines.iter().map(|line| line.cost).sum(),
            p50: usd(once.cost.p50),
            p90: usd(once.cost.p90),
        },
        lines,
        held: once.held.iter().map(held).collect(),
        ..once.clone()
    }
}
