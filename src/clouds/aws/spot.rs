//! From rows of a spot price history to offers. Names no SDK, so it is tested without one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::hardware::InstanceId;
use crate::market::{Offer, Place, Purchase, SourceNote, Suspicion};
use crate::units::UsdPerHour;

/// Machine type and zone id: what has one spot price.
type Pool = (InstanceId, Arc<str>);

/// Id of this source in an offer.
pub const SOURCE: &str = "aws-spot-history";

/// One row as EC2 words it; every field may be missing.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub instance_type: String,
    pub zone_name: String,
    pub zone_id: Option<String>,
    /// Text, such as `19.253100` or `9.0E-4`.
    pub price: String,
    /// Since when the price is in force.
    pub since: Option<Timestamp>,
}

/// Rows of one region, and how to read them.
pub struct Region<'a> {
    pub name: &'a str,
    /// Names of zones are shuffled for each account; ids are not.
    pub zone_ids: &'a HashMap<String, String>,
    pub instances: &'a HashMap<String, InstanceId>,
    /// When the answer arrived. `since` may be weeks back: it says when the price last moved, not when it was seen.
    pub answered_at: Timestamp,
}

impl Region<'_> {
    /// One offer a machine type and zone. A row that cannot be read is dropped with a note.
    pub fn offers(&self, rows: &[Row]) -> (Vec<Offer>, Vec<SourceNote>) {
        let mut newest: BTreeMap<Pool, (Option<Timestamp>, Offer)> = BTreeMap::new();
        let mut notes = Vec::new();
        for row in rows {
            match self.offer(row) {
                // Both product descriptions are asked for, so a pool can have two rows: the one that moved last is in force.
                Ok(Some((key, offer))) if newest.get(&key).is_none_or(|(since, _)| *since < row.since) => {
                    newest.insert(key, (row.since, offer));
                }
                Ok(_) => {}
                Err(detail) => notes.push(SourceNote { place: format!("{}, {}", row.zone_name, row.instance_type), detail }),
            }
        }
        (newest.into_values().map(|(_, offer)| offer).collect(), notes)
    }

    fn offer(&self, row: &Row) -> Result<Option<(Pool, Offer)>, String> {
        let Some(instance) = self.instances.get(&row.instance_type) else { return Ok(None) };
        let zone_id: Arc<str> = row
            .zone_id
            .as_ref()
            .or_else(|| self.zone_ids.get(&row.zone_name))
            .ok_or_else(|| "no zone id is known for this zone; the price is left out".to_owned())?
            .as_str()
            .into();
        let rate = UsdPerHour::parse(&row.price).map_err(|error| format!("{error}; the price is left out"))?;
        if rate == UsdPerHour::default() {
            return Err("a price of zero is no price; it is left out".to_owned());
        }
        let place = Place { region: self.name.into(), zone_id: Some(zone_id.clone()) };
        let mut offer = Offer::live(*instance, place, Purchase::Spot, rate, SOURCE, self.answered_at);
        offer.flags = row.since.map(|since| format!("in_force_since={since}")).unwrap_or_default().into();
        if is_local_zone(&zone_id) {
            offer.suspicions.push(Suspicion::LocalZone);
        }
        Ok(Some(((*instance, zone_id), offer)))
    }
}

/// `use1-az4` is a zone of the region; `use1-atl2-az1` and `use1-wl1-bos-wlz1` lie outside it.
fn is_local_zone(zone_id: &str) -> bool {
    zone_id.matches('-').count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::Origin;

    fn row(zone: &str, price: &str, since: &str) -> Row {
        Row {
            instance_type: "p5.48xlarge".to_owned(),
            zone_name: zone.to_owned(),
            zone_id: None,
            price: price.to_owned(),
            since: since.parse().ok(),
        }
    }

    fn read(rows: &[Row]) -> (Vec<Offer>, Vec<SourceNote>) {
        let zone_ids = [("us-east-1a", "use1-az4"), ("us-east-1-atl-2a", "use1-atl2-az1")];
        let zone_ids = zone_ids.map(|(name, id)| (name.to_owned(), id.to_owned())).into();
        let instances = [("p5.48xlarge".to_owned(), InstanceId(7))].into();
        let answered_at = "2026-08-01T00:00:00Z".parse().unwrap();
        Region { name: "us-east-1", zone_ids: &zone_ids, instances: &instances, answered_at }.offers(rows)
    }

    #[test]
    fn a_row_becomes_an_offer_in_its_zone_seen_when_it_was_answered() {
        let (offers, notes) = read(&[row("us-east-1a", "9.0E-4", "2026-01-15T10:20:30Z")]);
        assert_eq!(notes, []);
        assert_eq!(offers.len(), 1);
        assert_eq!(offers[0].quote.rate.to_string(), "0.0009");
        assert_eq!(offers[0].quote.origin, Origin::Live);
        assert_eq!(offers[0].quote.observed_at, "2026-08-01T00:00:00Z".parse().unwrap());
        assert_eq!(offers[0].place.zone_id.as_deref(), Some("use1-az4"));
        assert_eq!(&*offers[0].flags, "in_force_since=2026-01-15T10:20:30Z");
        assert!(!offers[0].is_suspect());
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
        let stranger = Row { instance_type: "t3.micro".to_owned(), ..row("us-east-1a", "1", "") };
        let (offers, notes) = read(&[row("us-east-1f", "1", ""), stranger]);
        assert_eq!((offers.len(), notes.len()), (0, 1));
        let named = Row { zone_id: Some("use1-az6".to_owned()), ..row("us-east-1f", "1", "") };
        assert_eq!(read(&[named]).0[0].place.zone_id.as_deref(), Some("use1-az6"), "an id in the row itself is enough");
    }
}
