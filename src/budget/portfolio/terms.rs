//! What the phases would cost elsewhere, and from how many hours a year on a longer promise pays.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::budget::portfolio::lines::Costed;
use crate::budget::portfolio::planned::TermRecord;
use crate::budget::portfolio::{Portfolio, Tax};
use crate::units::{Quantiles, Usd};

/// Hours of a year of a commitment, as the clouds sell it.
const HOURS_PER_YEAR: f64 = 8760.0;
const MONTHS_PER_YEAR: f64 = 12.0;

/// All times of a phase on the best plan of another cloud that was shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ElsewhereCost {
    pub phase: String,
    pub cloud: String,
    pub plan: String,
    pub cost_usd: Quantiles<Usd>,
    /// Beyond what is planned; negative: less.
    pub more_usd: Usd,
    /// Of one time.
    pub run_hours: Quantiles<f64>,
}

/// Buying the machines of some phases for years instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Promise {
    pub machines: String,
    pub phases: Vec<String>,
    pub purchase: String,
    pub usd_per_year: Usd,
    /// Hours a year at which it costs what the plans cost.
    pub break_even_hours_per_year: f64,
    /// At the pace of the portfolio.
    pub hours_per_year: f64,
    /// At that pace; negative: it loses.
    pub saved_usd_per_year: Usd,
}

pub fn elsewhere(costed: &[Costed], tax: Tax) -> Vec<ElsewhereCost> {
    let mut found = Vec::new();
    for Costed { phase, once } in costed {
        let all = |one: Usd| {
            let cost = Usd::from_nanos(one.nanos() * i128::from(phase.repeats));
            cost + tax.on(cost)
        };
        for other in &once.elsewhere {
            found.push(ElsewhereCost {
                phase: phase.path(),
                cloud: other.cloud.clone(),
                plan: other.plan.clone(),
                // Each time at its percentile: repeats are not drawn again for plans that nobody chose.
                cost_usd: Quantiles { expected: all(other.cost.expected), p50: all(other.cost.p50), p90: all(other.cost.p90) },
                more_usd: all(other.cost.expected) - all(once.cost.expected),
                run_hours: other.hours,
            });
        }
    }
    found
}

/// Phases on the same machines share a promise.
pub fn promises(portfolio: &Portfolio, costed: &[Costed]) -> Vec<Promise> {
    let mut by_machines: BTreeMap<String, Vec<&Costed>> = BTreeMap::new();
    for costed in costed.iter().filter(|costed| !costed.once.terms.is_empty()) {
        let once = costed.once;
        let name = format!("{} x {} on {}", once.nodes, once.instance_type.as_deref().unwrap_or("machine"), once.cloud);
        by_machines.entry(name).or_default().push(costed);
    }
    let years = f64::from(portfolio.months) / MONTHS_PER_YEAR;
    let mut found = Vec::new();
    for (machines, costed) in by_machines {
        let sum = |one: fn(&Costed) -> f64| costed.iter().map(|costed| one(costed) * f64::from(costed.phase.repeats)).sum::<f64>();
        let (hours, cost) = (sum(|costed| costed.once.hours.expected), sum(|costed| costed.once.cost.expected.dollars()));
        let Some(terms) = costed.first().map(|costed| &costed.once.terms) else { continue };
        for (term, bound_to) in terms.iter().filter_map(|term| Some((term, years_of(term)?))) {
            let (an_hour, a_year) = (cost / hours, hours / years);
            let saved = an_hour * a_year - bound_to.dollars();
            found.push(Promise {
                machines: machines.clone(),
                phases: costed.iter().map(|costed| costed.phase.path()).collect(),
                purchase: term.purchase.clone(),
                usd_per_year: bound_to,
                break_even_hours_per_year: bound_to.dollars() / an_hour,
                hours_per_year: a_year,
                saved_usd_per_year: Usd::from_dollars((saved * 100.0).round() / 100.0).unwrap_or_default(),
            });
        }
    }
    found
}

/// What a commitment binds to in a year; `None` for terms that are none.
fn years_of(term: &TermRecord) -> Option<Usd> {
    let years: i128 = term.purchase.strip_prefix("commitment ")?.strip_suffix('y')?.parse().ok().filter(|years| *years > 0)?;
    term.bound_to_usd.map(|bound| Usd::from_nanos(bound.nanos() / years))
}

/// Hours a year beyond which there are none.
pub fn is_reachable(promise: &Promise) -> bool {
    promise.break_even_hours_per_year <= HOURS_PER_YEAR
}
