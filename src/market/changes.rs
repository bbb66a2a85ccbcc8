//! Which prices moved since a moment, as far as the snapshot and the kept answers know both ends.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::answer::PricePoint;
use crate::catalog::snapshot::Market;
use crate::offer::{Location, Offer, Purchase};
use gpuplan_hardware::InstanceId;
use gpuplan_units::UsdPerHour;

/// A rate and when it was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sighting {
    pub rate: UsdPerHour,
    pub observed_at: Timestamp,
}

/// What became of one machine's price in one place on one kind of terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub instance: InstanceId,
    pub place: Location,
    pub purchase: Purchase,
    /// `None`: it is new.
    pub before: Option<Sighting>,
    /// `None`: its cloud lists the machine there no more.
    pub after: Option<Sighting>,
}

impl Change {
    /// Share by which the rate rose; `None` where one end is missing.
    pub fn rise(&self) -> Option<f64> {
        let (before, after) = (self.before?.rate.dollars(), self.after?.rate.dollars());
        Some(after / before - 1.0)
    }
}

/// Prices that were seen after the moment and differ from what was known before it: by the history of their pool, else by the
/// snapshot. What moved most comes first, then what is new, then what is gone.
pub fn since(snapshot: &Market, now: &Market, history: &[PricePoint], moment: Timestamp) -> Vec<Change> {
    let key = |offer: &Offer| (offer.instance, offer.place.clone(), offer.purchase);
    let sighting = |offer: &Offer| Sighting { rate: offer.quote.rate, observed_at: offer.quote.observed_at };
    let mut before: HashMap<_, Sighting> = HashMap::new();
    for offer in snapshot.offers().iter().filter(|offer| offer.quote.observed_at <= moment) {
        before.insert(key(offer), sighting(offer));
    }
    for point in history.iter().filter(|point| point.since <= moment) {
        let seen = Sighting { rate: point.rate, observed_at: point.since };
        let held = before.entry((point.instance, point.place.clone(), point.purchase)).or_insert(seen);
        if held.observed_at <= seen.observed_at {
            *held = seen;
        }
    }
    let mut changes = Vec::new();
    for offer in now.offers().iter().filter(|offer| offer.quote.observed_at > moment && offer.owned.is_none()) {
        let known = before.get(&key(offer)).copied();
        if known.is_none_or(|known| known.rate != offer.quote.rate) {
            let (instance, place, purchase) = key(offer);
            changes.push(Change { instance, place, purchase, before: known, after: Some(sighting(offer)) });
        }
    }
    let pool = |offer: &Offer| (offer.instance, offer.place.region.clone());
    let here: HashSet<_> = now.offers().iter().map(pool).collect();
    for offer in snapshot.offers().iter().filter(|offer| !here.contains(&pool(offer))) {
        let (instance, place, purchase) = key(offer);
        changes.push(Change { instance, place, purchase, before: Some(sighting(offer)), after: None });
    }
    let rank = |change: &Change| change.rise().map_or(f64::NEG_INFINITY, f64::abs);
    changes.sort_by(|one, other| {
        rank(other)
            .total_cmp(&rank(one))
            .then(one.after.is_none().cmp(&other.after.is_none()))
            .then_with(|| (one.instance, &one.place, one.purchase).cmp(&(other.instance, &other.place, other.purchase)))
    });
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::Hardware;

    #[test]
    fn what_moved_is_new_or_is_gone_is_told_and_the_rest_is_not() {
        let hardware = Hardware::embedded().unwrap();
        let snapshot = Market::embedded(&hardware).unwrap();
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let spot = |offer: &&Offer| offer.purchase == Purchase::Spot && offer.place.zone_id.is_some();
        let pools: Vec<&Offer> = snapshot.offers().iter().filter(spot).take(4).collect();
        let fresh = |pool: &Offer, rate: UsdPerHour| {
            Offer::live(pool.instance, pool.place.clone(), Purchase::Spot, rate, "s", at("2026-11-20T00:00:00Z"))
        };
        let double = UsdPerHour::from_nanos(pools[1].quote.rate.nanos() * 2);
        let triple = UsdPerHour::from_nanos(pools[2].quote.rate.nanos() * 3);
        let mut elsewhere = fresh(pools[3], double);
        elsewhere.place.zone_id = Some("a-new-zone".into());
        let newer =
            vec![fresh(pools[0], pools[0].quote.rate), fresh(pools[1], double), fresh(pools[2], triple), elsewhere];
        let now = snapshot.clone().merged(newer, &hardware);
        let point = PricePoint {
            instance: pools[2].instance,
            place: pools[2].place.clone(),
            purchase: Purchase::Spot,
            since: at("2026-11-10T00:00:00Z"),
            rate: UsdPerHour::from_nanos(pools[2].quote.rate.nanos() * 2),
        };
        let changes = since(&snapshot, &now, &[point], at("2026-11-13T00:00:00Z"));
        let rises: Vec<Option<i64>> =
            changes.iter().map(|change| change.rise().map(|rise| (rise * 100.0).round() as i64)).collect();
        assert_eq!(rises, [Some(100), Some(50), None], "the history is nearer than the snapshot");
        assert!(changes[2].before.is_none());
        assert!(since(&snapshot, &snapshot, &[], at("2026-11-13T00:00:00Z")).is_empty());
        let instance = pools[0].instance;
        let without = snapshot.only(|offer| offer.instance != instance || offer.place.region != pools[0].place.region);
        let gone = since(&snapshot, &without, &[], at("2026-11-13T00:00:00Z"));
        assert!(!gone.is_empty() && gone.iter().all(|change| change.after.is_none() && change.instance == instance));
    }
}
