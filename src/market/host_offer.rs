//! `HostOffer`: a machine without GPU in a place on terms at a quote, as `catalogs/host-prices/<cloud>.csv` has it.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::catalog::rows::{stated, timestamp};
use crate::error::MarketError;
use crate::offer::{Location, Purchase, Suspicion};
use crate::quote::{LIST_FRESH, Origin, Quote, SPOT_FRESH};
use gpuplan_embedded::Table;
use gpuplan_hardware::{CloudId, Hardware, HostId};
use gpuplan_units::UsdPerHour;

#[derive(Clone, Debug, PartialEq)]
pub struct HostOffer {
    pub host: HostId,
    pub place: Location,
    pub purchase: Purchase,
    pub quote: Quote,
    /// Id of the source in the manifest.
    pub source: Arc<str>,
    pub suspicions: Vec<Suspicion>,
}

/// A rounding of the fourth digit is no contradiction.
const ROUNDING: f64 = 1.0005;

impl HostOffer {
    /// Too old to rent a machine on.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        self.quote.age(now) > if self.purchase == Purchase::Spot { SPOT_FRESH } else { LIST_FRESH }
    }
}

/// Reads one price file. Its columns are those of the machines with GPUs.
pub fn read(cloud: &CloudId, file: &str, table: &Table, hardware: &Hardware) -> Result<Vec<HostOffer>, MarketError> {
    let broken = |(row, detail): (usize, String)| MarketError::Row { file: file.to_owned(), row: row + 1, detail };
    let find = |name: &str| {
        hardware.find_host(cloud, name).ok_or_else(|| format!("`{name}` is not in catalogs/hosts/{cloud}.csv"))
    };
    let hosts = table.parsed("instance_type", find)?.map_err(broken)?;
    let (regions, zones) = (table.shared("region")?, table.shared("zone_id")?);
    let rates = table
        .parsed("rate_usd_per_hour", |text| UsdPerHour::parse(text).map_err(|error| error.to_string()))?
        .map_err(broken)?;
    let dates = table.parsed("observed_at", timestamp)?.map_err(broken)?;
    let (sources, flags) = (table.shared("source")?, table.shared("flags")?);
    let (purchases, terms): (Vec<&str>, Vec<&str>) =
        (table.column("purchase")?.collect(), table.column("term")?.collect());
    let kinds: Vec<&str> = table.column("price_kind")?.collect();
    let mut offers = Vec::with_capacity(table.rows());
    for row in 0..table.rows() {
        if rates[row] == UsdPerHour::default() {
            return Err(broken((row, "a price of zero is not a price; leave the row out".to_owned())));
        }
        let origin = if kinds[row] == "estimate" { Origin::Estimate } else { Origin::Snapshot };
        offers.push(HostOffer {
            host: hosts[row],
            place: Location {
                region: regions[row].clone(),
                zone_id: Some(zones[row].clone()).filter(|zone| !zone.is_empty()),
            },
            purchase: Purchase::parse(purchases[row], terms[row]).map_err(|detail| broken((row, detail)))?,
            quote: Quote { rate: rates[row], origin, observed_at: dates[row] },
            source: sources[row].clone(),
            suspicions: stated(&flags[row], kinds[row], &regions[row]),
        });
    }
    mark(&mut offers);
    Ok(offers)
}

/// Spot above on-demand in the same region is a mistake of one of the two.
fn mark(offers: &mut [HostOffer]) {
    let firm = offers.iter().filter(|offer| offer.purchase == Purchase::OnDemand);
    let firm: HashMap<(HostId, Arc<str>), f64> =
        firm.map(|offer| ((offer.host, offer.place.region.clone()), offer.quote.rate.dollars())).collect();
    for offer in offers.iter_mut().filter(|offer| offer.purchase == Purchase::Spot) {
        let list = firm.get(&(offer.host, offer.place.region.clone()));
        if list.is_some_and(|list| offer.quote.rate.dollars() > list * ROUNDING) {
            offer.suspicions.push(Suspicion::SpotAboveOnDemand);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Market;

    #[test]
    fn embedded_prices_are_sourced_and_plausible() {
        let hardware = Hardware::embedded().unwrap();
        let market = Market::embedded(&hardware).unwrap();
        assert!(market.host_offers().len() >= 500);
        for offer in market.host_offers() {
            let host = hardware.host(offer.host);
            assert!(market.source(&offer.source).is_some(), "{}", offer.source);
            // From a vCPU of old spot machines to one with a core of its own.
            let a_vcpu = offer.quote.rate.dollars() / f64::from(host.vcpus);
            assert!((0.002..0.1).contains(&a_vcpu), "{} {:?} {a_vcpu}", host.name, offer.place);
        }
    }

    #[test]
    fn spot_above_on_demand_is_doubted() {
        let hardware = Hardware::embedded().unwrap();
        let head = "instance_type,region,zone_id,purchase,term,rate_usd_per_hour,price_kind,observed_at,source,flags\n";
        let row = |terms: &str, rate: &str| {
            format!("t2d-standard-60,us-central1,,{terms},,{rate},list,2026-07-30T06:13:17Z,s,\n")
        };
        let read = |spot: &str| {
            let text = format!("{head}{}{}", row("on-demand", "2"), row("spot", spot));
            read(&CloudId::new("gcp"), "host-prices/gcp", &Table::from_csv(&text).unwrap(), &hardware)
        };
        assert!(read("1").unwrap()[1].suspicions.is_empty());
        assert_eq!(read("3").unwrap()[1].suspicions, [Suspicion::SpotAboveOnDemand]);
        assert!(read("0").unwrap_err().to_string().contains("row 2"));
    }
}
