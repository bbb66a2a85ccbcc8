//! `Budget`: the whole answer to a portfolio, and its lines as charges.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::portfolio::calendar::Month;
use crate::portfolio::commitment::CommitmentFigures;
use crate::portfolio::groups::{By, within};
use crate::portfolio::lines::{Costed, Line, Lines, Of};
use crate::portfolio::planned::Once;
use crate::portfolio::sensitivity::{Bar, bars};
use crate::portfolio::simulation::{
    AVAILABILITY_IN_COMMON, DRAWS, SPOT_PRICE_IN_COMMON, SPOT_PRICE_STEP, Simulated, simulate,
};
use crate::portfolio::terms::{ElsewhereCost, Promise, elsewhere, promises};
use crate::portfolio::{Part, Phase, Portfolio, PortfolioError, quantiles};
use crate::{Charge, Costs, Nature};
use gpuplan_plan::document::InputsRecord as Inputs;
use gpuplan_units::{Quantiles, Usd};

#[derive(Clone, Debug)]
pub struct Budget {
    pub name: String,
    pub generated_at: Timestamp,
    pub inputs: Inputs,
    /// As stated: `excluded`, or the share that is in every amount but the lines before it.
    pub tax: String,
    pub start: Month,
    pub months: u32,
    pub total: Part,
    /// Mean of the draws: near the total where the draws are right.
    pub mean_of_draws: Usd,
    pub by_month: Vec<Part>,
    pub by_team: Vec<Part>,
    pub by_cloud: Vec<Part>,
    pub by_gpu: Vec<Part>,
    pub phases: Vec<PhaseFigures>,
    pub commitments: Vec<CommitmentFigures>,
    pub promises: Vec<Promise>,
    pub elsewhere: Vec<ElsewhereCost>,
    pub sensitivity: Vec<Bar>,
    pub lines: Vec<Line>,
    pub assumptions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseFigures {
    pub phase: String,
    pub team: String,
    pub start: Month,
    pub months: u32,
    pub repeats: u32,
    pub plan: Option<String>,
    /// What was asked, to compare budgets by.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub question: Value,
    pub cloud: String,
    pub gpu: Option<String>,
    pub nodes: u32,
    pub purchase: String,
    /// Of all times together, before tax and after commitments.
    pub cost_usd: Quantiles<Usd>,
    /// Of one time.
    pub run_hours: Quantiles<f64>,
    pub cost_each_usd: Quantiles<Usd>,
}

/// `once` has one for each phase, in their order.
pub fn budget(
    portfolio: &Portfolio,
    once: &[Once],
    inputs: Inputs,
    now: Timestamp,
    seed: u64,
) -> Result<Budget, PortfolioError> {
    let costed: Vec<Costed> = portfolio.phases.iter().zip(once).map(|(phase, once)| Costed { phase, once }).collect();
    let beyond = |line, what: &str| {
        let detail = format!("{what} costs more than this program can count");
        PortfolioError::at(line, detail, "check `usd_per_hour`, `nodes`, `hours` and `repeats`")
    };
    // Sums and taxes of what is countable together are countable.
    let mut whole = 0.0;
    for Costed { phase, once } in &costed {
        let elsewhere = once.elsewhere.iter().map(|elsewhere| elsewhere.cost);
        let most = elsewhere.chain([once.cost]).map(|cost| cost.expected.max(cost.p50).max(cost.p90)).max();
        whole += most.map_or(0.0, Usd::dollars) * f64::from(phase.repeats);
        Usd::from_dollars(whole)
            .ok_or_else(|| beyond(phase.line, &format!("with `{}` the portfolio", phase.path())))?;
    }
    // Far out in their distribution draws may be beyond it all the same.
    counted(portfolio, &costed, inputs, now, seed).ok_or_else(|| beyond(1, "in an unlucky case the portfolio"))
}

/// `None`: beyond counting.
fn counted(portfolio: &Portfolio, costed: &[Costed], inputs: Inputs, now: Timestamp, seed: u64) -> Option<Budget> {
    let this_month = Month::of(now);
    let Lines { mut lines, covered } = Lines::of(portfolio, costed);
    let mut simulated = simulate(portfolio, costed, this_month, seed)?;
    let total: Usd = lines.iter().map(|line| line.cost_usd).sum();
    let mean = simulated.groups.total.iter().sum::<f64>() / DRAWS as f64;
    let chance = portfolio.budget.map(|budget| within(&simulated.groups.total, budget));
    let total = Part {
        name: "total".to_owned(),
        cost_usd: quantiles(&mut simulated.groups.total, total)?,
        budget_usd: portfolio.budget,
        chance_within_budget: chance,
    };
    let parts = sums(&lines);
    spread_lines(&mut lines, costed, &parts, &simulated, &total)?;
    let figures = covered.iter().zip(&simulated.losses).zip(&portfolio.commitments);
    let commitments = figures
        .map(|(((used, spared), loses), commitment)| commitment.figures(portfolio, *used, *spared, *loses))
        .collect();
    let [by_month, by_team, by_cloud, by_gpu] = By::ALL.map(|by| simulated.groups.parts(by, &lines, &portfolio.teams));
    Some(Budget {
        name: portfolio.name.clone(),
        generated_at: now,
        inputs,
        tax: tax_text(portfolio),
        start: portfolio.start,
        months: portfolio.months,
        total,
        mean_of_draws: Usd::from_dollars((mean * 100.0).round() / 100.0)?,
        by_month: by_month?,
        by_team: by_team?,
        by_cloud: by_cloud?,
        by_gpu: by_gpu?,
        phases: phases(costed, &parts, &simulated)?,
        commitments,
        promises: promises(portfolio, costed)?,
        elsewhere: elsewhere(costed, portfolio.tax)?,
        sensitivity: bars(portfolio, costed, this_month)?,
        lines,
        assumptions: assumptions(portfolio, costed),
    })
}

fn tax_text(portfolio: &Portfolio) -> String {
    match portfolio.tax.millionths {
        0 => "excluded".to_owned(),
        // Four digits are all that a percentage may have.
        millionths => format!("{} %", millionths as f64 / 1e4),
    }
}

/// What each phase costs in each month.
type Parts = BTreeMap<(usize, Month), Usd>;

fn sums(lines: &[Line]) -> Parts {
    let mut parts = Parts::new();
    for line in lines {
        if let Of::Phase(phase) = line.of {
            let sum = parts.entry((phase, line.month)).or_default();
            *sum = *sum + line.cost_usd;
        }
    }
    parts
}

/// Percentiles of each line from the draws of what it belongs to: its lines move together. `None`: beyond counting.
fn spread_lines(
    lines: &mut [Line],
    costed: &[Costed],
    parts: &Parts,
    simulated: &Simulated,
    total: &Part,
) -> Option<()> {
    for line in lines {
        let (p50, p90) = match line.of {
            Of::Phase(phase) => match parts.get(&(phase, line.month)) {
                Some(sum) if *sum > Usd::ZERO => {
                    let drawn = simulated.parts[phase][line.month.since(costed[phase].phase.start) as usize];
                    (drawn.p50 / sum.dollars(), drawn.p90 / sum.dollars())
                }
                _ => (1.0, 1.0),
            },
            Of::Commitment(at) => {
                let drawn = simulated.unused[at].get(&line.month);
                drawn.filter(|_| line.cost_usd > Usd::ZERO).map_or((1.0, 1.0), |drawn| {
                    (drawn.p50 / line.cost_usd.dollars(), drawn.p90 / line.cost_usd.dollars())
                })
            }
            Of::Tax if total.cost_usd.expected == Usd::ZERO => (1.0, 1.0),
            Of::Tax => {
                let Quantiles { expected, p50, p90 } = total.cost_usd;
                (p50.dollars() / expected.dollars(), p90.dollars() / expected.dollars())
            }
        };
        let at = |ratio: f64| Usd::from_dollars(line.cost_usd.dollars() * ratio);
        (line.p50_usd, line.p90_usd) = (at(p50)?, at(p90)?);
    }
    Some(())
}

fn phases(costed: &[Costed], parts: &Parts, simulated: &Simulated) -> Option<Vec<PhaseFigures>> {
    let one = |(at, Costed { phase, once }): (usize, &Costed)| {
        let cost_usd = Quantiles {
            expected: phase.in_months().filter_map(|month| parts.get(&(at, month)).copied()).sum(),
            p50: Usd::from_dollars(simulated.phases[at].p50)?,
            p90: Usd::from_dollars(simulated.phases[at].p90)?,
        };
        Some(figures(phase, once, cost_usd))
    };
    costed.iter().enumerate().map(one).collect()
}

fn figures(phase: &Phase, once: &Once, cost_usd: Quantiles<Usd>) -> PhaseFigures {
    PhaseFigures {
        phase: phase.path(),
        team: phase.team.clone(),
        start: phase.start,
        months: phase.months,
        repeats: phase.repeats,
        plan: once.plan.clone(),
        question: once.question.clone(),
        cloud: once.cloud.clone(),
        gpu: once.gpu.clone(),
        nodes: once.nodes,
        purchase: once.purchase.clone(),
        cost_usd,
        run_hours: once.hours,
        cost_each_usd: once.cost,
    }
}

fn assumptions(portfolio: &Portfolio, costed: &[Costed]) -> Vec<String> {
    let mut said = vec![
        format!("{DRAWS} draws; the cost of each run goes through the mean, median and 90th percentile of its plan"),
        "runs that share a workload share the error of its estimate; the fortune of every run and repeat is drawn separately".to_owned(),
    ];
    if costed.iter().any(|costed| costed.once.is_spot()) {
        said.push(format!(
            "a bad spot month hits all: {AVAILABILITY_IN_COMMON} of the fortune on spot is common to a month, as four pairs of AWS pools had \
             in 2022"
        ));
        said.push(format!(
            "spot prices wander by {SPOT_PRICE_STEP} of their logarithm a month, {SPOT_PRICE_IN_COMMON:.2} of the variance in common, as \
             Google Cloud's did from 2024 to 2026; on-demand prices stay"
        ));
    }
    if portfolio.tax.millionths == 0 {
        said.push("amounts are in US dollars without tax".to_owned());
    }
    said
}

/// The lines as forecast charges, for exports.
pub fn charges(budget: &Budget) -> Vec<Charge> {
    let charge = |line: &Line| Charge {
        id: line.id.clone(),
        nature: Nature::Forecast { p50: line.p50_usd, p90: line.p90_usd },
        item: line.item,
        run: line.run.as_ref().map(|run| match &line.phase {
            Some(phase) if phase != run => format!("{run}/{phase}"),
            _ => run.clone(),
        }),
        team: line.team.clone(),
        tags: line.tags.clone(),
        start: line.month.begin(),
        end: line.month.ahead(1).begin(),
        cloud: line.cloud.clone(),
        region: line.region.clone(),
        zone: line.zone_id.clone(),
        resource: None,
        instance_type: line.instance_type.clone(),
        gpu: line.gpu.clone(),
        gpus: line.gpus_per_node.map(f64::from),
        purchase: line.purchase.clone(),
        quantity: line.quantity,
        unit: line.unit.clone(),
        unit_price: line.unit_price_usd,
        costs: Costs { list: line.cost_usd, contracted: line.cost_usd, effective: line.cost_usd, billed: None },
        waste: None,
        source: line.source.clone(),
        priced_at: line.priced_at,
        assumption: line.assumption.clone(),
    };
    budget.lines.iter().map(charge).collect()
}

#[cfg(test)]
mod tests;
