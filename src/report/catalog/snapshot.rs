//! The price files of a catalog folder and their manifest entries, as text, and what changed against the files before.

use std::collections::BTreeMap;

use jiff::Timestamp;

use gpuplan_hardware::sheet::DESCRIBED;
use gpuplan_hardware::{CloudId, Hardware, InstanceType};
use gpuplan_market::{Offer, Origin, Purchase, Suspicion};
use gpuplan_units::UsdPerHour;
use gpuplan_units::money::MoneyError;

/// Version of the way in which rows are written; a manifest entry carries it.
pub const PARSER: &str = concat!("gpuplan ", env!("CARGO_PKG_VERSION"));
/// A file that comes back with less than this share of its rows is refused: more likely a source failed than a tenth of a
/// cloud was closed.
pub const ROW_FLOOR: f64 = 0.9;

const HEADER: [&str; 10] = [
    "instance_type",
    "region",
    "zone_id",
    "purchase",
    "term",
    "rate_usd_per_hour",
    "price_kind",
    "observed_at",
    "source",
    "flags",
];

/// What a refreshed file has that the one before had not, by machine, place and terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: usize,
    pub gone: usize,
    pub dearer: usize,
    pub cheaper: usize,
    pub same: usize,
}

/// The offers of one cloud as its price file. `taken_at` marks the sources that answered, so that each refresh is told apart.
pub fn prices(
    cloud: &CloudId,
    offers: &[Offer],
    hardware: &Hardware,
    taken_at: Timestamp,
) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER)?;
    // A machine that only its cloud describes has no row in the folder.
    let has_row = |instance: &InstanceType| instance.cloud == *cloud && instance.source != DESCRIBED;
    let mine =
        offers.iter().filter(|offer| has_row(hardware.instance(offer.instance)) && offer.quote.origin != Origin::User);
    let mut rows: Vec<[String; 10]> = mine.map(|offer| row(offer, hardware, taken_at)).collect();
    rows.sort();
    for row in rows {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn row(offer: &Offer, hardware: &Hardware, taken_at: Timestamp) -> [String; 10] {
    let (purchase, term) = match offer.purchase {
        Purchase::Commitment { years } => ("commitment", format!("{years}y")),
        other => (other.word(), String::new()),
    };
    let kind = match (offer.quote.origin, offer.suspicions.contains(&Suspicion::BidFloor)) {
        (_, true) => "bid-floor",
        (Origin::Estimate, _) => "estimate",
        _ => "list",
    };
    let mut flags: Vec<&str> = offer.flags.split(' ').filter(|flag| !flag.is_empty()).collect();
    for (suspicion, word) in [(Suspicion::ZoneUnverified, "zone_unverified"), (Suspicion::LocalZone, "local_zone")] {
        if offer.suspicions.contains(&suspicion) && !flags.contains(&word) {
            flags.push(word);
        }
    }
    [
        hardware.instance(offer.instance).name.clone(),
        offer.place.region.to_string(),
        offer.place.zone_id.as_deref().unwrap_or_default().to_owned(),
        purchase.to_owned(),
        term,
        offer.quote.rate.to_string(),
        kind.to_owned(),
        offer.quote.observed_at.to_string(),
        source_id(offer, taken_at),
        flags.join(" "),
    ]
}

/// Rows of the snapshot keep their source; those of an answer name it with the day of the refresh.
pub fn source_id(offer: &Offer, taken_at: Timestamp) -> String {
    if offer.quote.origin.is_of_the_snapshot() {
        offer.source.to_string()
    } else {
        format!("{}@{}", offer.source, taken_at.strftime("%Y-%m-%d"))
    }
}

/// Entries for the sources that a manifest does not have yet: `(id, title, address, rows, sha256)`.
pub fn manifest_entries(sources: &BTreeMap<String, (String, usize, String)>, taken_at: Timestamp) -> String {
    let mut text = String::new();
    for (id, (address, rows, sha256)) in sources {
        text.push_str(&format!(
            "\n[[source]]\nid = \"{id}\"\ntitle = \"Answer of {}\"\nurl = \"{address}\"\nobserved_at = \"{taken_at}\"\nfetched_at = \"{taken_at}\"\n\
             sha256 = \"{sha256}\"\nparser_version = \"{PARSER}\"\nlicence = \"prices as their seller publishes them\"\nrows = {rows}\n",
            id.split('@').next().unwrap_or(id)
        ));
    }
    text
}

/// Why two price files cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    #[error(transparent)]
    Csv(#[from] csv::Error),
    #[error("row {row}: {error}")]
    Rate { row: usize, error: MoneyError },
}

/// Rows of two versions of a price file, compared by machine, place and terms.
pub fn changes(before: &str, after: &str) -> Result<Changes, ChangesError> {
    let (before, after) = (keyed(before)?, keyed(after)?);
    let mut found =
        Changes { gone: before.keys().filter(|key| !after.contains_key(*key)).count(), ..Changes::default() };
    for (key, rate) in &after {
        match before.get(key) {
            None => found.added += 1,
            Some(old) if rate > old => found.dearer += 1,
            Some(old) if rate < old => found.cheaper += 1,
            Some(_) => found.same += 1,
        }
    }
    Ok(found)
}

fn keyed(text: &str) -> Result<BTreeMap<String, UsdPerHour>, ChangesError> {
    let mut rows = BTreeMap::new();
    for (index, record) in csv::Reader::from_reader(text.as_bytes()).records().enumerate() {
        let record = record?;
        let key = record.iter().take(5).collect::<Vec<_>>().join("|");
        let rate = UsdPerHour::parse(record.get(5).unwrap_or(""))
            .map_err(|error| ChangesError::Rate { row: index + 1, error })?;
        rows.insert(key, rate);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_market::Market;

    #[test]
    fn what_is_written_says_what_was_read_and_a_change_is_seen() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        let cloud = CloudId::new("aws");
        let at = "2026-11-20T00:00:00Z".parse().unwrap();
        let text = prices(&cloud, market.offers(), &hardware, at).unwrap();
        let original = include_str!("../../../catalogs/prices/aws.csv");
        let unchanged = changes(original, &text).unwrap();
        assert_eq!((unchanged.added, unchanged.gone, unchanged.dearer, unchanged.cheaper), (0, 0, 0, 0));
        let dearer = text.replacen(",list,", "0,list,", 1);
        let removed = text.lines().take(10).collect::<Vec<_>>().join("\n");
        assert!(changes(&text, &dearer).unwrap().dearer <= 1);
        assert_eq!(changes(&text, &removed).unwrap().same, 9);
        assert!(changes(&text, &removed).unwrap().gone > 100);
    }
}
