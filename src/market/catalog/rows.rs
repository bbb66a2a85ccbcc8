//! Rows of the market catalog, prices and risks of machines with GPUs, read as offers and evidence.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::error::MarketError;
use crate::offer::{ANYWHERE, Availability, Location, Offer, Purchase, RiskEvidence, Suspicion};
use crate::quote::{Origin, Quote};
use gpuplan_embedded::{EmbeddedError, Table};
use gpuplan_hardware::{CloudId, Hardware, InstanceId};
use gpuplan_units::UsdPerHour;

/// What is known of the risk of a machine in a region.
pub(crate) type Risks = HashMap<(InstanceId, Arc<str>), Arc<RiskEvidence>>;

/// Reads one file of interruptions.
pub(crate) fn read_risks(
    cloud: &str,
    file: &str,
    table: &Table,
    hardware: &Hardware,
    risks: &mut Risks,
) -> Result<(), MarketError> {
    let cloud = CloudId::new(cloud);
    let broken = |(row, detail): (usize, String)| MarketError::Row { file: file.to_owned(), row: row + 1, detail };
    let instances = instances(&cloud, table, hardware)?.map_err(broken)?;
    let regions = table.shared("region")?;
    let bands = table.parsed("band", |text| {
        let (low, high) = text.split_once('-').ok_or_else(|| format!("band `{text}`"))?;
        Ok::<_, String>((low.parse::<u8>().map_err(|e| e.to_string())?, high.parse::<u8>().map_err(|e| e.to_string())?))
    })?;
    let (bands, dates) = (bands.map_err(broken)?, table.parsed("observed_at", timestamp)?.map_err(broken)?);
    let sources = table.shared("source")?;
    for (row, region) in regions.into_iter().enumerate() {
        let (low, high) = bands[row];
        let evidence = RiskEvidence {
            monthly_percent_low: low,
            monthly_percent_high: high,
            observed_at: dates[row],
            source: sources[row].clone(),
        };
        risks.insert((instances[row], region), Arc::new(evidence));
    }
    Ok(())
}

/// Reads one price file. Public so that a user's own file, and a test's, goes the same way as the embedded ones.
pub fn read_prices(
    cloud: &CloudId,
    file: &str,
    table: &Table,
    hardware: &Hardware,
    risks: &Risks,
    offers: &mut Vec<Offer>,
) -> Result<(), MarketError> {
    let broken = |(row, detail): (usize, String)| MarketError::Row { file: file.to_owned(), row: row + 1, detail };
    let instances = instances(cloud, table, hardware)?.map_err(broken)?;
    let regions = table.shared("region")?;
    let zones = table.shared("zone_id")?;
    let rates = table
        .parsed("rate_usd_per_hour", |text| UsdPerHour::parse(text).map_err(|error| error.to_string()))?
        .map_err(broken)?;
    let dates = table.parsed("observed_at", timestamp)?.map_err(broken)?;
    let sources = table.shared("source")?;
    let flags = table.shared("flags")?;
    let (purchases, terms): (Vec<&str>, Vec<&str>) =
        (table.column("purchase")?.collect(), table.column("term")?.collect());
    let kinds: Vec<&str> = table.column("price_kind")?.collect();
    for row in 0..table.rows() {
        let purchase = Purchase::parse(purchases[row], terms[row]).map_err(|detail| broken((row, detail)))?;
        if rates[row] == UsdPerHour::default() {
            return Err(broken((row, "a price of zero is not a price; leave the row out".to_owned())));
        }
        let risk =
            if purchase == Purchase::Spot { risks.get(&(instances[row], regions[row].clone())).cloned() } else { None };
        let origin = if kinds[row] == "estimate" { Origin::Estimate } else { Origin::Snapshot };
        offers.push(Offer {
            instance: instances[row],
            place: Location {
                region: regions[row].clone(),
                zone_id: Some(zones[row].clone()).filter(|zone| !zone.is_empty()),
            },
            purchase,
            quote: Quote { rate: rates[row], origin, observed_at: dates[row] },
            source: sources[row].clone(),
            suspicions: stated(&flags[row], kinds[row], &regions[row]),
            flags: flags[row].clone(),
            risk,
            availability: Availability::Unknown,
            signals: Vec::new(),
            booking: None,
            owned: None,
        });
    }
    Ok(())
}

/// Suspicions that the catalog itself states; the rest come from the rules.
pub(crate) fn stated(flags: &str, price_kind: &str, region: &str) -> Vec<Suspicion> {
    let mut found = Vec::new();
    if region == ANYWHERE {
        found.push(Suspicion::PlaceUnknown);
    }
    for (word, suspicion) in [
        ("zone_unverified", Suspicion::ZoneUnverified),
        ("local_zone", Suspicion::LocalZone),
        ("bid_floor", Suspicion::BidFloor),
    ] {
        if flags.contains(word) {
            found.push(suspicion);
        }
    }
    if price_kind == "bid-floor" && !found.contains(&Suspicion::BidFloor) {
        found.push(Suspicion::BidFloor);
    }
    if price_kind == "estimate" {
        found.push(Suspicion::Estimated);
    }
    found
}

type Column<T> = Result<Vec<T>, (usize, String)>;

fn instances(cloud: &CloudId, table: &Table, hardware: &Hardware) -> Result<Column<InstanceId>, EmbeddedError> {
    table.parsed("instance_type", |name| {
        hardware.find_instance(cloud, name).ok_or_else(|| format!("`{name}` is not in catalogs/instances/{cloud}.csv"))
    })
}

pub(crate) fn timestamp(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}
