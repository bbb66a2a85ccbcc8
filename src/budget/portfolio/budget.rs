//! `Budget`: the whole answer to a portfolio, and its lines as charges.

mod held;
mod phases;
mod sensitivity;
mod sizes;
mod terms;
mod together;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::charge::{Allocation, Charge, Costs, Nature, Resource};
use crate::exchange::{Exchange, Units};
use crate::portfolio::assignment::{Assignment, assign};
use crate::portfolio::budget::held::held_machines;
pub use crate::portfolio::budget::held::{HeldMachines, PoolFigures};
pub use crate::portfolio::budget::phases::PhaseFigures;
use crate::portfolio::budget::phases::{PhaseSums, phase_figures, phase_sums};
pub use crate::portfolio::budget::sensitivity::SensitivityBar;
use crate::portfolio::budget::sensitivity::sensitivity_bars;
use crate::portfolio::budget::sizes::less_work;
pub use crate::portfolio::budget::terms::{OtherCloudCost, TermCommitment};
use crate::portfolio::budget::terms::{other_clouds, term_commitments};
pub use crate::portfolio::budget::together::BestCommitment;
use crate::portfolio::calendar::Month;
pub use crate::portfolio::calendar::Period;
pub use crate::portfolio::coverage::CommitmentFigures;
use crate::portfolio::footprint::Footprint;
use crate::portfolio::line_writer::BudgetLines;
use crate::portfolio::lines::{BudgetLine, CostedPhase, LineOrigin};
use crate::portfolio::planned::PhaseCost;
use crate::portfolio::savings::saved;
use crate::portfolio::simulation::draws::{DRAWS, chance_within, quantiles};
use crate::portfolio::simulation::groups::GroupBy;
pub use crate::portfolio::simulation::groups::{CostGroup, CumulativeCost};
use crate::portfolio::simulation::{
    AVAILABILITY_IN_COMMON, EstimateCorrelation, SPOT_PRICE_IN_COMMON, SPOT_PRICE_STEP, Simulated, simulate,
};
use crate::portfolio::verdict::{Forecast, OLD_PRICE_DAYS, PriceAge, RuleResult, judged};
use crate::portfolio::{Portfolio, PortfolioError};
use gpuplan_plan::document::InputsRecord;
use gpuplan_units::{Hours, Quantiles, Usd};

/// Of the document that `budget --output json` writes.
const VERSION: u32 = 1;

/// No run takes longer than that: ten years.
const MOST_MONTHS: u32 = 120;

/// What a portfolio costs, as `budget --output json` writes it. The lines add up to `total.cost_usd.expected` to the
/// nano-dollar.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Budget {
    pub version: u32,
    pub generated_at: Timestamp,
    pub name: String,
    /// Of every amount: `USD`; those whose name says `in_currency` are of `exchange`.
    pub currency: &'static str,
    /// The currency in which the portfolio is stated, and in which people are shown the budget; absent: dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// `excluded`, or the share that is in every amount but the figures of phases, which are before tax.
    pub tax: String,
    #[serde(flatten)]
    pub period: Period,
    pub inputs: InputsRecord,
    pub total: BudgetTotal,
    #[serde(flatten)]
    pub breakdown: Breakdown,
    /// All months until the end of each, one after another; the last is the total.
    pub cumulative: Vec<CumulativeCost>,
    pub phases: Vec<PhaseFigures>,
    pub commitments: Vec<CommitmentFigures>,
    /// Own and committed machines, and what the runs use of them; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldMachines>,
    /// Electricity and what it emits, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Footprint>,
    #[serde(flatten)]
    pub alternatives: Alternatives,
    /// What the budget has to keep, and whether it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleResult>,
    /// Longest first.
    pub sensitivity: Vec<SensitivityBar>,
    pub lines: Vec<BudgetLine>,
    pub assumptions: Vec<String>,
}

/// The whole cost, and how likely it stays within the budget.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BudgetTotal {
    pub cost_usd: Quantiles<Usd>,
    /// The same in the currency of `exchange`; absent: dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_in_currency: Option<Quantiles<Units>>,
    /// Null: none is stated.
    pub budget_usd: Option<Usd>,
    pub chance_within_budget: Option<f64>,
    /// What spot and commitments save against renting the same machines on demand, less what is paid of commitments and not used; null: no
    /// such price is known.
    pub saved_usd: Option<Usd>,
    /// The same if the errors of the estimates of different workloads had nothing in common; null without a budget.
    pub chance_if_independent: Option<f64>,
    /// The same if they were one error; null without a budget.
    pub chance_if_common: Option<f64>,
    /// Mean of the draws. It is above the total where estimates are uncertain: a plan states the middle of its estimate.
    pub mean_of_draws_usd: Usd,
    pub price_age: PriceAge,
}

/// The whole cost divided in four ways. Percentiles of parts do not add up.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Breakdown {
    pub by_month: Vec<CostGroup>,
    pub by_team: Vec<CostGroup>,
    pub by_cloud: Vec<CostGroup>,
    pub by_gpu: Vec<CostGroup>,
}

/// What the same work would cost otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alternatives {
    /// The machines of some phases committed to for years.
    pub promises: Vec<TermCommitment>,
    /// Each phase on other clouds.
    pub elsewhere: Vec<OtherCloudCost>,
}

/// `once` has one for each phase, in their order.
pub fn budget(
    portfolio: &Portfolio,
    once: &[PhaseCost],
    inputs: InputsRecord,
    now: Timestamp,
    seed: u64,
) -> Result<Budget, PortfolioError> {
    let rented: Vec<CostedPhase> =
        portfolio.phases.iter().zip(once).map(|(phase, once)| CostedPhase { phase, once, placed: &[] }).collect();
    let assignment = assign(portfolio, &portfolio.pools, &rented, 1.0);
    let costed: Vec<CostedPhase> =
        rented.iter().zip(&assignment.placed).map(|(costed, placed)| CostedPhase { placed, ..*costed }).collect();
    let beyond = |line, what: &str| {
        let detail = format!("{what} costs more than this program can count");
        PortfolioError::at(line, detail, "check `usd_per_hour`, `nodes`, `hours` and `repeats`")
    };
    // Sums and taxes of what is countable together are countable.
    let mut whole = 0.0;
    for CostedPhase { phase, once, .. } in &costed {
        let elsewhere = once.elsewhere.iter().map(|elsewhere| elsewhere.cost);
        let most = elsewhere.chain([once.cost]).map(|cost| cost.expected.max(cost.p50).max(cost.p90)).max();
        whole += most.map_or(0.0, Usd::dollars) * f64::from(phase.repeats);
        Usd::from_dollars(whole)
            .ok_or_else(|| beyond(phase.line, &format!("with `{}` the portfolio", phase.path())))?;
    }
    fits_its_months(&rented)?;
    // Far out in their distribution draws may be beyond it all the same.
    counted(portfolio, &costed, &assignment, inputs, now, seed)
        .ok_or_else(|| beyond(1, "in an unlucky case the portfolio"))
}

/// One run of a phase does not take longer than its months.
fn fits_its_months(costed: &[CostedPhase]) -> Result<(), PortfolioError> {
    for CostedPhase { phase, once, .. } in costed {
        let (hours, months) = (once.hours.expected, months_for(phase.start, once.hours.expected));
        if months > phase.months {
            let detail = format!(
                "one run of `{}` takes {}, longer than its {} from {}",
                phase.path(),
                Hours(hours),
                if phase.months == 1 { "month".to_owned() } else { format!("{} months", phase.months) },
                phase.start
            );
            let hint = format!("months = {months}, or a `deadline` in its `limits`");
            return Err(PortfolioError::at(phase.line, detail, hint));
        }
    }
    Ok(())
}

/// Months that a run of so many hours takes if it begins with the first.
pub fn months_for(start: Month, hours: f64) -> u32 {
    let (mut months, mut left) = (1, hours - start.hours());
    while left > 0.0 && months < MOST_MONTHS {
        left -= start.ahead(months).hours();
        months += 1;
    }
    months
}

/// `None`: beyond counting.
fn counted(
    portfolio: &Portfolio,
    costed: &[CostedPhase],
    assignment: &Assignment,
    inputs: InputsRecord,
    now: Timestamp,
    seed: u64,
) -> Option<Budget> {
    let this_month = Month::containing(now);
    let BudgetLines { mut lines, covered, pool_hours } = BudgetLines::new(portfolio, costed);
    let simulate = |correlation| simulate(portfolio, costed, correlation, this_month, seed);
    let mut simulated = simulate(EstimateCorrelation::MEASURED)?;
    let mut total = total(portfolio, &lines, &mut simulated, now)?;
    if let Some(budget) = portfolio.budget {
        let left = budget - portfolio.spent.total;
        let chance = |correlation| Some(chance_within(&simulate(correlation)?.groups.total, left));
        let (independent, common) =
            rayon::join(|| chance(EstimateCorrelation::NONE), || chance(EstimateCorrelation::FULL));
        (total.chance_if_independent, total.chance_if_common) = (Some(independent?), Some(common?));
    }
    let by_phase = phase_sums(&lines);
    spread_lines(&mut lines, costed, &by_phase, &simulated, total.cost_usd)?;
    if let Some(exchange) = &portfolio.exchange {
        total.cost_in_currency = Some(exchange.quantiles(total.cost_usd));
        let parts = exchange.parts(lines.iter().map(|line| line.amount.cost_usd));
        for (line, part) in lines.iter_mut().zip(parts) {
            line.amount.cost_in_currency = Some(part);
        }
    }
    let covered = covered.into_iter().zip(&simulated.chances_of_loss).zip(&portfolio.commitments);
    let commitments =
        covered.map(|((covered, loss), commitment)| commitment.figures(portfolio, covered, *loss)).collect();
    let held = if portfolio.pools.is_empty() {
        None
    } else {
        let less_work = less_work(portfolio, costed, this_month, seed)?;
        Some(held_machines(portfolio, costed, assignment, &pool_hours, total.cost_usd.expected, less_work)?)
    };
    let cumulative = simulated.groups.cumulative(&lines)?;
    let [by_month, by_team, by_cloud, by_gpu] = GroupBy::ALL.map(|by| simulated.groups.costs(by, &lines, portfolio));
    let rules = judged(portfolio, &Drawn { simulated: &simulated, lines: &lines, now }, now);
    Some(Budget {
        version: VERSION,
        generated_at: now,
        name: portfolio.name.clone(),
        currency: "USD",
        exchange: portfolio.exchange.clone(),
        tax: tax_text(portfolio),
        period: Period { start: portfolio.start, months: portfolio.months },
        inputs,
        total,
        breakdown: Breakdown { by_month: by_month?, by_team: by_team?, by_cloud: by_cloud?, by_gpu: by_gpu? },
        cumulative,
        phases: phase_figures(costed, &by_phase, &simulated, &lines)?,
        commitments,
        held,
        footprint: None,
        alternatives: Alternatives {
            promises: term_commitments(portfolio, costed)?,
            elsewhere: other_clouds(costed, portfolio.tax)?,
        },
        rules,
        sensitivity: sensitivity_bars(portfolio, costed, this_month)?,
        lines,
        assumptions: assumptions(portfolio, costed),
    })
}

/// The draws, with the lines that they are of.
struct Drawn<'a> {
    simulated: &'a Simulated,
    lines: &'a [BudgetLine],
    now: Timestamp,
}

impl Forecast for Drawn<'_> {
    fn chance(&self, team: Option<&str>, month: Option<Month>, budget: Usd) -> Option<f64> {
        let groups = &self.simulated.groups;
        match (team, month) {
            (Some(team), _) => groups.chance(GroupBy::Team, team, budget),
            (None, Some(month)) => groups.chance(GroupBy::Month, &month.to_string(), budget),
            (None, None) => Some(chance_within(&groups.total, budget)),
        }
    }

    fn price_age(&self, days: f64) -> PriceAge {
        PriceAge::from_lines(self.lines, days, self.now)
    }
}

fn total(
    portfolio: &Portfolio,
    lines: &[BudgetLine],
    simulated: &mut Simulated,
    now: Timestamp,
) -> Option<BudgetTotal> {
    let expected: Usd = lines.iter().map(|line| line.amount.cost_usd).sum();
    let draws = &mut simulated.groups.total;
    let mean = draws.iter().sum::<f64>() / DRAWS as f64;
    let chance_within_budget = portfolio.budget.map(|budget| chance_within(draws, budget - portfolio.spent.total));
    Some(BudgetTotal {
        cost_usd: quantiles(draws, expected)?,
        cost_in_currency: None,
        budget_usd: portfolio.budget,
        chance_within_budget,
        saved_usd: saved(lines.iter()),
        chance_if_independent: None,
        chance_if_common: None,
        mean_of_draws_usd: Usd::from_dollars((mean * 100.0).round() / 100.0)?,
        price_age: PriceAge::from_lines(lines, OLD_PRICE_DAYS, now),
    })
}

fn tax_text(portfolio: &Portfolio) -> String {
    match portfolio.tax.millionths {
        0 => "excluded".to_owned(),
        // Four digits are all that a percentage may have.
        millionths => format!("{} %", millionths as f64 / 1e4),
    }
}

/// Percentiles of each line from the draws of what it belongs to: its lines move together. `None`: beyond counting.
fn spread_lines(
    lines: &mut [BudgetLine],
    costed: &[CostedPhase],
    by_phase: &PhaseSums,
    simulated: &Simulated,
    total: Quantiles<Usd>,
) -> Option<()> {
    for line in lines {
        let (month, cost) = (line.month, line.amount.cost_usd);
        let (p50, p90) = match line.origin {
            LineOrigin::Phase(phase) => match by_phase.get(&(phase, month)) {
                Some(sum) if *sum > Usd::ZERO => {
                    let drawn = simulated.parts[phase][month.since(costed[phase].phase.start) as usize];
                    (drawn.p50 / sum.dollars(), drawn.p90 / sum.dollars())
                }
                _ => (1.0, 1.0),
            },
            LineOrigin::Commitment(at) => {
                let drawn = simulated.unused[at].get(&month).filter(|_| cost > Usd::ZERO);
                drawn.map_or((1.0, 1.0), |drawn| (drawn.p50 / cost.dollars(), drawn.p90 / cost.dollars()))
            }
            LineOrigin::Pool(at) => {
                let drawn = simulated.unused_pools[at].get(&month).filter(|_| cost > Usd::ZERO);
                drawn.map_or((1.0, 1.0), |drawn| (drawn.p50 / cost.dollars(), drawn.p90 / cost.dollars()))
            }
            LineOrigin::Tax if total.expected == Usd::ZERO => (1.0, 1.0),
            LineOrigin::Tax => {
                let expected = total.expected.dollars();
                (total.p50.dollars() / expected, total.p90.dollars() / expected)
            }
        };
        let scaled = |ratio: f64| Usd::from_dollars(cost.dollars() * ratio);
        (line.amount.p50_usd, line.amount.p90_usd) = (scaled(p50)?, scaled(p90)?);
    }
    Some(())
}

fn assumptions(portfolio: &Portfolio, costed: &[CostedPhase]) -> Vec<String> {
    let mut assumed = vec![
        format!(
            "{DRAWS} draws; the cost of each run goes through the median and the 80 % band of its plan, on spot through its \
             replays"
        ),
        format!(
            "runs of one workload on one GPU share the error of its estimate; those of different workloads correlate by {:.2}, and by {:.2} more \
             on the same GPU, as errors of published runs do; the fortune of every run and repeat is drawn separately",
            EstimateCorrelation::MEASURED.of_all,
            EstimateCorrelation::MEASURED.of_gpu
        ),
    ];
    if costed.iter().any(|costed| costed.once.is_spot()) {
        assumed.push(format!(
            "a bad spot month hits all: {AVAILABILITY_IN_COMMON} of the fortune on spot is common to a month, as four pairs of AWS pools had \
             in 2022"
        ));
        assumed.push(format!(
            "spot prices wander by {SPOT_PRICE_STEP} of their logarithm a month, {SPOT_PRICE_IN_COMMON:.2} of the variance in common, as \
             Google Cloud's did from 2024 to 2026; on-demand prices stay"
        ));
    }
    let without_tax = if portfolio.tax.millionths == 0 { " without tax" } else { "" };
    match &portfolio.exchange {
        Some(exchange) => assumed.push(format!(
            "amounts are in {}{without_tax}; prices are in dollars, and the rate is taken to hold for all months",
            exchange.words()
        )),
        None if portfolio.tax.millionths == 0 => assumed.push("amounts are in US dollars without tax".to_owned()),
        None => {}
    }
    assumed
}

/// The lines as forecast charges, for exports.
pub fn charges(budget: &Budget) -> Vec<Charge> {
    budget.lines.iter().map(forecast_charge).collect()
}

fn forecast_charge(line: &BudgetLine) -> Charge {
    let BudgetLine { machines, amount, basis, .. } = line;
    let cost = amount.cost_usd;
    Charge {
        id: line.id.clone(),
        nature: Nature::Forecast { p50: amount.p50_usd, p90: amount.p90_usd },
        item: line.item,
        allocation: Allocation {
            run: line.run.as_ref().map(|run| match &line.phase {
                Some(phase) if phase != run => format!("{run}/{phase}"),
                _ => run.clone(),
            }),
            team: line.team.clone(),
            tags: line.tags.clone(),
        },
        start: line.month.begin(),
        end: line.month.ahead(1).begin(),
        resource: Resource {
            cloud: machines.cloud.clone(),
            region: machines.region.clone(),
            zone: machines.zone_id.clone(),
            id: None,
            instance_type: machines.instance_type.clone(),
            gpu: machines.gpu.clone(),
            gpus: machines.gpus_per_node.map(f64::from),
            purchase: machines.purchase.clone(),
        },
        quantity: amount.quantity,
        unit: amount.unit.clone(),
        unit_price: amount.unit_price_usd,
        costs: Costs { list: amount.list_usd.unwrap_or(cost), contracted: cost, effective: cost, billed: None },
        waste: None,
        source: basis.source.clone(),
        priced_at: basis.priced_at,
        assumption: basis.assumption.clone(),
        invoice: None,
    }
}

#[cfg(test)]
mod tests;
