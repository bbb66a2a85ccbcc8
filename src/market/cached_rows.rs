//! Offers and evidence of one source and region as bytes, and back. Words are written once, since a region repeats them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::import::IMPORTED;
use crate::offer::{Availability, Offer, Place, Purchase, RiskEvidence, Signal, Suspicion};
use crate::quote::{Origin, Quote};
use crate::source::RiskAnswer;
use gpuplan_hardware::{CloudId, Hardware, InstanceId};
use gpuplan_units::UsdPerHour;

/// Why bytes are no rows.
#[derive(Debug, thiserror::Error)]
#[error("its rows are damaged: {0}")]
pub struct RowsError(#[from] postcard::Error);

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
    Monthly { low: u8, high: u8, observed_at: i64 },
    Signal(SignalRow),
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
        signals: offer.signals.iter().map(|signal| SignalRow::from(*signal)).collect(),
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
    offers.extend(packed.rows.into_iter().filter_map(|row| {
        Some(Offer {
            instance: known.instance(row.instance)?,
            place: known.place(&region, row.zone)?,
            purchase: known.purchase(row.purchase)?,
            quote: Quote {
                rate: UsdPerHour::from_nanos(row.nanos),
                origin,
                observed_at: Timestamp::from_second(row.observed_at).ok()?,
            },
            source: source.clone(),
            flags: known.words.get(row.flags as usize)?.clone(),
            suspicions: Suspicion::ALL
                .into_iter()
                .filter(|suspicion| row.suspicions & (1 << *suspicion as u32) != 0)
                .collect(),
            risk: None,
            availability: availability(row.availability)?,
            owned: None,
            signals: row.signals.into_iter().filter_map(SignalRow::signal).collect(),
        })
    }));
    Ok(())
}

/// By region.
pub fn pack_risks<'a>(answer: &'a RiskAnswer, hardware: &Hardware) -> Result<Vec<(&'a str, Vec<u8>)>, RowsError> {
    let risks = answer.risks.iter().map(|(instance, place, risk)| {
        let (low, high) = (risk.monthly_percent_low, risk.monthly_percent_high);
        (*instance, place, Evidence::Monthly { low, high, observed_at: risk.observed_at.as_second() })
    });
    let signals =
        answer.signals.iter().map(|(instance, place, signal)| (*instance, place, Evidence::Signal((*signal).into())));
    let mut regions: BTreeMap<&str, Vec<(InstanceId, &Place, Evidence)>> = BTreeMap::new();
    for row in risks.chain(signals) {
        regions.entry(&row.1.region).or_default().push(row);
    }
    let pack = |(region, rows): (&'a str, Vec<(InstanceId, &Place, Evidence)>)| {
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
    risks: &mut Vec<(InstanceId, Place, Arc<RiskEvidence>)>,
    signals: &mut Vec<(InstanceId, Place, Signal)>,
) -> Result<(), RowsError> {
    let packed: Packed<RiskRow> = postcard::from_bytes(bytes)?;
    let known = Known::new(&packed.words, cloud, hardware);
    let (source, region): (Arc<str>, Arc<str>) = (source.into(), region.into());
    for row in packed.rows {
        let (Some(instance), Some(place)) = (known.instance(row.instance), known.place(&region, row.zone)) else {
            continue;
        };
        match row.evidence {
            Evidence::Signal(signal) => signals.extend(signal.signal().map(|signal| (instance, place, signal))),
            Evidence::Monthly { low, high, observed_at } => {
                let Ok(observed_at) = Timestamp::from_second(observed_at) else { continue };
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

    fn instance(&self, position: u32) -> Option<InstanceId> {
        *self.instances.get(position as usize)?
    }

    fn purchase(&self, position: u32) -> Option<Purchase> {
        *self.purchases.get(position as usize)?
    }

    /// A zone of the region, or the region itself where the word is empty.
    fn place(&self, region: &Arc<str>, zone: u32) -> Option<Place> {
        let zone = self.words.get(zone as usize)?;
        Some(Place { region: region.clone(), zone_id: Some(zone.clone()).filter(|zone| !zone.is_empty()) })
    }
}

fn availability(code: u8) -> Option<Availability> {
    use Availability::{Listed, Seen, SoldOut, Unknown};
    [Unknown, Listed, Seen, SoldOut].into_iter().find(|known| *known as u8 == code)
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
    fn signal(self) -> Option<Signal> {
        Some(match self.kind {
            0 => Signal::PlacementScore(self.value as u8),
            1 => Signal::Obtainability(self.value),
            2 => Signal::UptimeHours(self.value),
            3 => Signal::DailyPreemptionShare(self.value),
            4 => Signal::HourlyEvictionPercent { low: self.value as u8, high: self.high as u8 },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Whatever stands in the file, it is read or refused.
        #[test]
        fn any_bytes_are_rows_or_an_error(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let hardware = Hardware::default();
            let _ = unpack_offers(&bytes, "s", "r", &CloudId::new("aws"), &hardware, &mut Vec::new());
            let _ = unpack_risks(&bytes, "s", "r", &CloudId::new("aws"), &hardware, &mut Vec::new(), &mut Vec::new());
        }
    }
}
