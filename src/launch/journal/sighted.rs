//! What all runs saw of spot pools: written as it happens, and summed up for a plan.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::params;

use crate::journal::{Journal, JournalError, json, pool, time};
use crate::ports::machine::Pool;
use gpuplan_market::own::{OwnPool, Seen};
use gpuplan_spot::history::{HALF_LIFE_HOURS, Saw, Sighting, seen};

/// What is older counts for less than a thousandth and is left out. Hours.
const OLDEST: f64 = 10.0 * HALF_LIFE_HOURS;

impl Journal {
    /// What a run has just seen of its pools.
    pub fn saw(&mut self, run: &str, nodes: u32, at: Timestamp, sightings: &[(Pool, Saw)]) -> Result<(), JournalError> {
        for (pool, saw) in sightings {
            self.write(
                "INSERT INTO sightings (run, pool, nodes, at, saw) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![run, json(pool)?, nodes, at.as_second(), word(*saw)],
            )?;
        }
        Ok(())
    }

    /// What all runs saw of every pool, as it counts now.
    pub fn own_pools(&self, now: Timestamp) -> Result<Vec<OwnPool>, JournalError> {
        let mut rows = self.database.prepare("SELECT run, pool, nodes, at, saw FROM sightings ORDER BY rowid")?;
        let mut rows = rows.query([])?;
        let mut by_run: BTreeMap<(String, u32, String), Vec<Sighting>> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let hours_ago = now.duration_since(time(row.get(3)?)?).as_secs_f64() / 3600.0;
            let saw = saw(&row.get::<_, String>(4)?)?;
            if (0.0..OLDEST).contains(&hours_ago) {
                let key = (row.get(1)?, row.get(2)?, row.get(0)?);
                by_run.entry(key).or_default().push(Sighting { hours_ago, saw });
            }
        }
        let mut by_pool: BTreeMap<(String, u32), Seen> = BTreeMap::new();
        for ((pool, nodes, _), sightings) in by_run {
            let seen = seen(&sightings);
            by_pool.entry((pool, nodes)).and_modify(|sum| *sum = sum.and(seen)).or_insert(seen);
        }
        by_pool
            .into_iter()
            .map(|((text, machines), seen)| {
                let Pool { cloud, region, zone_id, instance_type, .. } = pool(&text)?;
                Ok(OwnPool { cloud, instance_type, region, zone_id, machines, seen })
            })
            .collect()
    }
}

fn word(saw: Saw) -> &'static str {
    match saw {
        Saw::Gave => "gave",
        Saw::Refused => "refused",
        Saw::Lost => "lost",
        Saw::Left => "left",
    }
}

fn saw(word: &str) -> Result<Saw, JournalError> {
    match word {
        "gave" => Ok(Saw::Gave),
        "refused" => Ok(Saw::Refused),
        "lost" => Ok(Saw::Lost),
        "left" => Ok(Saw::Left),
        other => Err(JournalError::Row(format!("no sighting: `{other}`"))),
    }
}
