//! From the records of a capacity history to an offer, earlier prices and the share of preempted machines. Names no SDK.

use std::sync::Arc;

use jiff::Timestamp;

use crate::prices::pools::Pool;
use gpuplan_market::{Offer, PricePoint, Purchase, SourceNote};
use gpuplan_units::UsdPerHour;

/// Id of this source in an offer.
pub const SOURCE: &str = "gcp-capacity-history";

/// A price and the time for which it held, as the interface words it; every field may be missing.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub start: Option<Timestamp>,
    /// Missing while the interval goes on.
    pub end: Option<Timestamp>,
    pub currency: String,
    /// Whole dollars.
    pub units: i64,
    /// Thousand-millionths of a dollar, of the same sign.
    pub nanos: i32,
}

impl Record {
    fn rate(&self) -> Result<UsdPerHour, String> {
        if self.currency != "USD" {
            return Err(format!("the price is in `{}`, not in dollars; it is left out", self.currency));
        }
        let nanos = self.units.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(i64::from(self.nanos)));
        match nanos {
            Some(nanos) if nanos > 0 => Ok(UsdPerHour::from_nanos(nanos)),
            _ => Err(format!("{} units and {} nanos are no price; it is left out", self.units, self.nanos)),
        }
    }
}

/// The price in force last. It was seen when its interval ended, at the latest when it was answered: a history that
/// ends yesterday does not say what is asked today.
pub fn offer(pool: &Pool, zone: Option<&str>, records: &[Record], answered_at: Timestamp) -> Result<Offer, String> {
    let newest = records.iter().max_by_key(|record| record.start).ok_or("the history has no price for it")?;
    let seen = newest.end.map_or(answered_at, |end| end.min(answered_at));
    let mut offer = Offer::live(pool.instance, pool.place(zone), Purchase::Spot, newest.rate()?, SOURCE, seen);
    offer.flags = newest.start.map_or_else(|| Arc::from(""), |start| format!("in_force_since={start}").into());
    Ok(offer)
}

/// Every readable price with the time since when it held, the newest included, and a note on the others.
pub fn points(pool: &Pool, zone: Option<&str>, records: &[Record]) -> (Vec<PricePoint>, Option<SourceNote>) {
    let point = |record: &Record| {
        let (since, rate) = (record.start?, record.rate().ok()?);
        Some(PricePoint { instance: pool.instance, place: pool.place(zone), purchase: Purchase::Spot, since, rate })
    };
    let points: Vec<_> = records.iter().filter_map(point).collect();
    let unreadable = records.len() - points.len();
    let note = SourceNote {
        place: format!("{}, {}", pool.region, pool.machine_type),
        detail: format!("{unreadable} of {} prices of its history could not be read", records.len()),
    };
    (points, (unreadable > 0).then_some(note))
}

/// Mean share over the days that have one. It is of the machines that stopped on a day, not of those that ran, so it is
/// evidence and no rate of interruptions.
pub fn daily_preemption_share(days: &[Option<f64>]) -> Result<f64, String> {
    if let Some(strange) = days.iter().flatten().find(|share| !(0.0..=1.0).contains(*share)) {
        return Err(format!("{strange} is not a valid share of machines; the preemption history is left out"));
    }
    let shares: Vec<f64> = days.iter().flatten().copied().collect();
    if shares.is_empty() {
        return Err("the preemption history has no day".to_owned());
    }
    Ok(shares.iter().sum::<f64>() / shares.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_hardware::InstanceId;
    use proptest::prelude::*;

    fn pool() -> Pool {
        Pool { region: "us-central1".into(), instance: InstanceId(3), machine_type: "a3-highgpu-8g".to_owned() }
    }

    fn record(start: &str, end: &str, units: i64, nanos: i32) -> Record {
        Record { start: start.parse().ok(), end: end.parse().ok(), currency: "USD".to_owned(), units, nanos }
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn the_newest_record_is_the_price_and_its_end_the_time_it_was_seen() {
        let records = [
            record("2026-07-01T00:00:00Z", "", 20, 400_000_000),
            record("2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z", 19, 0),
        ];
        let now = at("2026-07-30T06:00:00Z");
        let open = offer(&pool(), None, &records, now).unwrap();
        assert_eq!(open.quote.rate.to_string(), "20.40");
        assert_eq!(open.quote.observed_at, now);
        assert_eq!(open.place.zone_id, None);
        let closed = offer(&pool(), Some("us-central1-a"), &records[1..], now).unwrap();
        assert_eq!(closed.quote.observed_at, at("2026-07-01T00:00:00Z"), "an old record is not made to look new");
        assert_eq!(closed.place.zone_id.as_deref(), Some("us-central1-a"));
        let future =
            offer(&pool(), None, &[record("2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z", 1, 0)], now).unwrap();
        assert_eq!(future.quote.observed_at, now);
    }

    #[test]
    fn what_is_no_price_in_dollars_gives_no_offer() {
        let now = at("2026-07-30T06:00:00Z");
        let euro = Record { currency: "EUR".to_owned(), ..record("2026-07-01T00:00:00Z", "", 1, 0) };
        for records in [
            vec![],
            vec![euro],
            vec![record("", "", 0, 0)],
            vec![record("", "", -1, 0)],
            vec![record("", "", i64::MAX, 5)],
        ] {
            assert!(offer(&pool(), None, &records, now).is_err());
        }
    }

    #[test]
    fn every_readable_price_is_a_point_of_the_history() {
        let records = [
            record("2026-07-01T00:00:00Z", "", 20, 0),
            record("2026-06-01T00:00:00Z", "", 0, 0),
            record("", "", 19, 0),
        ];
        let (points, note) = points(&pool(), None, &records);
        assert_eq!(points.len(), 1);
        assert_eq!((points[0].since, points[0].rate.to_string().as_str()), (at("2026-07-01T00:00:00Z"), "20.00"));
        assert_eq!(
            note.unwrap().to_string(),
            "us-central1, a3-highgpu-8g: 2 of 3 prices of its history could not be read"
        );
    }

    #[test]
    fn the_share_is_the_mean_of_the_days_that_have_one() {
        assert_eq!(daily_preemption_share(&[Some(0.25), None, Some(0.75)]), Ok(0.5));
        for days in [vec![], vec![None], vec![Some(1.5)], vec![Some(f64::NAN)], vec![Some(0.5), Some(-0.1)]] {
            assert!(daily_preemption_share(&days).is_err(), "{days:?}");
        }
    }

    proptest! {
        #[test]
        fn any_record_is_a_positive_price_or_none(units in any::<i64>(), nanos in any::<i32>(), currency in "[A-Z]{0,3}") {
            let record = Record { currency: currency.clone(), ..record("2026-07-01T00:00:00Z", "", units, nanos) };
            if let Ok(offer) = offer(&pool(), None, &[record], at("2026-07-30T06:00:00Z")) {
                prop_assert!(offer.quote.rate > UsdPerHour::default() && currency == "USD");
            }
        }

        #[test]
        fn a_share_is_between_none_and_all(days in proptest::collection::vec(proptest::option::of(any::<f64>()), 0..40)) {
            if let Ok(share) = daily_preemption_share(&days) {
                prop_assert!((0.0..=1.0).contains(&share));
            }
        }
    }
}
