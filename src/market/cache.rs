//! `Cache`: what the clouds answered in earlier runs, in SQLite, each answer with its own time. The one place that names SQLite.

pub(crate) mod rows;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::answer::{PoolSignal, PriceAnswer, PricePoint, RiskAnswer};
use crate::cache::rows::RowsError;
use crate::machines::MachineList;
use crate::offer::{Location, Offer, Purchase, RiskEvidence};
use gpuplan_hardware::{CloudId, Hardware, InstanceId};
use gpuplan_units::UsdPerHour;

/// Version of the tables. A file of another version is emptied: it holds nothing that cannot be asked again.
const VERSION: i64 = 2;
/// How long another process may hold the file.
const BUSY: std::time::Duration = std::time::Duration::from_secs(5);

/// An answer is kept whole by source and region, so that a region that did not answer keeps its earlier one with its own time.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS sources (source TEXT PRIMARY KEY, cloud TEXT NOT NULL, answered_at INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS offers (source TEXT, region TEXT, cloud TEXT NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (source, region));
    CREATE TABLE IF NOT EXISTS risks (source TEXT, region TEXT, cloud TEXT NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (source, region));
    CREATE TABLE IF NOT EXISTS history (
        cloud TEXT, instance TEXT, region TEXT, zone TEXT, purchase TEXT, since INTEGER, nanos INTEGER NOT NULL,
        PRIMARY KEY (cloud, instance, region, zone, purchase, since)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS machines (cloud TEXT PRIMARY KEY, listed_at INTEGER NOT NULL, list TEXT NOT NULL) WITHOUT ROWID;
";

/// Why the cache cannot be used. Nothing is lost with it but time.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("the price cache: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("the price cache: {0}")]
    Rows(#[from] RowsError),
    #[error("the price cache is damaged: {0}")]
    Damaged(String),
    #[error("the folder of the price cache: {0}")]
    Folder(#[from] std::io::Error),
}

/// When a source last answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceAnswer {
    pub source: String,
    pub cloud: CloudId,
    pub answered_at: Timestamp,
}

/// Pools with a risk or a signal, each with its time.
#[derive(Clone, Debug, Default)]
pub struct CachedRisks {
    pub risks: Vec<(InstanceId, Location, Arc<RiskEvidence>)>,
    pub signals: Vec<PoolSignal>,
}

pub struct Cache {
    database: Connection,
}

impl Cache {
    /// Opens the file, or makes it with its folder.
    pub fn open(path: &Path) -> Result<Self, CacheError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Self::with(Connection::open(path)?)
    }

    /// Opens the file if it is there.
    pub fn open_existing(path: &Path) -> Result<Option<Self>, CacheError> {
        if path.exists() { Self::open(path).map(Some) } else { Ok(None) }
    }

    /// A cache that ends with the program.
    pub fn in_memory() -> Result<Self, CacheError> {
        Self::with(Connection::open_in_memory()?)
    }

    fn with(database: Connection) -> Result<Self, CacheError> {
        database.busy_timeout(BUSY)?;
        // Readers do not wait for the writer. A file that cannot have it (a network disk) works without.
        let _ = database.pragma_update(None, "journal_mode", "WAL");
        let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != VERSION {
            database.execute_batch(
                "DROP TABLE IF EXISTS sources; DROP TABLE IF EXISTS offers; DROP TABLE IF EXISTS risks; DROP TABLE IF EXISTS history; DROP TABLE IF EXISTS machines;",
            )?;
            database.pragma_update(None, "user_version", VERSION)?;
        }
        database.execute_batch(TABLES)?;
        Ok(Self { database })
    }

    /// Keeps what a source answered. Regions of the answer replace their earlier ones; other regions stay as they were.
    pub fn store(
        &mut self,
        source: &str,
        cloud: &CloudId,
        answer: &PriceAnswer,
        hardware: &Hardware,
        now: Timestamp,
    ) -> Result<(), CacheError> {
        let mut regions: HashMap<&str, Vec<&Offer>> = HashMap::new();
        for offer in &answer.offers {
            regions.entry(&offer.place.region).or_default().push(offer);
        }
        let mut regions: Vec<_> = regions.into_iter().collect();
        regions.sort_unstable_by_key(|(region, _)| *region);
        let change = self.database.transaction()?;
        for (region, offers) in regions {
            let rows = rows::pack_offers(&offers, hardware)?;
            change.execute(
                "INSERT OR REPLACE INTO offers VALUES (?1, ?2, ?3, ?4)",
                params![source, region, cloud.as_str(), rows],
            )?;
        }
        keep_history(&change, &answer.history, &answer.offers, hardware)?;
        let answered_at = answer.offers.iter().map(|offer| offer.quote.observed_at).max().unwrap_or(now);
        change.execute(
            "INSERT OR REPLACE INTO sources VALUES (?1, ?2, ?3)",
            params![source, cloud.as_str(), answered_at.as_second()],
        )?;
        change.commit()?;
        Ok(())
    }

    /// Keeps what prices were, for their history, as another publishes them.
    pub fn remember(&mut self, offers: &[Offer], hardware: &Hardware) -> Result<(), CacheError> {
        let change = self.database.transaction()?;
        keep_history(&change, &[], offers, hardware)?;
        change.commit()?;
        Ok(())
    }

    /// Keeps evidence, replacing what the source said before about the same regions.
    pub fn store_risks(
        &mut self,
        source: &str,
        cloud: &CloudId,
        answer: &RiskAnswer,
        hardware: &Hardware,
        now: Timestamp,
    ) -> Result<(), CacheError> {
        let change = self.database.transaction()?;
        for (region, rows) in rows::pack_risks(answer, hardware, now)? {
            change.execute(
                "INSERT OR REPLACE INTO risks VALUES (?1, ?2, ?3, ?4)",
                params![source, region, cloud.as_str(), rows],
            )?;
        }
        change.execute(
            "INSERT OR REPLACE INTO sources VALUES (?1, ?2, ?3)",
            params![source, cloud.as_str(), now.as_second()],
        )?;
        change.commit()?;
        Ok(())
    }

    /// Keeps which machines a cloud has where; regions that did not answer this time stay as they were.
    pub fn store_machines(&mut self, cloud: &CloudId, list: &MachineList, now: Timestamp) -> Result<(), CacheError> {
        let earlier = self.machines(cloud)?.map(|(_, list)| list).unwrap_or_default();
        let list = serde_json::to_string(&list.clone().over(earlier));
        let list = list.map_err(|error| CacheError::Damaged(error.to_string()))?;
        self.database.execute(
            "INSERT OR REPLACE INTO machines VALUES (?1, ?2, ?3)",
            params![cloud.as_str(), now.as_second(), list],
        )?;
        Ok(())
    }

    /// Which machines a cloud has where, and when it last said so.
    pub fn machines(&self, cloud: &CloudId) -> Result<Option<(Timestamp, MachineList)>, CacheError> {
        let row: Option<(i64, String)> = self
            .database
            .query_row("SELECT listed_at, list FROM machines WHERE cloud = ?1", [cloud.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let read = |(listed_at, list): (i64, String)| {
            let list = serde_json::from_str(&list).map_err(|error| CacheError::Damaged(error.to_string()))?;
            Ok((time(listed_at)?, list))
        };
        row.map(read).transpose()
    }

    /// Every cached offer whose machine type the catalog still knows, with `Origin::Cached` and its own time.
    pub fn offers(&self, hardware: &Hardware) -> Result<Vec<Offer>, CacheError> {
        let mut offers = Vec::new();
        let mut query =
            self.database.prepare("SELECT source, region, cloud, rows FROM offers ORDER BY source, region")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (source, region, cloud) = (
                row.get_ref(0)?.as_str_checked()?,
                row.get_ref(1)?.as_str_checked()?,
                row.get_ref(2)?.as_str_checked()?,
            );
            rows::unpack_offers(
                row.get_ref(3)?.as_blob_checked()?,
                source,
                region,
                &CloudId::new(cloud),
                hardware,
                &mut offers,
            )?;
        }
        Ok(offers)
    }

    pub fn risks(&self, hardware: &Hardware) -> Result<CachedRisks, CacheError> {
        let mut found = CachedRisks::default();
        let mut query =
            self.database.prepare("SELECT source, region, cloud, rows FROM risks ORDER BY source, region")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (source, region, cloud) = (
                row.get_ref(0)?.as_str_checked()?,
                row.get_ref(1)?.as_str_checked()?,
                row.get_ref(2)?.as_str_checked()?,
            );
            let blob = row.get_ref(3)?.as_blob_checked()?;
            rows::unpack_risks(
                blob,
                source,
                region,
                &CloudId::new(cloud),
                hardware,
                &mut found.risks,
                &mut found.signals,
            )?;
        }
        Ok(found)
    }

    /// Price points of one machine type since a moment, oldest first by pool.
    pub fn history(
        &self,
        instance: InstanceId,
        hardware: &Hardware,
        from: Timestamp,
    ) -> Result<Vec<PricePoint>, CacheError> {
        let machine = hardware.instance(instance);
        let mut query = self.database.prepare(
            "SELECT region, zone, purchase, since, nanos FROM history WHERE cloud = ?1 AND instance = ?2 AND since >= ?3
             ORDER BY region, zone, purchase, since",
        )?;
        let mut rows = query.query(params![machine.cloud.as_str(), machine.name, from.as_second()])?;
        let mut points = Vec::new();
        while let Some(row) = rows.next()? {
            let (region, zone, purchase): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let (word, term) = purchase.split_once(' ').unwrap_or((&purchase, ""));
            let purchase = Purchase::parse(word, term).map_err(CacheError::Damaged)?;
            let since = time(row.get(3)?)?;
            let place =
                Location { region: region.into(), zone_id: Some(zone).filter(|zone| !zone.is_empty()).map(Into::into) };
            points.push(PricePoint { instance, place, purchase, since, rate: UsdPerHour::from_nanos(row.get(4)?) });
        }
        Ok(points)
    }

    /// Every source that ever answered.
    pub fn sources(&self) -> Result<Vec<SourceAnswer>, CacheError> {
        let mut query = self.database.prepare("SELECT source, cloud, answered_at FROM sources ORDER BY source")?;
        let mut rows = query.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (source, cloud): (String, String) = (row.get(0)?, row.get(1)?);
            found.push(SourceAnswer { source, cloud: CloudId::new(&cloud), answered_at: time(row.get(2)?)? });
        }
        Ok(found)
    }

    /// When one source last answered.
    pub fn answered_at(&self, source: &str) -> Result<Option<Timestamp>, CacheError> {
        let seconds: Option<i64> = self
            .database
            .query_row("SELECT answered_at FROM sources WHERE source = ?1", [source], |row| row.get(0))
            .optional()?;
        seconds.map(time).transpose()
    }

    /// Forgets everything of a source.
    pub fn forget(&mut self, source: &str) -> Result<(), CacheError> {
        let change = self.database.transaction()?;
        for table in ["sources", "offers", "risks"] {
            change.execute(&format!("DELETE FROM {table} WHERE source = ?1"), [source])?;
        }
        change.commit()?;
        Ok(())
    }
}

fn time(seconds: i64) -> Result<Timestamp, CacheError> {
    Timestamp::from_second(seconds).map_err(|error| CacheError::Damaged(error.to_string()))
}

/// What a source tells of the past, and prices of now that differ from the last ones known. What is sold ahead is another product each day.
fn keep_history(
    change: &Connection,
    earlier: &[PricePoint],
    offers: &[Offer],
    hardware: &Hardware,
) -> Result<(), CacheError> {
    let mut insert = change.prepare("INSERT OR REPLACE INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let mut last = change.prepare(
        "SELECT nanos FROM history WHERE cloud = ?1 AND instance = ?2 AND region = ?3 AND zone = ?4 AND purchase = ?5
         ORDER BY since DESC LIMIT 1",
    )?;
    let mut keep = |point: &PricePoint, even_if_equal: bool| {
        let machine = hardware.instance(point.instance);
        let (zone, purchase) = (point.place.zone_id.as_deref().unwrap_or_default(), point.purchase.to_string());
        let pool = params![machine.cloud.as_str(), machine.name, &*point.place.region, zone, purchase];
        let held: Option<i64> = if even_if_equal { None } else { last.query_row(pool, |row| row.get(0)).optional()? };
        let nanos = point.rate.nanos();
        if held != Some(nanos) {
            let since = point.since.as_second();
            let (cloud, region) = (machine.cloud.as_str(), &*point.place.region);
            insert.execute(params![cloud, machine.name, region, zone, purchase, since, nanos])?;
        }
        Ok::<(), CacheError>(())
    };
    for point in earlier {
        keep(point, true)?;
    }
    let is_kept =
        |offer: &&Offer| matches!(offer.purchase, Purchase::Spot | Purchase::OnDemand) && offer.booking.is_none();
    for offer in offers.iter().filter(is_kept) {
        keep(&PricePoint::of(offer), false)?;
    }
    Ok(())
}

/// Borrowed cells, where another type in the file is an error of the database.
trait Cell<'a> {
    fn as_str_checked(&self) -> rusqlite::Result<&'a str>;
    fn as_blob_checked(&self) -> rusqlite::Result<&'a [u8]>;
}

impl<'a> Cell<'a> for rusqlite::types::ValueRef<'a> {
    fn as_str_checked(&self) -> rusqlite::Result<&'a str> {
        self.as_str().map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, self.data_type(), Box::new(error)))
    }

    fn as_blob_checked(&self) -> rusqlite::Result<&'a [u8]> {
        self.as_blob().map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, self.data_type(), Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::{Availability, Heard, Signal};
    use crate::quote::Origin;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn offer(hardware: &Hardware, region: &str, zone: &str, rate: &str, seen: &str) -> Offer {
        let instance = hardware.find_instance(&CloudId::new("aws"), "p5.48xlarge").unwrap();
        let place = Location { region: region.into(), zone_id: Some(zone.into()) };
        Offer::live(instance, place, Purchase::Spot, UsdPerHour::parse(rate).unwrap(), "aws-spot-history", at(seen))
    }

    #[test]
    fn an_answer_comes_back_as_it_was_but_for_its_origin() {
        let (hardware, cloud) = (Hardware::embedded().unwrap(), CloudId::new("aws"));
        let mut cache = Cache::in_memory().unwrap();
        let mut kept = offer(&hardware, "us-east-1", "use1-az4", "12.345678901", "2026-11-20T10:00:00Z");
        kept.availability = Availability::Listed;
        kept.signals = vec![Heard { signal: Signal::PlacementScore(3), observed_at: None }];
        kept.suspicions = vec![crate::Suspicion::LocalZone];
        kept.flags = "in_force_since=yesterday".into();
        let answer = PriceAnswer { offers: vec![kept.clone()], ..PriceAnswer::default() };
        cache.store("aws-spot-history", &cloud, &answer, &hardware, at("2026-11-20T10:00:01Z")).unwrap();
        kept.quote.origin = Origin::Cached;
        assert_eq!(cache.offers(&hardware).unwrap(), [kept]);
        assert_eq!(cache.answered_at("aws-spot-history").unwrap(), Some(at("2026-11-20T10:00:00Z")));
        cache.forget("aws-spot-history").unwrap();
        assert!(cache.offers(&hardware).unwrap().is_empty() && cache.sources().unwrap().is_empty());
    }

    #[test]
    fn a_region_that_did_not_answer_keeps_what_it_said_before() {
        let (hardware, cloud) = (Hardware::embedded().unwrap(), CloudId::new("aws"));
        let mut cache = Cache::in_memory().unwrap();
        let first =
            ["us-east-1", "us-west-2"].map(|region| offer(&hardware, region, "z", "10", "2026-11-20T10:00:00Z"));
        let second = offer(&hardware, "us-east-1", "y", "11", "2026-11-20T11:00:00Z");
        let now = at("2026-11-20T11:00:00Z");
        cache
            .store("s", &cloud, &PriceAnswer { offers: first.to_vec(), ..PriceAnswer::default() }, &hardware, now)
            .unwrap();
        cache
            .store("s", &cloud, &PriceAnswer { offers: vec![second], ..PriceAnswer::default() }, &hardware, now)
            .unwrap();
        let kept: Vec<_> = cache
            .offers(&hardware)
            .unwrap()
            .iter()
            .map(|offer| (offer.place.clone(), offer.quote.observed_at))
            .collect();
        assert_eq!(kept.len(), 2);
        assert_eq!((kept[0].0.zone_id.as_deref(), kept[0].1), (Some("y"), now));
        assert_eq!((&*kept[1].0.region, kept[1].1), ("us-west-2", at("2026-11-20T10:00:00Z")));
    }

    #[test]
    fn earlier_prices_are_kept_by_pool() {
        let (hardware, cloud) = (Hardware::embedded().unwrap(), CloudId::new("aws"));
        let mut cache = Cache::in_memory().unwrap();
        let pool = offer(&hardware, "us-east-1", "z", "10", "2026-11-20T10:00:00Z");
        let point = |since: &str, rate: &str| PricePoint {
            instance: pool.instance,
            place: pool.place.clone(),
            purchase: Purchase::Spot,
            since: at(since),
            rate: UsdPerHour::parse(rate).unwrap(),
        };
        let points = [point("2026-11-01T00:00:00Z", "9"), point("2026-11-10T00:00:00Z", "9.5")];
        for _ in 0..2 {
            let answer = PriceAnswer { history: points.to_vec(), ..PriceAnswer::default() };
            cache.store("s", &cloud, &answer, &hardware, at("2026-11-20T10:00:00Z")).unwrap();
        }
        assert_eq!(cache.history(pool.instance, &hardware, at("2026-10-01T00:00:00Z")).unwrap(), points);
        assert_eq!(cache.history(pool.instance, &hardware, at("2026-11-05T00:00:00Z")).unwrap(), points[1..]);
        for (rate, seen, known) in [("9.5", "2026-11-19T00:00:00Z", 2), ("10", "2026-11-20T00:00:00Z", 3)] {
            let answer =
                PriceAnswer { offers: vec![offer(&hardware, "us-east-1", "z", rate, seen)], ..PriceAnswer::default() };
            cache.store("s", &cloud, &answer, &hardware, at(seen)).unwrap();
            let kept = cache.history(pool.instance, &hardware, at("2026-10-01T00:00:00Z")).unwrap();
            assert_eq!(kept.len(), known, "a price that has not moved is no news");
        }
    }

    #[test]
    fn damage_is_said_and_not_left_out() {
        let (hardware, cloud) = (Hardware::embedded().unwrap(), CloudId::new("aws"));
        let instance = hardware.find_instance(&cloud, "p5.48xlarge").unwrap();
        let damaged = |sql: &str| {
            let mut cache = Cache::in_memory().unwrap();
            let answer = PriceAnswer {
                offers: vec![offer(&hardware, "us-east-1", "z", "10", "2026-11-20T10:00:00Z")],
                ..PriceAnswer::default()
            };
            cache.store("s", &cloud, &answer, &hardware, at("2026-11-20T10:00:00Z")).unwrap();
            cache.database.execute_batch(sql).unwrap();
            cache
        };
        let cache = damaged("UPDATE sources SET answered_at = 9000000000000");
        assert!(cache.sources().is_err() && cache.answered_at("s").is_err());
        for sql in ["UPDATE history SET purchase = 'gift'", "UPDATE history SET since = 9000000000000"] {
            assert!(damaged(sql).history(instance, &hardware, at("2026-10-01T00:00:00Z")).is_err(), "{sql}");
        }
    }

    #[test]
    fn a_file_of_another_version_is_emptied_and_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/market.sqlite");
        assert!(Cache::open_existing(&path).unwrap().is_none());
        drop(Cache::open(&path).unwrap());
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch("DROP TABLE offers; CREATE TABLE offers (x); PRAGMA user_version = 99").unwrap();
        drop(raw);
        let cache = Cache::open(&path).unwrap();
        assert!(cache.offers(&Hardware::embedded().unwrap()).unwrap().is_empty());
        let other = folder.path().join("no.sqlite");
        std::fs::write(&other, "no database at all, but long enough to be looked at as one").unwrap();
        assert!(Cache::open(&other).is_err());
    }
}
