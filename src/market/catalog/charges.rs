//! `Charges`: what is billed beside machines: disks, object storage and its requests, traffic out of the cloud.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use gpuplan_embedded::Table;
use gpuplan_hardware::CloudId;
use gpuplan_units::Usd;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChargeKind {
    NetworkDisk,
    ObjectStorage,
    /// Of object storage, requests that write: each part of an upload is one.
    StoreRequests,
    EgressInternet,
}

/// A rate with its unit and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Charge {
    pub kind: ChargeKind,
    pub cloud: CloudId,
    /// `*`: every region of the cloud, a marked assumption.
    pub region: Arc<str>,
    pub rate: Usd,
    /// `gib-month`, `gb-month`, `gib`, `gb` or `request`.
    pub unit: Arc<str>,
    pub observed_at: Timestamp,
    pub source: Arc<str>,
    pub is_unverified: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Charges {
    rows: Vec<Charge>,
    /// Of each kind and cloud the row of each region; the first where there are several.
    places: HashMap<(ChargeKind, CloudId), HashMap<Arc<str>, usize>>,
}

impl Charges {
    pub fn read(&mut self, cloud: &CloudId, table: &Table) -> Result<(), (usize, String)> {
        let column = |name: &str| -> Result<Vec<&str>, (usize, String)> {
            table.column(name).map(Iterator::collect).map_err(|error| (0, error.to_string()))
        };
        let (regions, charges, rates, units) =
            (column("region")?, column("charge")?, column("rate_usd")?, column("unit")?);
        let (dates, sources, flags) = (column("observed_at")?, column("source")?, column("flags")?);
        for row in 0..table.rows() {
            let broken = |detail: String| (row + 1, detail);
            let kind = match charges[row] {
                "network-disk" => ChargeKind::NetworkDisk,
                "object-storage" => ChargeKind::ObjectStorage,
                "store-requests" => ChargeKind::StoreRequests,
                "egress-internet" => ChargeKind::EgressInternet,
                other => return Err(broken(format!("`{other}` is not a known charge"))),
            };
            let region: Arc<str> = regions[row].into();
            let places = self.places.entry((kind, cloud.clone())).or_default();
            places.entry(region.clone()).or_insert(self.rows.len());
            self.rows.push(Charge {
                kind,
                cloud: cloud.clone(),
                region,
                rate: Usd::parse(rates[row]).map_err(|error| broken(error.to_string()))?,
                unit: units[row].into(),
                observed_at: dates[row].parse().map_err(|error| broken(format!("{error}")))?,
                source: sources[row].into(),
                is_unverified: flags[row].contains("unverified"),
            });
        }
        Ok(())
    }

    pub fn rows(&self) -> &[Charge] {
        &self.rows
    }

    /// The region's own rate, else the cloud's assumed one; `None`: not priced.
    pub fn find(&self, kind: ChargeKind, cloud: &CloudId, region: &str) -> Option<&Charge> {
        let places = self.places.get(&(kind, cloud.clone()))?;
        places.get(region).or_else(|| places.get("*")).map(|row| &self.rows[*row])
    }
}

impl Charge {
    /// As bills write it.
    pub fn unit_word(&self) -> &'static str {
        if self.kind == ChargeKind::StoreRequests {
            return "requests";
        }
        match (self.unit.starts_with("gib"), self.unit.ends_with("month")) {
            (true, true) => "GiB-month",
            (false, true) => "GB-month",
            (true, false) => "GiB",
            (false, false) => "GB",
        }
    }

    /// Bytes in a billed unit, where bytes are billed.
    pub fn unit_bytes(&self) -> f64 {
        if self.unit.starts_with("gib") { f64::from(1 << 30) } else { 1e9 }
    }
}
