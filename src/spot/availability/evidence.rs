//! What is known of a pool before its first probe, and what the user's own runs add to the rates.
//!
//! Clouds publish shares of a month, scores and ratios of causes. None of them is a rate an hour, so none enters a rate: they
//! choose the recent availability that a forecast starts from, until probes say it themselves.

use crate::availability::watch::PRIOR_AVAILABILITY;
use crate::availability::{AGES, AvailabilityModel, bin};
use gpuplan_market::{RiskEvidence, Signal};

/// Middles of a poor, a middling and a good regime: below 0.35, to 0.7, above, the edges of the fit on AWS probes of 2022.
const POOR: f64 = 0.2;
const MIDDLING: f64 = 0.5;
const GOOD: f64 = 0.85;

/// Hours that the prior counts as in an update by own runs, as in its own fit.
const PRIOR_HOURS: f64 = 6.0;

/// What an availability rests on where a pool has no evidence of its own.
pub const NOTHING_KNOWN: &str = "nothing known: the average of AWS probes of 2022";

/// Recent availability to assume, and what it rests on. The freshest kind of evidence wins: what the cloud says of now, then
/// what it says of a month.
pub fn assumed_availability(risk: Option<&RiskEvidence>, signals: &[Signal]) -> (f64, &'static str) {
    let now = signals.iter().find_map(|signal| match signal {
        Signal::Obtainability(share) => Some((regime(*share), "obtainability, as a rank and no rate")),
        Signal::PlacementScore(score) => {
            Some((regime(f64::from(*score) / 10.0), "placement score, as a rank and no rate"))
        }
        Signal::UptimeHours(_) | Signal::DailyPreemptionShare(_) | Signal::HourlyEvictionPercent { .. } => None,
    });
    let month = risk.map(|risk| match risk.monthly_percent_high {
        0..=5 => (GOOD, "advisor band below 5 % a month, as a rank and no rate"),
        6..=20 => (MIDDLING, "advisor band of 5 to 20 % a month, as a rank and no rate"),
        _ => (POOR, "advisor band above 20 % a month, as a rank and no rate"),
    });
    now.or(month).unwrap_or((PRIOR_AVAILABILITY, NOTHING_KNOWN))
}

/// What is no number is the worst.
fn regime(share: f64) -> f64 {
    if share > 0.7 {
        GOOD
    } else if share >= 0.35 {
        MIDDLING
    } else {
        POOR
    }
}

/// A stretch of one state that the user's own runs or probes have seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spell {
    pub up: bool,
    /// Hours seen, from the start of the state.
    pub hours: f64,
    /// It ended by itself; otherwise the run ended first.
    pub ended: bool,
}

/// The rates after own experience: a Gamma prior of `PRIOR_HOURS` for each age, with the events and hours of the spells, moves
/// the rates of every regime by the same factor. Own runs are few and do not say which regime they met.
pub fn updated(model: &AvailabilityModel, spells: &[Spell]) -> AvailabilityModel {
    let mut updated = model.clone();
    for state in 0..2 {
        let seen = spells
            .iter()
            .filter(|spell| usize::from(spell.up) == state && spell.hours.is_finite() && spell.hours >= 0.0);
        let (mut events, mut hours) = ([0.0; AGES.len()], [0.0; AGES.len()]);
        for spell in seen {
            for age in 0..AGES.len() {
                let end = AGES.get(age + 1).copied().unwrap_or(f64::INFINITY);
                hours[age] += (spell.hours.min(end) - AGES[age]).max(0.0);
            }
            events[bin(spell.hours, &AGES)] += if spell.ended { 1.0 } else { 0.0 };
        }
        for age in 0..AGES.len() {
            let regimes = model.rates.len() as f64;
            let mean = model.rates.iter().map(|regime| regime[state][age]).sum::<f64>() / regimes;
            let factor = (PRIOR_HOURS + events[age] / mean) / (PRIOR_HOURS + hours[age]);
            for regime in &mut updated.rates {
                regime[state][age] *= factor;
            }
        }
    }
    updated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_rank_and_never_become_rates() {
        assert_eq!(assumed_availability(None, &[]).0, PRIOR_AVAILABILITY);
        assert_eq!(assumed_availability(None, &[Signal::DailyPreemptionShare(0.9), Signal::PlacementScore(9)]).0, GOOD);
        assert_eq!(assumed_availability(None, &[Signal::Obtainability(0.1)]).0, POOR);
    }

    #[test]
    fn long_spells_lower_the_rate_and_lost_ones_raise_it() {
        let prior = AvailabilityModel::prior();
        let quiet = updated(&prior, &[Spell { up: true, hours: 100.0, ended: false }]);
        let rough = updated(&prior, &[Spell { up: true, hours: 0.05, ended: true }; 20]);
        assert!((0..AGES.len()).all(|age| quiet.rates[2][1][age] <= prior.rates[2][1][age]));
        assert!(quiet.rates[2][1][6] < 0.5 * prior.rates[2][1][6]);
        assert!(rough.rates[2][1][0] > 1.5 * prior.rates[2][1][0]);
        assert_eq!(rough.rates[2][0], prior.rates[2][0]);
        assert_eq!(updated(&prior, &[]), prior);
    }
}
