//! `MonthlyDrift`: what prices of one cloud on one kind of terms did in a month, as a row of earlier feeds shows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::offer::{Offer, Purchase};
use gpuplan_hardware::Hardware;

/// Seconds of a month of thirty days.
const MONTH: f64 = 30.0 * 86_400.0;
/// Two sights of a price that lie at least so far apart are a pair: nearer ones measure noise that comes and goes. Months.
const APART: f64 = 28.0 / 30.0;
/// Fewer pairs say nothing of a whole cloud.
const FEWEST: usize = 10;

/// In a month of thirty days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MonthlyDrift {
    pub cloud: String,
    pub is_spot: bool,
    /// Mean of ln(later / earlier), at least 0: who picks the cheapest price picks one that is low for its kind.
    pub growth: f64,
    /// Standard deviation of the same about their mean. It grows with the square root of the time.
    pub deviation: f64,
    /// Share of the pools that was no longer offered.
    pub gone: f64,
    pub pairs: u32,
    /// From the first sight to the last.
    pub months: f64,
}

impl MonthlyDrift {
    /// Whether prices may move so at all: a signature says who wrote a figure, and not that it is one. Limits are judged, some five times
    /// what any cloud's prices have done (`plan`'s table of drift).
    pub fn is_plausible(&self) -> bool {
        (0.0..=1.0).contains(&self.growth)
            && (0.0..=2.0).contains(&self.deviation)
            && (0.0..=1.0).contains(&self.gone)
            && (0.0..=1200.0).contains(&self.months)
    }
}

/// A price of one pool by one source.
#[derive(Clone, Copy)]
struct Sight {
    at: Timestamp,
    ln: f64,
}

/// What was counted of one cloud and kind of terms.
#[derive(Default)]
struct Count {
    /// ln(later / earlier) and the months between, of pairs that do not overlap.
    pairs: Vec<(f64, f64)>,
    /// Months in which pools were watched, and how many of them ended.
    watched: f64,
    gone: usize,
    months: f64,
}

/// Of earlier nights and this one. Only prices of the same machine in the same place, on the same terms and by the same source are
/// compared; what is sold ahead or committed is left out.
pub fn fit(earlier: &[Vec<Offer>], tonight: &[Offer], hardware: &Hardware, now: Timestamp) -> Vec<MonthlyDrift> {
    let moves =
        |offer: &&Offer| matches!(offer.purchase, Purchase::Spot | Purchase::OnDemand) && offer.booking.is_none();
    let place = |offer: &Offer| (offer.instance, offer.place.clone(), offer.purchase);
    let mut pools: BTreeMap<_, Vec<Sight>> = BTreeMap::new();
    for offer in earlier.iter().flatten().chain(tonight).filter(moves) {
        let sight = Sight { at: offer.quote.observed_at, ln: offer.quote.rate.dollars().ln() };
        pools.entry((place(offer), offer.source.clone())).or_default().push(sight);
    }
    let offered: BTreeSet<_> = tonight.iter().filter(moves).map(place).collect();
    let mut counts: BTreeMap<(String, bool), Count> = BTreeMap::new();
    for ((place, _), mut sights) in pools {
        sights.sort_by_key(|sight| sight.at);
        let cloud = hardware.instance(place.0).cloud.to_string();
        let count = counts.entry((cloud, place.2 == Purchase::Spot)).or_default();
        count.add(&sights, offered.contains(&place), now);
    }
    // Of whom nothing is offered tonight, the source has failed, and nothing is gone.
    let is_here = |key: &(String, bool)| {
        offered
            .iter()
            .any(|place| hardware.instance(place.0).cloud.as_str() == key.0 && (place.2 == Purchase::Spot) == key.1)
    };
    counts.into_iter().filter(|(key, _)| is_here(key)).filter_map(|(key, count)| count.fitted(key)).collect()
}

fn months(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64() / MONTH
}

impl Count {
    /// `sights`: of one pool, oldest first.
    fn add(&mut self, sights: &[Sight], is_offered: bool, now: Timestamp) {
        let (Some(first), Some(last)) = (sights.first(), sights.last()) else { return };
        let mut later = *last;
        for earlier in sights.iter().rev() {
            let between = months(earlier.at, later.at);
            if between >= APART {
                self.pairs.push((later.ln - earlier.ln, between));
                later = *earlier;
            }
        }
        let end = if is_offered { now } else { last.at };
        self.watched += months(first.at, end).max(0.0);
        self.gone += usize::from(!is_offered);
        self.months = self.months.max(months(first.at, last.at));
    }

    fn fitted(self, (cloud, is_spot): (String, bool)) -> Option<MonthlyDrift> {
        if self.pairs.len() < FEWEST {
            return None;
        }
        // A walk whose steps are independent: mean and variance grow with the time between.
        let time: f64 = self.pairs.iter().map(|(_, months)| months).sum();
        let mean = self.pairs.iter().map(|(rise, _)| rise).sum::<f64>() / time;
        let squares: f64 = self.pairs.iter().map(|(rise, months)| (rise - mean * months).powi(2)).sum();
        Some(MonthlyDrift {
            cloud,
            is_spot,
            growth: mean.max(0.0),
            deviation: (squares / time).sqrt(),
            gone: 1.0 - (-(self.gone as f64) / self.watched).exp(),
            pairs: self.pairs.len() as u32,
            months: self.months,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::snapshot::Market;
    use gpuplan_units::UsdPerHour;

    fn day(number: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_hours(24 * number)
    }

    /// Spot of AWS on a day, each pool's price of the snapshot times a factor of its own.
    fn night(market: &Market, hardware: &Hardware, number: i64, factor: impl Fn(usize) -> f64) -> Vec<Offer> {
        let is_spot = |offer: &&Offer| {
            offer.purchase == Purchase::Spot && hardware.instance(offer.instance).cloud.as_str() == "aws"
        };
        let seen = |(index, offer): (usize, &Offer)| {
            let nanos = offer.quote.rate.nanos() as f64 * factor(index);
            let mut offer = offer.clone();
            offer.quote.rate = UsdPerHour::from_nanos(nanos as i64);
            offer.quote.observed_at = day(number);
            offer
        };
        market.offers().iter().filter(is_spot).take(200).enumerate().map(seen).collect()
    }

    #[test]
    fn a_walk_of_known_steps_is_found_again() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        // Every month prices rise by 2 %, and half of them rise and half fall by 10 % besides.
        let step = |month: i32| {
            move |index: usize| {
                1.02_f64.powi(month) * if (index + month as usize).is_multiple_of(2) { 1.1 } else { 1.0 }
            }
        };
        let mut nights: Vec<Vec<Offer>> =
            (0..4).map(|month| night(&market, &hardware, 30 * i64::from(month), step(month))).collect();
        // Nights between two sights of a pair are no pairs of their own.
        nights.push(night(&market, &hardware, 45, |_| 9.0));
        let tonight = night(&market, &hardware, 120, step(4));
        let fitted = fit(&nights, &tonight, &hardware, day(120));
        let [row] = fitted.as_slice() else { panic!("{fitted:?}") };
        assert_eq!((row.cloud.as_str(), row.is_spot, row.pairs), ("aws", true, 800));
        assert!((row.growth - 1.02_f64.ln()).abs() < 1e-6, "{row:?}");
        assert!((row.deviation - 1.1_f64.ln()).abs() < 1e-6, "{row:?}");
        assert!((row.gone, row.months) == (0.0, 4.0), "{row:?}");
    }

    #[test]
    fn falls_are_no_growth_and_what_is_missing_is_gone() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let before = night(&market, &hardware, 0, |_| 1.0);
        let tonight = night(&market, &hardware, 30, |_| 0.8);
        let fitted = fit(std::slice::from_ref(&before), &tonight[..180], &hardware, day(30));
        assert_eq!((fitted[0].growth, fitted[0].pairs), (0.0, 180));
        assert!((fitted[0].gone - 20.0 / 180.0).abs() < 0.01, "{fitted:?}");
        assert_eq!(fit(std::slice::from_ref(&before), &tonight[..9], &hardware, day(30)), [], "too few");
        assert_eq!(fit(std::slice::from_ref(&before), &[], &hardware, day(30)), [], "a source that failed");
        assert_eq!(fit(&[before], &night(&market, &hardware, 7, |_| 2.0), &hardware, day(7)), [], "too near");
        let another = |offer: &Offer| Offer { source: "another".into(), ..offer.clone() };
        let tonight: Vec<Offer> = tonight.iter().map(another).collect();
        assert_eq!(fit(&[night(&market, &hardware, 0, |_| 1.0)], &tonight, &hardware, day(30)), [], "two sources");
    }
}
