//! From the price records of a capacity history to an offer. Names no SDK, so it is tested without one.

use std::sync::Arc;

use jiff::Timestamp;

use crate::hardware::InstanceId;
use crate::market::{Offer, Place, Purchase};
use crate::units::UsdPerHour;

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
pub fn offer(instance: InstanceId, region: &str, records: &[Record], answered_at: Timestamp) -> Result<Offer, String> {
    let newest = records.iter().max_by_key(|record| record.start).ok_or("the history has no price for it")?;
    let place = Place { region: region.into(), zone_id: None };
    let seen = newest.end.map_or(answered_at, |end| end.min(answered_at));
    let mut offer = Offer::live(instance, place, Purchase::Spot, newest.rate()?, SOURCE, seen);
    offer.flags = newest.start.map_or_else(|| Arc::from(""), |start| format!("in_force_since={start}").into());
    Ok(offer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(start: &str, end: &str, units: i64, nanos: i32) -> Record {
        Record { start: start.parse().ok(), end: end.parse().ok(), currency: "USD".to_owned(), units, nanos }
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn the_newest_record_is_the_price_and_its_end_the_time_it_was_seen() {
        let records = [record("2026-07-01T00:00:00Z", "", 20, 400_000_000), record("2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z", 19, 0)];
        let now = at("2026-07-30T06:00:00Z");
        let open = offer(InstanceId(3), "us-central1", &records, now).unwrap();
        assert_eq!(open.quote.rate.to_string(), "20.40");
        assert_eq!(open.quote.observed_at, now);
        assert_eq!(open.place.zone_id, None);
        let closed = offer(InstanceId(3), "us-central1", &records[1..], now).unwrap();
        assert_eq!(closed.quote.observed_at, at("2026-07-01T00:00:00Z"), "an old record is not made to look new");
        let future = offer(InstanceId(3), "us-central1", &[record("2026-07-01T00:00:00Z", "2027-01-01T00:00:00Z", 1, 0)], now).unwrap();
        assert_eq!(future.quote.observed_at, now);
    }

    #[test]
    fn what_is_no_price_in_dollars_gives_no_offer() {
        let now = at("2026-07-30T06:00:00Z");
        let euro = Record { currency: "EUR".to_owned(), ..record("2026-07-01T00:00:00Z", "", 1, 0) };
        for records in [vec![], vec![euro], vec![record("", "", 0, 0)], vec![record("", "", -1, 0)], vec![record("", "", i64::MAX, 5)]] {
            assert!(offer(InstanceId(3), "us-central1", &records, now).is_err());
        }
    }
}
