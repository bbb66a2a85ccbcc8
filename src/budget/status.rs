//! `BudgetStatus`: a budget against what was spent: planned, spent, still to go, at completion, and why it differs.

mod anomaly;
mod attribution;
mod remaining;
mod rows;
mod variance;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exchange::Exchange;
use crate::portfolio::budget::{Budget, CumulativeCost, Period, budget};
use crate::portfolio::calendar::Month;
use crate::portfolio::planned::PhaseCost;
use crate::portfolio::rules::SpentSoFar;
use crate::portfolio::verdict::RuleResult;
use crate::portfolio::{Portfolio, PortfolioError};
use crate::spending::spent::Spent;
use crate::status::anomaly::anomalies;
pub use crate::status::anomaly::{Anomaly, AnomalyKind};
use crate::status::attribution::Attributed;
use crate::status::remaining::remaining;
pub use crate::status::rows::{Planned, PlannedBudgetError, StatusRow};
use crate::status::rows::{Rows, Slice};
pub use crate::status::variance::Variance;
use crate::status::variance::variance;
use gpuplan_plan::document::InputsRecord;
use gpuplan_units::{Quantiles, Usd};

/// Of the document that `budget --actual --output json` writes.
const VERSION: u32 = 1;

/// What was planned, what was spent, and what it comes to. Every `at_completion_usd` is `spent_usd` and `to_go_usd`, to the nano-dollar.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BudgetStatus {
    pub version: u32,
    pub generated_at: Timestamp,
    pub name: String,
    /// Of every amount: `USD`; those whose name says `in_currency` are of `exchange`.
    pub currency: &'static str,
    /// The currency in which the portfolio is stated, and in which people are shown the status; absent: dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    pub tax: String,
    #[serde(flatten)]
    pub period: Period,
    /// Where `planned_usd` comes from.
    pub planned_from: String,
    pub total: StatusRow,
    /// What was spent and the draws of what is to go.
    pub at_completion_usd: Quantiles<Usd>,
    pub by_month: Vec<StatusRow>,
    /// All months until the end of each: what was spent, and the draws of what is to go.
    pub cumulative: Vec<CumulativeCost>,
    pub by_team: Vec<StatusRow>,
    /// By the tag `project`.
    pub by_project: Vec<StatusRow>,
    pub by_phase: Vec<PhaseStatus>,
    /// Share of what was spent that stands on an imported bill; the rest is what runs recorded.
    pub billed_share: f64,
    /// Runs in the ledger that belong to no phase and no team of the portfolio, and what they cost; they are in no sum above.
    pub other_runs: usize,
    pub other_usd: Usd,
    pub anomalies: Vec<Anomaly>,
    pub rules: Vec<RuleResult>,
    pub assumptions: Vec<String>,
}

/// A phase against its plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PhaseStatus {
    #[serde(flatten)]
    pub row: StatusRow,
    /// Runs that were launched for it.
    pub runs: Vec<String>,
    pub repeats: u32,
    /// Of the repeats; a run that is under way counts as the share of its expected cost that it has spent.
    pub done: f64,
    /// Its months are over, and it is not done: what is left is forecast from this month on.
    pub is_late: bool,
    pub variance: Variance,
}

/// `once` has one for each phase; `planned` is what was budgeted, at the time.
pub fn status(
    portfolio: &Portfolio,
    once: &[PhaseCost],
    planned: &Planned,
    spent: &Spent,
    inputs: InputsRecord,
    now: Timestamp,
    seed: u64,
) -> Result<BudgetStatus, PortfolioError> {
    let attributed = Attributed::new(portfolio, spent, now);
    let left = remaining(portfolio, once, &attributed, now);
    let mut rows = Rows::new(portfolio, planned, &attributed);
    let mut ahead = left.portfolio.clone();
    ahead.spent = SpentSoFar {
        total: rows.sum(Slice::Total).spent_usd,
        by_team: rows.spent_by_team(),
        by_month: rows.spent_by_month(portfolio),
    };
    let to_go: Budget = budget(&ahead, &left.once, inputs, now, seed)?;
    rows.add_to_go(portfolio, &to_go);
    rows.set_chances(portfolio, &to_go);
    let total = rows.sum(Slice::Total);
    let by_phase = portfolio.phases.iter().enumerate().map(|(at, phase)| {
        let progress = left.progress[at];
        let runs = attributed.runs_of(at);
        PhaseStatus {
            row: StatusRow { name: phase.path(), ..rows.sum(Slice::Phase(at)) },
            runs: runs.into_iter().collect(),
            repeats: phase.repeats,
            done: progress.done,
            is_late: progress.is_late,
            variance: variance(portfolio, at, &once[at], progress.done, &attributed, rows.planned_to_date(at, now)),
        }
    });
    Ok(BudgetStatus {
        version: VERSION,
        generated_at: now,
        name: portfolio.name.clone(),
        currency: "USD",
        exchange: portfolio.exchange.clone(),
        tax: to_go.tax.clone(),
        period: Period { start: portfolio.start, months: portfolio.months },
        planned_from: planned.source.clone(),
        at_completion_usd: Quantiles {
            expected: total.at_completion_usd,
            p50: total.spent_usd + to_go.total.cost_usd.p50,
            p90: total.spent_usd + to_go.total.cost_usd.p90,
        },
        by_phase: by_phase.collect(),
        cumulative: cumulative(&rows, &to_go),
        by_month: rows.all(Slice::is_month),
        by_team: rows.all(Slice::is_team),
        by_project: rows.all(Slice::is_project),
        billed_share: attributed.billed_share(),
        other_runs: attributed.other_runs.len(),
        other_usd: attributed.other_usd,
        anomalies: anomalies(portfolio, once, spent, &attributed, &left.progress),
        rules: to_go.rules.clone(),
        assumptions: assumptions(&to_go),
        total,
    })
}

/// What is to go is added draw by draw, and what was spent is certain.
fn cumulative(rows: &Rows, to_go: &Budget) -> Vec<CumulativeCost> {
    let (mut spent, mut ahead) = (Usd::ZERO, Quantiles::<Usd>::default());
    let until = |month: Month| {
        spent = spent + rows.sum(Slice::Month(month)).spent_usd;
        if let Some(drawn) = to_go.cumulative.iter().find(|until| until.month == month) {
            ahead = drawn.cost_usd;
        }
        let [expected, p50, p90] = [ahead.expected, ahead.p50, ahead.p90].map(|cost| spent + cost);
        CumulativeCost { month, cost_usd: Quantiles { expected, p50, p90 } }
    };
    rows.months().map(until).collect()
}

fn assumptions(to_go: &Budget) -> Vec<String> {
    let mut assumed = vec![
        "months that are over are not forecast; what is not done of a phase is forecast from this month on, unless it says `ended = true`"
            .to_owned(),
        "a bill counts in the months before this one, at its effective cost; this month counts what runs recorded or the bill, whichever \
         is more"
            .to_owned(),
    ];
    assumed.extend(to_go.assumptions.iter().cloned());
    assumed
}

#[cfg(test)]
mod tests;
