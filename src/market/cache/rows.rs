//! Offers and evidence of one source and region as bytes, and back. Words are written once, since a region repeats them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::answer::{PoolSignal, RiskAnswer};
use crate::booking::Booking;
use crate::import::IMPORTED;
use crate::offer::{Availability, Heard, Location, Offer, Purchase, RiskEvidence, Signal, Suspicion};
use crate::quote::{Origin, Quote};
use gpuplan_hardware::{CloudId, Hardware, InstanceId};
use gpuplan_units::UsdPerHour;

/// Why bytes are no rows.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    #[error("its rows are damaged: {0}")]
    Packed(#[from] postcard::Error),
    #[error("its rows are damaged: {0} is none")]
    Cell(&'static str),
}

#[derive(Serialize, Deserialize)]
struct Packed<Row> {
    words: Vec<String>,
    rows: Vec<Row>,
}

/// Positions in the list of words; 0 is the empty word.
#[derive(Serialize, Deserialize)]
struct OfferRow {
    instance: u32,
    zone: u32,
    purchase: u32,
    nanos: i64,
    observed_at: i64,
    flags: u32,
    /// One bit for each of `Suspicion::ALL`.
    suspicions: u32,
    availability: u8,
    booking: Option<Booking>,
    signals: Vec<SignalRow>,
}

#[derive(Serialize, Deserialize)]
struct SignalRow {
    kind: u8,
    value: f64,
    /// Upper end, where the signal is a band.
    high: f64,
}

#[derive(Serialize, Deserialize)]
enum Evidence {
    Monthly {
        low: u8,
        high: u8,
        observed_at: i64,
    },
    /// Of files of before, which did not keep when it was said.
    Undated(SignalRow),
    Signal {
        row: SignalRow,
        observed_at: i64,
    },
}

#[derive(Serialize, Deserialize)]
struct RiskRow {
    instance: u32,
    zone: u32,
    evidence: Evidence,
}

struct Words<'a> {
    list: Vec<String>,
    positions: HashMap<&'a str, u32>,
}

impl<'a> Words<'a> {
    fn new() -> Self {
        Self { list: vec![String::new()], positions: [("", 0)].into() }
    }

    fn position(&mut self, word: &'a str) -> u32 {
        *self.positions.entry(word).or_insert_with(|| {
            self.list.push(word.to_owned());
            (self.list.len() - 1) as u32
        })
    }
}

pub fn pack_offers(offers: &[&Offer], hardware: &Hardware) -> Result<Vec<u8>, RowsError> {
    let purchases: Vec<String> = offers.iter().map(|offer| offer.purchase.to_string()).collect();
    let mut words = Words::new();
    let rows = offers.iter().zip(&purchases).map(|(offer, purchase)| OfferRow {
        instance: words.position(&hardware.instance(offer.instance).name),
        zone: words.position(offer.place.zone_id.as_deref().unwrap_or_default()),
        purchase: words.position(purchase),
        nanos: offer.quote.rate.nanos(),
        observed_at: offer.quote.observed_at.as_second(),
        flags: words.position(&offer.flags),
        suspicions: offer.suspicions.iter().map(|suspicion| 1 << *suspicion as u32).fold(0, |bits, bit| bits | bit),
        availability: offer.availability as u8,
        booking: offer.booking.as_deref().copied(),
        signals: offer.signals.iter().map(|heard| SignalRow::from(heard.signal)).collect(),
    });
    let rows = rows.collect();
    Ok(postcard::to_stdvec(&Packed { words: words.list, rows })?)
}

/// Adds the offers of one source and region; those of machine types that the catalog does not know any more are left out.
pub fn unpack_offers(
    bytes: &[u8],
    source: &str,
    region: &str,
    cloud: &CloudId,
    hardware: &Hardware,
    offers: &mut Vec<Offer>,
) -> Result<(), RowsError> {
    let packed: Packed<OfferRow> = postcard::from_bytes(bytes)?;
    let known = Known::new(&packed.words, cloud, hardware);
    let origin = if source.starts_with(IMPORTED) { Origin::User } else { Origin::Cached };
    let (source, region): (Arc<str>, Arc<str>) = (source.into(), region.into());
    for row in packed.rows {
        let Some(instance) = known.instance(row.instance)? else { continue };
        offers.push(Offer {
            instance,
            place: known.place(&region, row.zone)?,
            purchase: known.purchase(row.purchase)?,
            quote: Quote { rate: rate(row.nanos)?, origin, observed_at: time(row.observed_at)? },
            source: source.clone(),
            flags: known.word(row.flags)?.clone(),
            suspicions: Suspicion::ALL
                .into_iter()
                .filter(|suspicion| row.suspicions & (1 << *suspicion as u32) != 0)
                .collect(),
            risk: None,
            availability: availability(row.availability)?,
            booking: row.booking.map(Box::new),
            owned: None,
            // When they were said is not kept with offers.
            signals: row
                .signals
                .into_iter()
                .map(|row| Ok(Heard { signal: row.signal()?, observed_at: None }))
                .collect::<Result<_, RowsError>>()?,
        });
    }
    Ok(())
}

/// By region.
pub fn pack_risks<'a>(
    answer: &'a RiskAnswer,
    hardware: &Hardware,
    now: Timestamp,
) -> Result<Vec<(&'a str, Vec<u8>)>, RowsError> {
    let risks = answer.risks.iter().map(|(instance, place, risk)| {
        let (low, high) = (risk.monthly_percent_low, risk.monthly_percent_high);
        (*instance, place, Evidence::Monthly { low, high, observed_at: risk.observed_at.as_second() })
    });
    let signals = answer.signals.iter().map(|(instance, place, signal)| {
        (*instance, place, Evidence::Signal { row: (*signal).into(), observed_at: now.as_second() })
    });
    let mut regions: BTreeMap<&str, Vec<(InstanceId, &Location, Evidence)>> = BTreeMap::new();
    for row in risks.chain(signals) {
        regions.entry(&row.1.region).or_default().push(row);
    }
    let pack = |(region, rows): (&'a str, Vec<(InstanceId, &Location, Evidence)>)| {
        let mut words = Words::new();
        let rows = rows.into_iter().map(|(instance, place, evidence)| RiskRow {
            instance: words.position(&hardware.instance(instance).name),
            zone: words.position(place.zone_id.as_deref().unwrap_or_default()),
            evidence,
        });
        let rows = rows.collect();
        Ok((region, postcard::to_stdvec(&Packed { words: words.list, rows })?))
    };
    regions.into_iter().map(pack).collect()
}

pub fn unpack_risks(
    bytes: &[u8],
    source: &str,
    region: &str,
    cloud: &CloudId,
    hardware: &Hardware,
    risks: &mut Vec<(InstanceId, Location, Arc<RiskEvidence>)>,
    signals: &mut Vec<PoolSignal>,
) -> Result<(), RowsError> {
    let packed: Packed<RiskRow> = postcard::from_bytes(bytes)?;
    let known = Known::new(&packed.words, cloud, hardware);
    let (source, region): (Arc<str>, Arc<str>) = (source.into(), region.into());
    for row in packed.rows {
        let Some(instance) = known.instance(row.instance)? else { continue };
        let place = known.place(&region, row.zone)?;
        match row.evidence {
            Evidence::Undated(row) => {
                signals.push(PoolSignal { instance, place, signal: row.signal()?, observed_at: None });
            }
            Evidence::Signal { row, observed_at } => {
                let observed_at = Some(time(observed_at)?);
                signals.push(PoolSignal { instance, place, signal: row.signal()?, observed_at });
            }
            Evidence::Monthly { low, high, observed_at } => {
                let observed_at = time(observed_at)?;
                let evidence = RiskEvidence {
                    monthly_percent_low: low,
                    monthly_percent_high: high,
                    observed_at,
                    source: source.clone(),
                };
                risks.push((instance, place, Arc::new(evidence)));
            }
        }
    }
    Ok(())
}

/// What the words of a region mean, worked out once for each.
struct Known {
    words: Vec<Arc<str>>,
    instances: Vec<Option<InstanceId>>,
    purchases: Vec<Option<Purchase>>,
}

impl Known {
    fn new(words: &[String], cloud: &CloudId, hardware: &Hardware) -> Self {
        let purchase = |word: &String| {
            let (word, term) = word.split_once(' ').unwrap_or((word, ""));
            Purchase::parse(word, term).ok()
        };
        Self {
            words: words.iter().map(|word| word.as_str().into()).collect(),
            instances: words.iter().map(|word| hardware.find_instance(cloud, word)).collect(),
            purchases: words.iter().map(purchase).collect(),
        }
    }

    fn word(&self, position: u32) -> Result<&Arc<str>, RowsError> {
        self.words.get(position as usize).ok_or(RowsError::Cell("a word"))
    }

    /// `None`: a machine type that the catalog does not know any more.
    fn instance(&self, position: u32) -> Result<Option<InstanceId>, RowsError> {
        self.instances.get(position as usize).copied().ok_or(RowsError::Cell("a machine type"))
    }

    fn purchase(&self, position: u32) -> Result<Purchase, RowsError> {
        self.purchases.get(position as usize).copied().flatten().ok_or(RowsError::Cell("a way to buy"))
    }

    /// A zone of the region, or the region itself where the word is empty.
    fn place(&self, region: &Arc<str>, zone: u32) -> Result<Location, RowsError> {
        let zone = self.word(zone)?;
        Ok(Location { region: region.clone(), zone_id: Some(zone.clone()).filter(|zone| !zone.is_empty()) })
    }
}

fn rate(nanos: i64) -> Result<UsdPerHour, RowsError> {
    if nanos <= 0 { Err(RowsError::Cell("a price")) } else { Ok(UsdPerHour::from_nanos(nanos)) }
}

fn time(seconds: i64) -> Result<Timestamp, RowsError> {
    Timestamp::from_second(seconds).map_err(|_| RowsError::Cell("a time"))
}

fn availability(code: u8) -> Result<Availability, RowsError> {
    use Availability::{Listed, Seen, SoldOut, Unknown};
    [Unknown, Listed, Seen, SoldOut]
        .into_iter()
        .find(|known| *known as u8 == code)
        .ok_or(RowsError::Cell("an availability"))
}

impl From<Signal> for SignalRow {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::PlacementScore(score) => Self { kind: 0, value: f64::from(score), high: 0.0 },
            Signal::Obtainability(share) => Self { kind: 1, value: share, high: 0.0 },
            Signal::UptimeHours(hours) => Self { kind: 2, value: hours, high: 0.0 },
            Signal::DailyPreemptionShare(share) => Self { kind: 3, value: share, high: 0.0 },
            Signal::HourlyEvictionPercent { low, high } => {
                Self { kind: 4, value: f64::from(low), high: f64::from(high) }
            }
        }
    }
}

impl SignalRow {
    fn signal(self) -> Result<Signal, RowsError> {
        Ok(match self.kind {
            0 => Signal::PlacementScore(self.value as u8),
            1 => Signal::Obtainability(self.value),
            2 => Signal::UptimeHours(self.value),
            3 => Signal::DailyPreemptionShare(self.value),
            4 => Signal::HourlyEvictionPercent { low: self.value as u8, high: self.high as u8 },
            _ => return Err(RowsError::Cell("a signal")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(hardware: &Hardware) -> Vec<u8> {
        let instance = hardware.find_instance(&CloudId::new("aws"), "p5.48xlarge").unwrap();
        let place = Location { region: "r".into(), zone_id: Some("use1-az4".into()) };
        let rate = UsdPerHour::parse("12.5").unwrap();
        let mut offer =
            Offer::live(instance, place, Purchase::Spot, rate, "s", "2026-11-20T10:00:00Z".parse().unwrap());
        offer.signals = vec![Heard { signal: Signal::PlacementScore(3), observed_at: None }];
        pack_offers(&[&offer, &offer], hardware).unwrap()
    }

    #[test]
    fn a_row_that_is_damaged_is_not_left_out() {
        let hardware = Hardware::embedded().unwrap();
        let unpacked = |change: &dyn Fn(&mut OfferRow)| {
            let mut packed: Packed<OfferRow> = postcard::from_bytes(&packed(&hardware)).unwrap();
            change(&mut packed.rows[1]);
            let (bytes, mut offers) = (postcard::to_stdvec(&packed).unwrap(), Vec::new());
            unpack_offers(&bytes, "s", "r", &CloudId::new("aws"), &hardware, &mut offers).map(|()| offers.len())
        };
        assert_eq!(unpacked(&|_| {}).unwrap(), 2);
        // The catalog does not know this machine type any more.
        assert_eq!(unpacked(&|row| row.instance = row.zone).unwrap(), 1);
        for (change, what) in [
            (&(|row: &mut OfferRow| row.instance = 99) as &dyn Fn(&mut OfferRow), "a machine type"),
            (&|row| row.zone = 99, "a word"),
            (&|row| row.purchase = row.zone, "a way to buy"),
            (&|row| row.nanos = 0, "a price"),
            (&|row| row.observed_at = i64::MAX, "a time"),
            (&|row| row.availability = 9, "an availability"),
            (&|row| row.signals[0].kind = 9, "a signal"),
        ] {
            assert_eq!(unpacked(change).unwrap_err().to_string(), format!("its rows are damaged: {what} is none"));
        }
    }

    proptest::proptest! {
        /// Bytes that are read are rows of the machine types that the catalog knows, at a price.
        #[test]
        fn any_damage_to_rows_is_read_or_refused(at in proptest::prelude::any::<proptest::sample::Index>(), byte: u8) {
            let hardware = Hardware::embedded().unwrap();
            let mut bytes = packed(&hardware);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let mut offers = Vec::new();
            if unpack_offers(&bytes, "s", "r", &CloudId::new("aws"), &hardware, &mut offers).is_ok() {
                proptest::prop_assert!(offers.len() <= 2 && offers.iter().all(|offer| offer.quote.rate.nanos() > 0));
                proptest::prop_assert!(offers.iter().all(|offer| hardware.instance(offer.instance).cloud.as_str() == "aws"));
                let (refs, mut again) = (offers.iter().collect::<Vec<_>>(), Vec::new());
                unpack_offers(&pack_offers(&refs, &hardware).unwrap(), "s", "r", &CloudId::new("aws"), &hardware, &mut again).unwrap();
                proptest::prop_assert_eq!(again, offers);
            }
        }

        #[test]
        fn any_bytes_are_no_rows_of_machines_that_nobody_knows(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let (hardware, cloud) = (Hardware::default(), CloudId::new("aws"));
            let (mut offers, mut risks, mut signals) = (Vec::new(), Vec::new(), Vec::new());
            let read = unpack_offers(&bytes, "s", "r", &cloud, &hardware, &mut offers);
            let known = unpack_risks(&bytes, "s", "r", &cloud, &hardware, &mut risks, &mut signals);
            proptest::prop_assert!(offers.is_empty() && risks.is_empty() && signals.is_empty());
            for error in [read.err(), known.err()].into_iter().flatten() {
                proptest::prop_assert!(error.to_string().starts_with("its rows are damaged: "));
            }
        }
    }
}
