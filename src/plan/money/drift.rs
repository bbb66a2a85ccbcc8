//! What a price is worth today that was seen a while ago: how far such prices have moved since, and how often they were gone.

use jiff::Timestamp;

use crate::normal::NORMAL_90;
use gpuplan_hardware::CloudId;
use gpuplan_market::{MonthlyDrift, Offer, Origin, Purchase};
use gpuplan_units::Hours;

/// What prices of one cloud on one kind of terms have done in thirty days.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Mean of ln(later / earlier); falls count as none, since who picks the cheapest price picks one that is low for its kind.
    growth: f64,
    /// Standard deviation of the same. It grows with the square root of the days.
    deviation: f64,
    /// Share that was no longer offered.
    gone: f64,
}

/// By cloud and terms, from pairs of dated snapshots of the same machine in the same place (2022-02 to 2026-10).
///
/// - aws on demand: Karpenter's price lists of 2023-09 to 2026-07 (2,153 pairs of 180 days) and those of 2026-10 (deviation of 720 days 0.24).
/// - azure on demand: Karpenter's price lists of 2023-10 to 2026-06, the same.
/// - gcp: Cyclenerd's change points of 2022-02 to 2026-07 in places that have the machine (43,450 spot pairs of 30 days, deviation 0.13); growth
///   of spot from 2025-10 to 2026-10 (0.47 in 360 days, 0.11 in 90).
/// - aws spot: medians of zones of 2026-01 against the feed of 2026-08 (61 pairs of 190 days: mean 0.17, deviation 0.35).
/// - verda: rows of this catalog of 2026-05, 2026-10-04 and 2026-10-24 to 29 (13 pairs of 20 to 133 days, all of one rise, so their deviation is
///   that of other clouds). Spot has become half of on-demand, a step that is no trend: it grows as on-demand does.
/// - crusoe, lambda, nebius, runpod, vast: cherielilili's tracker of 2026-05 to 2026-07, pairs of 30 days, and which series had ended.
const ROWS: [(&str, bool, Row); 12] = [
    ("aws", false, Row { growth: 0.0, deviation: 0.045, gone: 0.0 }),
    ("aws", true, Row { growth: 0.027, deviation: 0.138, gone: 0.02 }),
    ("azure", false, Row { growth: 0.0, deviation: 0.048, gone: 0.0 }),
    ("crusoe", false, Row { growth: 0.0, deviation: 0.281, gone: 0.10 }),
    ("gcp", false, Row { growth: 0.0, deviation: 0.020, gone: 0.0 }),
    ("gcp", true, Row { growth: 0.039, deviation: 0.127, gone: 0.02 }),
    ("lambda", false, Row { growth: 0.0, deviation: 0.010, gone: 0.0 }),
    ("nebius", false, Row { growth: 0.168, deviation: 0.230, gone: 0.0 }),
    ("runpod", false, Row { growth: 0.008, deviation: 0.043, gone: 0.015 }),
    ("vast", false, Row { growth: 0.0, deviation: 0.425, gone: 0.504 }),
    ("verda", false, Row { growth: 0.095, deviation: 0.183, gone: 0.0 }),
    ("verda", true, Row { growth: 0.095, deviation: 0.183, gone: 0.0 }),
];
/// Clouds without pairs of their own: the root mean square over Crusoe, Lambda, Nebius and RunPod.
const OTHER_LIST: Row = Row { growth: 0.044, deviation: 0.183, gone: 0.03 };
/// The same for spot, where it moves at least as much as at AWS and Google Cloud.
const OTHER_SPOT: Row = Row { growth: 0.044, deviation: 0.183, gone: 0.03 };
/// Growth that was seen in the longest pairs (Nebius, 50 to 80 days); nobody has seen more. ln.
const MOST_GROWTH: f64 = 0.77;
/// Nobody has followed the spot price of a machine for longer (AWS: 190 days): what an older one has become is not known. Half a year.
pub const SPOT_KNOWN_FOR: Hours = Hours(180.0 * 24.0);
/// A price that is younger was just asked for. Hours.
const JUST_SEEN: Hours = Hours(1.0);
const MONTH: f64 = 30.0 * 24.0;
/// Months of a feed that count as much as a row below: all prices of a month share what happened in it, and half a year has seen some of
/// what the rows have.
const WORTH_MONTHS: f64 = 6.0;

/// What a seen price is multiplied by today.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The mean, with the chance that the offer is gone and another is taken.
    pub expected: f64,
    /// What nine of ten such prices stay below.
    pub p90: f64,
    /// Chance that it cannot be had any more.
    pub gone: f64,
}

impl Drift {
    pub const NONE: Self = Self { expected: 1.0, p90: 1.0, gone: 0.0 };

    /// Of an offer at a moment. What the user owns or has negotiated does not move; without a moment nothing has an age. `learnt`: what
    /// a feed says of the months before.
    pub fn new(offer: &Offer, cloud: &CloudId, now: Option<Timestamp>, learnt: &[MonthlyDrift]) -> Self {
        let is_own = offer.owned.is_some() || offer.quote.origin == Origin::User;
        let age = now.filter(|_| !is_own).map(|now| offer.quote.age(now));
        age.filter(|age| *age > JUST_SEEN)
            .map_or(Self::NONE, |age| Self::after(row(cloud.as_str(), offer.purchase == Purchase::Spot, learnt), age))
    }

    fn after(Row { growth, deviation, gone }: Row, age: Hours) -> Self {
        let months = age.0 / MONTH;
        let (mean, deviation) = ((growth * months).min(MOST_GROWTH), deviation * months.sqrt());
        let gone = 1.0 - (1.0 - gone).powf(months);
        let p90 = (mean + NORMAL_90 * deviation).exp();
        // Who finds it gone takes the next one, at what one in ten such prices has come to.
        let expected = (1.0 - gone) * (mean + deviation * deviation / 2.0).exp() + gone * p90;
        Self { expected, p90: p90.max(expected), gone }
    }

    /// Whether the pairs reach back to when the price was seen: list prices have been followed for years, spot prices have not.
    pub fn reaches(offer: &Offer, now: Option<Timestamp>) -> bool {
        let moves = offer.purchase == Purchase::Spot && offer.owned.is_none() && offer.quote.origin != Origin::User;
        !moves || now.is_none_or(|now| offer.quote.age(now) <= SPOT_KNOWN_FOR)
    }

    /// What is paid over the expectation with this certainty, in 90th percentiles: a factor of 1 or more.
    pub fn over_expected(self, certainty: f64) -> f64 {
        (self.p90 / self.expected).powf(certainty.max(0.0))
    }
}

impl Row {
    /// With what a feed says, which counts by how many months it has watched.
    fn with(self, learnt: &MonthlyDrift) -> Self {
        let share = learnt.months / (learnt.months + WORTH_MONTHS);
        let between = |before: f64, after: f64| before + share * (after - before);
        Self {
            growth: between(self.growth, learnt.growth),
            deviation: between(self.deviation.powi(2), learnt.deviation.powi(2)).sqrt(),
            gone: between(self.gone, learnt.gone),
        }
    }
}

fn row(cloud: &str, is_spot: bool, learnt: &[MonthlyDrift]) -> Row {
    let known = embedded(cloud, is_spot);
    let told = learnt.iter().find(|it| it.cloud == cloud && it.is_spot == is_spot);
    told.map_or(known, |it| known.with(it))
}

fn embedded(cloud: &str, is_spot: bool) -> Row {
    let find = |is_spot: bool| ROWS.iter().find(|(name, spot, _)| *name == cloud && *spot == is_spot).map(|row| row.2);
    match (find(is_spot), is_spot) {
        (Some(row), _) => row,
        (None, false) => OTHER_LIST,
        // Spot of a cloud of which only list prices were tracked moves at least as they do.
        (None, true) => find(false).filter(|row| row.deviation > OTHER_SPOT.deviation).unwrap_or(OTHER_SPOT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(cloud: &str, purchase: Purchase, days: f64) -> Drift {
        Drift::after(row(cloud, purchase == Purchase::Spot, &[]), Hours(days * 24.0))
    }

    #[test]
    fn what_a_feed_has_watched_counts_by_its_months() {
        let learnt = |months: f64, growth: f64, deviation: f64, gone: f64| MonthlyDrift {
            cloud: "aws".to_owned(),
            is_spot: true,
            growth,
            deviation,
            gone,
            pairs: 500,
            months,
        };
        let known = row("aws", true, &[]);
        let half = row("aws", true, &[learnt(6.0, 0.087, 0.0, 0.06)]);
        assert!((half.growth - f64::midpoint(known.growth, 0.087)).abs() < 1e-12);
        assert!((half.deviation - known.deviation / 2.0_f64.sqrt()).abs() < 1e-12, "variances are added");
        assert!((half.gone - 0.04).abs() < 1e-12);
        let (calm, wild) =
            (row("aws", true, &[learnt(2.0, 0.0, 0.01, 0.0)]), row("aws", true, &[learnt(2.0, 0.3, 0.6, 0.1)]));
        assert!(calm.deviation > 0.8 * known.deviation, "two calm months do not undo years");
        assert!(wild.growth > known.growth && wild.deviation > known.deviation);
        let other = row("aws", false, &[learnt(6.0, 0.087, 0.0, 0.06)]);
        assert_eq!((other.growth, other.deviation), (0.0, 0.045), "another kind of terms");
    }

    #[test]
    fn an_older_price_is_worth_no_less_and_known_no_better() {
        for cloud in ["aws", "azure", "gcp", "nebius", "vast", "crusoe", "lambda", "unheard-of"] {
            for purchase in [Purchase::Spot, Purchase::OnDemand] {
                let ages = [0.1, 1.0, 7.0, 30.0, 90.0, 180.0, 360.0, 720.0].map(|days| after(cloud, purchase, days));
                for pair in ages.windows(2) {
                    assert!(pair[0].expected <= pair[1].expected && pair[0].p90 <= pair[1].p90, "{cloud} {purchase}");
                }
                assert!(ages[0].expected >= 1.0);
            }
        }
    }

    /// Pairs of `price_drift`: half of the prices of AWS spot had risen by 11 % after 190 days and a tenth by 93 %; those of Google Cloud by
    /// 53 % after 360 days; list prices of the large clouds hardly move.
    #[test]
    fn the_drift_is_that_of_the_pairs() {
        let spot = after("aws", Purchase::Spot, 190.0);
        assert!((1.15..1.45).contains(&spot.expected) && (1.7..2.1).contains(&spot.p90), "{spot:?}");
        let google = after("gcp", Purchase::Spot, 360.0);
        assert!((1.45..2.1).contains(&google.expected), "{google:?}");
        let list = after("aws", Purchase::OnDemand, 120.0);
        assert!(list.expected < 1.02 && list.p90 < 1.15, "{list:?}");
        assert!(after("vast", Purchase::Spot, 30.0).gone > 0.4);
    }
}
