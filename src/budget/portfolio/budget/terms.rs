//! What the phases would cost on other clouds, and from how many hours a year on a commitment of years pays.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::portfolio::lines::CostedPhase;
use crate::portfolio::{Portfolio, Tax, repeated};
use gpuplan_plan::document::{TermsOutcome, TermsRecord};
use gpuplan_units::{Quantiles, Usd};

/// Hours of a year of a commitment, as the clouds sell it.
const HOURS_PER_YEAR: f64 = 8760.0;
const MONTHS_PER_YEAR: f64 = 12.0;

/// All times of a phase on the best plan of another cloud that was shown.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OtherCloudCost {
    pub phase: String,
    pub cloud: String,
    pub plan: String,
    pub cost_usd: Quantiles<Usd>,
    /// Beyond what is planned; negative: less.
    pub more_usd: Usd,
    /// Of one time.
    pub run_hours: Quantiles<f64>,
}

/// Committing to the machines of some phases for years.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TermCommitment {
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

/// `None`: beyond counting.
pub fn other_clouds(costed: &[CostedPhase], tax: Tax) -> Option<Vec<OtherCloudCost>> {
    let mut found = Vec::new();
    for CostedPhase { phase, once, .. } in costed {
        let all = |one: Usd| {
            let cost = repeated(one, phase.repeats);
            cost + tax.on(cost)
        };
        for other in &once.elsewhere {
            let mean = other.cost.expected;
            let evened = evened_out(other.in_common, phase.repeats);
            let around = |one: Usd| Usd::from_dollars((one - mean).dollars() * evened).map(|away| mean + away);
            found.push(OtherCloudCost {
                phase: phase.path(),
                cloud: other.cloud.clone(),
                plan: other.plan.clone(),
                cost_usd: Quantiles {
                    expected: all(mean),
                    p50: all(around(other.cost.p50)?),
                    p90: all(around(other.cost.p90)?),
                },
                more_usd: all(other.cost.expected) - all(once.cost.expected),
                run_hours: other.hours,
            });
        }
    }
    Some(found)
}

/// How far repeats together lie from their mean, as part of how far one does: the standard deviation of a mean of `repeats` of which
/// every two share `in_common` of their variance. Plans that nobody chose are not drawn; a test holds this to the draws of those that are.
fn evened_out(in_common: f64, repeats: u32) -> f64 {
    (in_common + (1.0 - in_common) / f64::from(repeats.max(1))).sqrt()
}

/// Phases on the same machines share a commitment. `None`: beyond counting.
pub fn term_commitments(portfolio: &Portfolio, costed: &[CostedPhase]) -> Option<Vec<TermCommitment>> {
    let mut by_machines: BTreeMap<String, Vec<&CostedPhase>> = BTreeMap::new();
    for costed in costed.iter().filter(|costed| !costed.once.terms.is_empty()) {
        let once = costed.once;
        let name = format!(
            "{} x {} on {}",
            once.machines.nodes,
            once.machines.instance_type.as_deref().unwrap_or("machine"),
            once.machines.cloud
        );
        by_machines.entry(name).or_default().push(costed);
    }
    let years = f64::from(portfolio.months) / MONTHS_PER_YEAR;
    let mut found = Vec::new();
    for (machines, costed) in by_machines {
        let sum = |one: fn(&CostedPhase) -> f64| {
            costed.iter().map(|costed| one(costed) * f64::from(costed.phase.repeats)).sum::<f64>()
        };
        let (hours, cost) =
            (sum(|costed| costed.once.hours.expected), sum(|costed| costed.once.cost.expected.dollars()));
        // What takes no time breaks even nowhere.
        let Some(terms) = costed.first().map(|costed| &costed.once.terms).filter(|_| hours > 0.0) else { continue };
        for (term, bound_to) in terms.iter().filter_map(|term| Some((term, usd_per_year(term)?))) {
            let (an_hour, a_year) = (cost / hours, hours / years);
            let saved = an_hour * a_year - bound_to.dollars();
            found.push(TermCommitment {
                machines: machines.clone(),
                phases: costed.iter().map(|costed| costed.phase.path()).collect(),
                purchase: term.purchase.clone(),
                usd_per_year: bound_to,
                break_even_hours_per_year: bound_to.dollars() / an_hour,
                hours_per_year: a_year,
                saved_usd_per_year: Usd::from_dollars((saved * 100.0).round() / 100.0)?,
            });
        }
    }
    Some(found)
}

/// What a commitment costs in a year; `None` for terms that are none.
fn usd_per_year(term: &TermsRecord) -> Option<Usd> {
    let years: i128 =
        term.purchase.strip_prefix("commitment ")?.strip_suffix('y')?.parse().ok().filter(|years| *years > 0)?;
    match term.outcome {
        TermsOutcome::Kept { bound_to_usd, .. } => bound_to_usd.map(|bound| Usd::from_nanos(bound.nanos() / years)),
        TermsOutcome::Refused { .. } => None,
    }
}

impl TermCommitment {
    /// Whether a year has as many hours as it takes to break even.
    pub fn breaks_even_within_a_year(&self) -> bool {
        self.break_even_hours_per_year <= HOURS_PER_YEAR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portfolio::shape::Shape;
    use gpuplan_plan::normal::NORMAL_90;
    use gpuplan_units::Band;
    use gpuplan_units::draw::Draws;

    #[test]
    fn repeats_even_out_as_draws_of_them_do() {
        for (p90, in_common, repeats) in [(150.0, 0.0, 30), (150.0, 0.41, 30), (180.0, 0.6, 4), (120.0, 1.0, 9)] {
            let band = Band { low: 1e4 / p90, expected: 100.0, high: p90 };
            // The mean of a log-normal.
            let mean = 100.0 * ((p90 / 100.0).ln() / NORMAL_90).powi(2).exp().sqrt();
            let shape = Shape::banded(Quantiles { expected: mean, p50: 100.0, p90 }, band).unwrap();
            let mut draws = Draws::new(3, 0);
            let mut means: Vec<f64> = (0..20_000)
                .map(|_| {
                    let shared = f64::sqrt(in_common) * draws.normal();
                    let one = |own: f64| mean * shape.ratio_at(shared + f64::sqrt(1.0 - in_common) * own);
                    (0..repeats).map(|_| one(draws.normal())).sum::<f64>() / f64::from(repeats)
                })
                .collect();
            means.sort_by(f64::total_cmp);
            let predicted = |one: f64| mean + (one - mean) * evened_out(in_common, repeats);
            for (drawn, predicted) in [(means[10_000], predicted(100.0)), (means[18_000], predicted(p90))] {
                assert!(
                    (predicted / drawn - 1.0).abs() < 0.05,
                    "{p90} {in_common} {repeats}: drawn {drawn}, predicted {predicted}"
                );
            }
        }
    }
}
