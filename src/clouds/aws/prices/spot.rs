//! From rows of a spot price history to offers. Names no SDK, so it is tested without one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use gpuplan_hardware::InstanceId;
use gpuplan_market::{Availability, Location, Offer, Purchase, SourceNote, Suspicion};
use gpuplan_units::UsdPerHour;

/// Machine type and zone id: what has one spot price.
pub type Pool = (InstanceId, Arc<str>);

/// EC2 repeats the price of a living pool at least daily, moved or not; twice that without a row says that the pool may be
/// gone. Observed in histories of many types; the documentation of DescribeSpotPriceHistory does not promise it.
const REPEATED_WITHIN: SignedDuration = SignedDuration::from_hours(48);

/// Id of this source in an offer.
pub const SOURCE: &str = "aws-spot-history";

/// One row as EC2 words it; every field may be missing.
#[derive(Clone, Debug, Default)]
pub struct SpotPriceRow {
    pub instance_type: String,
    pub zone_name: String,
    pub zone_id: Option<String>,
    /// Text, such as `19.253100` or `9.0E-4`.
    pub price: String,
    /// When EC2 last wrote the price down.
    pub since: Option<Timestamp>,
}

/// Rows of one region, and how to read them.
pub struct Region<'a> {
    pub name: &'a str,
    /// Names of zones are shuffled for each account; ids are not.
    pub zone_ids: &'a HashMap<String, String>,
    pub instances: &'a HashMap<String, InstanceId>,
    /// Pools that the region lists; `None` where it did not say.
    pub listed: Option<&'a HashSet<Pool>>,
    /// When the answer arrived: until then a price held that EC2 has repeated lately.
    pub answered_at: Timestamp,
}

impl Region<'_> {
    /// One offer a machine type and zone. A row that cannot be read is dropped with a note.
    pub fn offers(&self, rows: &[SpotPriceRow]) -> (Vec<Offer>, Vec<SourceNote>) {
        let mut newest: BTreeMap<Pool, (Option<Timestamp>, Offer)> = BTreeMap::new();
        let mut notes = Vec::new();
        for row in rows {
            match self.offer(row) {
                // Both product descriptions are asked for, so a pool can have two rows: the one that moved last is in force.
                Ok(Some((key, offer))) if newest.get(&key).is_none_or(|(since, _)| *since < row.since) => {
                    newest.insert(key, (row.since, offer));
                }
                Ok(_) => {}
                Err(detail) => {
                    notes.push(SourceNote { place: format!("{}, {}", row.zone_name, row.instance_type), detail });
                }
            }
        }
        (newest.into_values().map(|(_, offer)| offer).collect(), notes)
    }

    fn offer(&self, row: &SpotPriceRow) -> Result<Option<(Pool, Offer)>, String> {
        let Some((pool, rate)) = self.price(row)? else { return Ok(None) };
        let availability = match self.listed {
            Some(listed) if !listed.contains(&pool) => {
                return Err("the zone does not list this machine type; the price is left out".to_owned());
            }
            Some(_) => Availability::Listed,
            None => Availability::Unknown,
        };
        let place = Location { region: self.name.into(), zone_id: Some(pool.1.clone()) };
        let mut offer = Offer::live(pool.0, place, Purchase::Spot, rate, SOURCE, self.answered_at);
        offer.availability = availability;
        if let Some(since) = row.since {
            offer.flags = format!("in_force_since={since}").into();
            if self.answered_at.duration_since(since) > REPEATED_WITHIN {
                offer.quote.observed_at = since;
                offer.suspicions.push(Suspicion::NotRepeated);
            }
        }
        if is_local_zone(&pool.1) {
            offer.suspicions.push(Suspicion::LocalZone);
        }
        Ok(Some((pool, offer)))
    }

    /// Pool and rate of a row; `None` for a machine type that nobody asked for.
    pub fn price(&self, row: &SpotPriceRow) -> Result<Option<(Pool, UsdPerHour)>, String> {
        let Some(instance) = self.instances.get(&row.instance_type) else { return Ok(None) };
        let zone_id = row.zone_id.as_ref().or_else(|| self.zone_ids.get(&row.zone_name));
        let zone_id = zone_id.ok_or_else(|| "no zone id is known for this zone; the price is left out".to_owned())?;
        Ok(Some(((*instance, zone_id.as_str().into()), positive(&row.price)?)))
    }
}

/// A rate that may be offered.
pub fn positive(text: &str) -> Result<UsdPerHour, String> {
    let rate = UsdPerHour::parse(text).map_err(|error| format!("{error}; the price is left out"))?;
    if rate == UsdPerHour::default() {
        Err("a price of zero is not a valid price; it is left out".to_owned())
    } else {
        Ok(rate)
    }
}

/// `use1-az4` is a zone of the region; `use1-atl2-az1` and `use1-wl1-bos-wlz1` lie outside it.
fn is_local_zone(zone_id: &str) -> bool {
    zone_id.matches('-').count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_market::Origin;
    use proptest::prelude::*;

    const ANSWERED: &str = "2026-08-01T00:00:00Z";

    fn row(zone: &str, price: &str, since: &str) -> SpotPriceRow {
        SpotPriceRow {
            instance_type: "p5.48xlarge".to_owned(),
            zone_name: zone.to_owned(),
            zone_id: None,
            price: price.to_owned(),
            since: since.parse().ok(),
        }
    }

    fn read_listed(rows: &[SpotPriceRow], listed: Option<&HashSet<Pool>>) -> (Vec<Offer>, Vec<SourceNote>) {
        let zone_ids = [("us-east-1a", "use1-az4"), ("us-east-1-atl-2a", "use1-atl2-az1")];
        let zone_ids = zone_ids.map(|(name, id)| (name.to_owned(), id.to_owned())).into();
        let instances = [("p5.48xlarge".to_owned(), InstanceId(7))].into();
        let answered_at = ANSWERED.parse().unwrap();
        Region { name: "us-east-1", zone_ids: &zone_ids, instances: &instances, listed, answered_at }.offers(rows)
    }

    fn read(rows: &[SpotPriceRow]) -> (Vec<Offer>, Vec<SourceNote>) {
        read_listed(rows, None)
    }

    #[test]
    fn a_row_becomes_an_offer_in_its_zone_seen_when_it_was_answered() {
        let (offers, notes) = read(&[row("us-east-1a", "9.0E-4", "2026-07-31T10:20:30Z")]);
        assert_eq!(notes, []);
        assert_eq!(offers.len(), 1);
        assert_eq!(offers[0].quote.rate.to_string(), "0.0009");
        assert_eq!(offers[0].quote.origin, Origin::Live);
        assert_eq!(offers[0].quote.observed_at, ANSWERED.parse().unwrap());
        assert_eq!(offers[0].place.zone_id.as_deref(), Some("use1-az4"));
        assert_eq!(&*offers[0].flags, "in_force_since=2026-07-31T10:20:30Z");
        assert_eq!(offers[0].availability, Availability::Unknown);
        assert!(!offers[0].is_suspect());
    }

    #[test]
    fn a_price_that_was_not_repeated_for_two_days_is_as_old_as_its_row_and_doubted() {
        let (offers, _) = read(&[row("us-east-1a", "1", "2026-07-30T00:00:00Z")]);
        assert!(!offers[0].is_suspect(), "two days to the second");
        let (offers, _) = read(&[row("us-east-1a", "1", "2026-07-29T23:59:59Z")]);
        assert_eq!(offers[0].suspicions, [Suspicion::NotRepeated]);
        assert_eq!(offers[0].quote.observed_at, "2026-07-29T23:59:59Z".parse().unwrap());
    }

    #[test]
    fn a_zone_that_does_not_list_the_type_sells_none() {
        let listed = [(InstanceId(7), "use1-az4".into())].into();
        let rows = [row("us-east-1a", "2", ANSWERED), row("us-east-1-atl-2a", "1", ANSWERED)];
        let (offers, notes) = read_listed(&rows, Some(&listed));
        assert_eq!(offers.len(), 1);
        assert_eq!(
            (offers[0].availability, offers[0].place.zone_id.as_deref()),
            (Availability::Listed, Some("use1-az4"))
        );
        assert_eq!(
            notes[0].to_string(),
            "us-east-1-atl-2a, p5.48xlarge: the zone does not list this machine type; the price is left out"
        );
    }

    #[test]
    fn what_is_no_price_is_a_note_and_never_a_number() {
        for price in ["N/A*", "", "-1.0", "0.000000", "1e99", "NaN"] {
            let (offers, notes) = read(&[row("us-east-1a", price, ""), row("us-east-1-atl-2a", "1.5", "")]);
            assert_eq!(offers.len(), 1, "{price}");
            assert_eq!(offers[0].suspicions, [Suspicion::LocalZone]);
            assert_eq!(notes.len(), 1, "{price}");
            assert_eq!(notes[0].place, "us-east-1a, p5.48xlarge");
        }
    }

    #[test]
    fn two_product_descriptions_of_one_pool_give_the_price_in_force() {
        let rows = [row("us-east-1a", "2", "2026-01-02T00:00:00Z"), row("us-east-1a", "1", "2026-01-01T00:00:00Z")];
        for rows in [rows.to_vec(), rows.iter().rev().cloned().collect()] {
            let (offers, _) = read(&rows);
            assert_eq!(offers.len(), 1);
            assert_eq!(offers[0].quote.rate.to_string(), "2.00");
        }
    }

    #[test]
    fn zones_without_an_id_and_types_nobody_asked_for_give_no_offer() {
        let stranger = SpotPriceRow { instance_type: "t3.micro".to_owned(), ..row("us-east-1a", "1", "") };
        let (offers, notes) = read(&[row("us-east-1f", "1", ""), stranger]);
        assert_eq!((offers.len(), notes.len()), (0, 1));
        let named = SpotPriceRow { zone_id: Some("use1-az6".to_owned()), ..row("us-east-1f", "1", "") };
        assert_eq!(read(&[named]).0[0].place.zone_id.as_deref(), Some("use1-az6"), "an id in the row itself is enough");
    }

    proptest! {
        #[test]
        fn any_row_is_read_or_noted(price in ".{0,20}", second in -400_000_000_000_i64..400_000_000_000) {
            let row = SpotPriceRow { since: Timestamp::from_second(second).ok(), ..row("us-east-1a", &price, "") };
            let (offers, notes) = read(&[row]);
            prop_assert_eq!(offers.len() + notes.len(), 1);
            let exact = offers.iter().all(|offer| UsdPerHour::parse(&price) == Ok(offer.quote.rate) && offer.quote.rate.nanos() > 0);
            prop_assert!(exact);
        }
    }
}
