//! `PhaseFigures`: what each phase of a budget is expected to cost, with its unit costs and what it saves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::portfolio::calendar::{Month, Period};
use crate::portfolio::lines::{BudgetLine, CostedPhase, LineOrigin};
use crate::portfolio::savings::saved;
use crate::portfolio::simulation::Simulated;
use crate::portfolio::unit_costs::UnitCosts;
use gpuplan_units::{Quantiles, Usd};

/// A phase with what it is expected to cost.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseFigures {
    pub phase: String,
    pub team: String,
    #[serde(flatten)]
    pub period: Period,
    pub repeats: u32,
    /// Of the repeats, those on machines that are held.
    #[serde(skip_serializing_if = "is_zero")]
    pub repeats_on_held: u32,
    /// Id of its plan; null for stated rates.
    pub plan: Option<String>,
    /// What was asked, as a workload file says it, to compare budgets by; absent for stated rates.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub question: Value,
    pub cloud: String,
    pub gpu: Option<String>,
    pub nodes: u32,
    pub purchase: String,
    /// Of all times together, before tax and after commitments.
    pub cost_usd: Quantiles<Usd>,
    /// Of it, what spot and commitments save against renting the same machines on demand; null: no such price is known.
    pub saved_usd: Option<Usd>,
    /// Of one time.
    pub run_hours: Quantiles<f64>,
    /// Of one time.
    pub cost_each_usd: Quantiles<Usd>,
    /// Share of a step in which the GPUs do the model's work, as it is estimated; null for stated rates.
    pub gpu_utilization: Option<f64>,
    /// Of one time; null: the workload states nothing to count by.
    pub unit_costs: Option<UnitCosts>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What each phase costs in each month.
pub type PhaseSums = BTreeMap<(usize, Month), Usd>;

pub fn phase_sums(lines: &[BudgetLine]) -> PhaseSums {
    let mut sums = PhaseSums::new();
    for line in lines {
        if let LineOrigin::Phase(phase) = line.origin {
            let sum = sums.entry((phase, line.month)).or_default();
            *sum = *sum + line.amount.cost_usd;
        }
    }
    sums
}

/// One for each phase. `None`: beyond counting.
pub fn phase_figures(
    costed: &[CostedPhase],
    by_phase: &PhaseSums,
    simulated: &Simulated,
    lines: &[BudgetLine],
) -> Option<Vec<PhaseFigures>> {
    let one = |(at, costed): (usize, &CostedPhase)| {
        let phase = costed.phase;
        let cost_usd = Quantiles {
            expected: phase.in_months().filter_map(|month| by_phase.get(&(at, month)).copied()).sum(),
            p50: Usd::from_dollars(simulated.phases[at].p50)?,
            p90: Usd::from_dollars(simulated.phases[at].p90)?,
        };
        let of_phase = lines.iter().filter(|line| line.origin == LineOrigin::Phase(at));
        Some(PhaseFigures { saved_usd: saved(of_phase), ..figures(costed, cost_usd) })
    };
    costed.iter().enumerate().map(one).collect()
}

fn figures(costed: &CostedPhase, cost_usd: Quantiles<Usd>) -> PhaseFigures {
    let CostedPhase { phase, once, .. } = costed;
    PhaseFigures {
        phase: phase.path(),
        team: phase.team.clone(),
        period: Period { start: phase.start, months: phase.months },
        repeats: phase.repeats,
        repeats_on_held: phase.repeats - costed.rented(),
        plan: once.plan.clone(),
        question: once.question.clone(),
        cloud: once.machines.cloud.clone(),
        gpu: once.machines.gpu.clone(),
        nodes: once.machines.nodes,
        purchase: once.machines.purchase.clone(),
        cost_usd,
        saved_usd: None,
        run_hours: once.hours,
        cost_each_usd: once.cost,
        gpu_utilization: once.gpu_utilization,
        unit_costs: once.work.costs(once.cost.expected),
    }
}
