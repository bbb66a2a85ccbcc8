//! What is known of a pool before its first probe: what its cloud says, and how often gangs are there.
//!
//! Clouds publish shares of a month, bands, scores and ratios of causes, over all customers and sizes. None of them is a rate of this pool, so none
//! enters a rate: they choose the recent availability that a forecast starts from, until probes say it themselves.

use crate::availability::watch::{HALF_LIFE_HOURS, PRIOR_AVAILABILITY};
use gpuplan_market::{RiskEvidence, Signal};

/// Middles of a poor, a middling and a good regime: below 0.35, to 0.7, above, the edges of the fit on AWS probes of 2022.
const POOR: f64 = 0.2;
const MIDDLING: f64 = 0.5;
const GOOD: f64 = 0.85;

/// In so many hours what a cloud has said counts half as much: of a moment, as what probes have found; of a month, a month (judged).
const MOMENT_HOURS: f64 = HALF_LIFE_HOURS;
const MONTH_HOURS: f64 = 730.0;

/// What an availability rests on where a pool has no evidence of its own.
pub const NOTHING_KNOWN: &str = "nothing known: the average of AWS probes of 2022";

/// How long ago a cloud said what it says of a pool. Hours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvidenceAge {
    pub signals: f64,
    pub risk: f64,
}

/// Recent availability to assume, what it rests on, and how long ago that was said, in hours. What was said of this pool itself goes before what
/// is said of a month; of several such the worst counts, since a machine that is easily had and soon taken back is up no more. The older it is,
/// the nearer to the average pool.
pub fn assumed_availability(
    risk: Option<&RiskEvidence>,
    signals: &[Signal],
    age: EvidenceAge,
) -> (f64, &'static str, Option<f64>) {
    let faded = |share: f64, age: f64, half_life: f64| {
        PRIOR_AVAILABILITY + (share - PRIOR_AVAILABILITY) * 0.5_f64.powf(age.max(0.0) / half_life)
    };
    let heard = signals.iter().filter_map(|signal| regime_of(*signal));
    let heard = heard.map(|(share, basis, half_life)| (faded(share, age.signals, half_life), basis, Some(age.signals)));
    let month = risk.map(|risk| match risk.monthly_percent_high {
        0..=5 => (GOOD, "advisor band below 5 % a month, as a rank and no rate"),
        6..=20 => (MIDDLING, "advisor band of 5 to 20 % a month, as a rank and no rate"),
        _ => (POOR, "advisor band above 20 % a month, as a rank and no rate"),
    });
    let month = month.map(|(share, basis)| (faded(share, age.risk, MONTH_HOURS), basis, Some(age.risk)));
    let worst = heard.min_by(|one, other| one.0.total_cmp(&other.0));
    worst.or(month).unwrap_or((PRIOR_AVAILABILITY, NOTHING_KNOWN, None))
}

/// The regime that a signal speaks of, its name, and the hours in which it counts half as much. `None`: it says nothing of how long machines last.
/// Google's preemption history divides those preempted by all that stopped: with short jobs it is low and with long ones high, whatever the pool.
fn regime_of(signal: Signal) -> Option<(f64, &'static str, f64)> {
    match signal {
        Signal::Obtainability(share) => Some((regime(share), "obtainability, as a rank and no rate", MOMENT_HOURS)),
        Signal::PlacementScore(score) => {
            Some((regime(f64::from(score) / 10.0), "placement score, as a rank and no rate", MOMENT_HOURS))
        }
        Signal::UptimeHours(hours) => Some((kept(hours), "estimated uptime, as a rank and no rate", MOMENT_HOURS)),
        Signal::HourlyEvictionPercent { low, high } => {
            let lost_an_hour = f64::midpoint(f64::from(low), f64::from(high)) / 100.0;
            let hours = -1.0 / (-lost_an_hour.clamp(0.0, 1.0)).ln_1p();
            Some((kept(hours), "eviction band, as a rank and no rate", MONTH_HOURS))
        }
        Signal::DailyPreemptionShare(_) => None,
    }
}

/// The regime of a pool that keeps its machines for so many hours on average: a day is good, a quarter of one is middling (judged; so that
/// Azure's band of 0 to 5 % an hour is good, those to 15 % are middling and those above poor). What is no number is the worst.
fn kept(hours: f64) -> f64 {
    if hours >= 24.0 {
        GOOD
    } else if hours >= 6.0 {
        MIDDLING
    } else {
        POOR
    }
}

/// Share of time that so many machines can be had together, over that of one, by doublings: counts of up to sixteen H100 machines in
/// seven zones of Google Cloud, October 2025, every ten minutes (andylizf/skynomad-artifact; .750, .717, .683, .589 and .478 of the time; zones
/// from 0 to .85 at sixteen).
const GANGS: [f64; 5] = [1.0, 0.957, 0.912, 0.786, 0.638];

/// What a gang of so many machines has of the availability of one. Beyond what was counted it falls as at the last doubling.
pub fn gang_factor(machines: u32) -> f64 {
    let doublings = f64::from(machines.max(1)).log2();
    let last = GANGS.len() - 2;
    let below = (doublings as usize).min(last);
    GANGS[below] * (GANGS[below + 1] / GANGS[below]).powf(doublings - below as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_rank_and_never_become_rates() {
        let assumed = |signals: &[Signal], hours: f64| {
            assumed_availability(None, signals, EvidenceAge { signals: hours, risk: 0.0 }).0
        };
        assert_eq!(assumed(&[], 0.0), PRIOR_AVAILABILITY);
        assert_eq!(assumed(&[Signal::DailyPreemptionShare(0.9), Signal::PlacementScore(9)], 0.0), GOOD);
        assert_eq!(assumed(&[Signal::Obtainability(0.1)], 0.0), POOR);
        assert_eq!(assumed(&[Signal::Obtainability(0.1)], 24.0), f64::midpoint(POOR, PRIOR_AVAILABILITY));
        assert!((assumed(&[Signal::PlacementScore(9)], 268.0 * 24.0) - PRIOR_AVAILABILITY).abs() < 1e-6);
    }

    #[test]
    fn what_a_cloud_says_of_machines_that_it_took_back_counts_where_it_is_the_worst() {
        let assumed = |signals: &[Signal]| {
            let (share, basis, age) = assumed_availability(None, signals, EvidenceAge { signals: 0.0, risk: 9.0 });
            assert_eq!((age, basis == NOTHING_KNOWN), (Some(0.0), false));
            (share, basis.split(',').next().unwrap_or_default())
        };
        for (low, high, regime) in
            [(0, 5, GOOD), (5, 10, MIDDLING), (10, 15, MIDDLING), (15, 20, POOR), (20, 100, POOR)]
        {
            assert_eq!(assumed(&[Signal::HourlyEvictionPercent { low, high }]), (regime, "eviction band"), "{low}");
        }
        for (hours, regime) in [(30.0, GOOD), (9.0, MIDDLING), (1.5, POOR), (f64::NAN, POOR)] {
            assert_eq!(assumed(&[Signal::UptimeHours(hours)]), (regime, "estimated uptime"), "{hours}");
        }
        let had = Signal::Obtainability(0.9);
        assert_eq!(assumed(&[had, Signal::UptimeHours(2.0)]), (POOR, "estimated uptime"));
        assert_eq!(assumed(&[had, Signal::UptimeHours(50.0), Signal::DailyPreemptionShare(0.99)]).0, GOOD);
        let share = [Signal::DailyPreemptionShare(0.99)];
        assert_eq!(assumed_availability(None, &share, EvidenceAge::default()).1, NOTHING_KNOWN, "a ratio of causes");
    }

    #[test]
    fn more_machines_are_there_together_less_often() {
        for (machines, share) in [(0, 1.0), (1, 1.0), (2, 0.957), (8, 0.786), (16, 0.638)] {
            assert!((gang_factor(machines) - share).abs() < 1e-9, "{machines}");
        }
        let all: Vec<f64> = (1..200).map(gang_factor).collect();
        assert!(all.is_sorted_by(|one, more| one > more) && gang_factor(u32::MAX) > 0.0);
    }

    #[test]
    fn evidence_comes_with_the_age_of_its_kind() {
        let risk = RiskEvidence {
            monthly_percent_low: 0,
            monthly_percent_high: 5,
            observed_at: "1970-01-01T00:00:00Z".parse().unwrap(),
            source: "advisor".into(),
        };
        let age = EvidenceAge { signals: 2.0, risk: 9000.0 };
        let of = |risk: Option<&RiskEvidence>, signals: &[Signal]| assumed_availability(risk, signals, age).2;
        assert_eq!(of(Some(&risk), &[Signal::PlacementScore(9)]), Some(2.0));
        assert_eq!((of(Some(&risk), &[]), of(None, &[])), (Some(9000.0), None));
    }
}
