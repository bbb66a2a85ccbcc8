//! `Survey`: the parts of a delivery while they are told apart, in a table on disk: an export may have one for each of its lines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::bill::parts::{Identity, Part, Period};
use gpuplan_units::FineUsd;

/// Parts in memory at a time: more than a month has hours.
const AT_ONCE: usize = 4096;

const TABLE: &str = "
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE parts (period INTEGER NOT NULL, name TEXT NOT NULL, content INTEGER NOT NULL, billed BLOB NOT NULL,
        counts INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (period, name)) STRICT, WITHOUT ROWID;
";

/// It takes as much memory whatever the number of parts.
#[derive(Debug)]
pub struct Survey {
    table: Connection,
    /// With their numbers in the table.
    periods: BTreeMap<Period, i64>,
    /// Not in the table yet.
    recent: BTreeMap<(i64, String), Found>,
    /// Whether parts count already, of those that were asked for last.
    answers: BTreeMap<(i64, String), bool>,
    /// The first thing that went wrong with the table; what was found since is worth nothing.
    failure: Option<rusqlite::Error>,
}

/// The lines of a part so far: their hashes and amounts, added up.
type Found = (u64, FineUsd);

impl Survey {
    /// The table is a file without a name, which is gone with the process (sqlite.org/inmemorydb.html, "Temporary Databases").
    pub fn new() -> rusqlite::Result<Self> {
        let table = Connection::open("")?;
        table.execute_batch(TABLE)?;
        Ok(Self { table, periods: BTreeMap::new(), recent: BTreeMap::new(), answers: BTreeMap::new(), failure: None })
    }

    /// One more line. `None` where a sum is beyond counting.
    pub fn add(&mut self, identity: &Identity, of: Period, start: Timestamp, billed: FineUsd) -> Option<()> {
        let next = i64::try_from(self.periods.len()).ok()?;
        let period = *self.periods.entry(of).or_insert(next);
        let found = self.recent.entry((period, identity.part(start))).or_default();
        *found = both(*found, (identity.content, billed))?;
        if self.recent.len() < AT_ONCE { Some(()) } else { self.write() }
    }

    /// Ends it: every part is in the table.
    pub fn end(&mut self) -> rusqlite::Result<Option<()>> {
        let done = self.write();
        self.check().map(|()| done)
    }

    /// Whether everything that was asked of the table was done.
    pub fn check(&mut self) -> rusqlite::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    pub fn periods(&self) -> Vec<Period> {
        self.periods.keys().cloned().collect()
    }

    /// Whether a part counts already, as `judge` has found.
    pub fn counts(&mut self, of: &Period, part: String) -> bool {
        let Some(period) = self.periods.get(of) else { return false };
        let asked = (*period, part);
        if let Some(known) = self.answers.get(&asked) {
            return *known;
        }
        let query = "SELECT counts FROM parts WHERE period = ?1 AND name = ?2";
        let answer = self.table.query_row(query, params![asked.0, asked.1], |row| row.get(0)).optional();
        let answer = answer.unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            None
        });
        if self.answers.len() >= AT_ONCE {
            self.answers.clear();
        }
        *self.answers.entry(asked).or_insert(answer.unwrap_or(false))
    }

    /// Notes of each part of a period whether it counts already.
    pub fn judge<E: From<rusqlite::Error>>(
        &self,
        of: &Period,
        mut counts: impl FnMut(&str, Part) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut note = self.table.prepare("UPDATE parts SET counts = ?3 WHERE period = ?1 AND name = ?2")?;
        self.each(of, |name, part, _| {
            note.execute(params![self.periods.get(of), name, counts(name, part)?])?;
            Ok(())
        })
    }

    /// The parts of a period that do not count yet.
    pub fn each_new<E: From<rusqlite::Error>>(
        &self,
        of: &Period,
        mut take: impl FnMut(&str, Part) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(of, |name, part, counts| if counts { Ok(()) } else { take(name, part) })
    }

    /// The parts of a period by their names, some at a time, since the table may change in between.
    fn each<E: From<rusqlite::Error>>(
        &self,
        of: &Period,
        mut take: impl FnMut(&str, Part, bool) -> Result<(), E>,
    ) -> Result<(), E> {
        let query =
            "SELECT name, content, billed, counts FROM parts WHERE period = ?1 AND name > ?2 ORDER BY name LIMIT ?3";
        let mut next = self.table.prepare(query)?;
        let mut last = String::new();
        loop {
            let row = |row: &Row| {
                let (content, billed) = found(row, 1)?;
                Ok((row.get::<_, String>(0)?, Part { content, billed_usd: billed.rounded() }, row.get(3)?))
            };
            let some = next.query_map(params![self.periods.get(of), last, AT_ONCE as i64], row)?;
            let some = some.collect::<rusqlite::Result<Vec<(String, Part, bool)>>>()?;
            let Some((name, ..)) = some.last() else { return Ok(()) };
            last.clone_from(name);
            for (name, part, counts) in &some {
                take(name, *part, *counts)?;
            }
        }
    }

    /// `None` where a sum is beyond counting.
    fn write(&mut self) -> Option<()> {
        let recent = std::mem::take(&mut self.recent);
        write(&mut self.table, recent).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            Some(())
        })
    }
}

fn write(table: &mut Connection, parts: BTreeMap<(i64, String), Found>) -> rusqlite::Result<Option<()>> {
    let writing = table.transaction()?;
    let mut kept = writing.prepare("SELECT content, billed FROM parts WHERE period = ?1 AND name = ?2")?;
    let put = "INSERT OR REPLACE INTO parts (period, name, content, billed) VALUES (?1, ?2, ?3, ?4)";
    let mut put = writing.prepare(put)?;
    for ((period, name), more) in parts {
        let before = kept.query_row(params![period, name], |row| found(row, 0)).optional()?;
        let Some((content, billed)) = before.map_or(Some(more), |before| both(before, more)) else { return Ok(None) };
        put.execute(params![period, name, content.cast_signed(), billed.to_bytes()])?;
    }
    drop((kept, put));
    writing.commit().map(Some)
}

fn both(one: Found, other: Found) -> Option<Found> {
    Some((one.0.wrapping_add(other.0), one.1.checked_add(other.1)?))
}

/// Content and amount, from this column on.
fn found(row: &Row, column: usize) -> rusqlite::Result<Found> {
    Ok((row.get::<_, i64>(column)?.cast_unsigned(), FineUsd::from_bytes(row.get(column + 1)?)))
}

/// What is done with the lines of a delivery.
#[derive(Debug, Default)]
pub enum Pass {
    /// All are added up, and nothing is asked of their parts.
    #[default]
    Whole,
    /// None is added up; their parts are told apart.
    Survey(Survey),
    /// Those of parts that count already are left out.
    Rest(Survey),
}

impl Pass {
    /// Whether a line is added up. `None` where a sum is beyond counting.
    pub fn takes(&mut self, identity: &Identity, of: Period, start: Timestamp, billed: FineUsd) -> Option<bool> {
        match self {
            Self::Whole => Some(true),
            Self::Survey(survey) => survey.add(identity, of, start, billed).map(|()| false),
            Self::Rest(survey) => Some(!survey.counts(&of, identity.part(start))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(lines: &[(&str, &str, &str)]) -> (Survey, Vec<(String, Part)>) {
        let mut survey = Survey::new().unwrap();
        for (period, name, billed) in lines {
            let identity = Identity::new(Some(name), "gpuplanrun", [*name, *billed].into_iter());
            survey.add(&identity, of(period), Timestamp::UNIX_EPOCH, FineUsd::parse(billed).unwrap()).unwrap();
        }
        survey.end().unwrap().unwrap();
        let mut parts = Vec::new();
        survey
            .each_new::<rusqlite::Error>(&of("2026-10"), |name, part| {
                parts.push((name.to_owned(), part));
                Ok(())
            })
            .unwrap();
        (survey, parts)
    }

    fn of(month: &str) -> Period {
        ("oci".to_owned(), "1".to_owned(), month.to_owned())
    }

    #[test]
    fn more_parts_than_memory_holds_are_each_added_up_to_the_last_digit() {
        let names: Vec<String> = (0..3 * AT_ONCE).map(|name| format!("R{name:06}")).collect();
        // A third of a nano-dollar, three times: rounded once it is one, and each by itself none.
        let third = "0.000000000333333333333334";
        let lines: Vec<_> = (0..3).flat_map(|_| names.iter().map(|name| ("2026-10", name.as_str(), third))).collect();
        let (mut survey, parts) = surveyed(&lines);
        assert_eq!(parts.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
        assert!(parts.iter().all(|(_, part)| part.billed_usd.nanos() == 1), "{:?}", parts[0]);
        // The order of lines, and where memory was full, say nothing.
        let backwards: Vec<_> = lines.iter().rev().copied().collect();
        assert_eq!(surveyed(&backwards).1, parts);
        let is_even = |name: &str| name.ends_with(['0', '2', '4', '6', '8']);
        survey.judge::<rusqlite::Error>(&of("2026-10"), |name, _| Ok(is_even(name))).unwrap();
        for name in &names {
            assert_eq!(survey.counts(&of("2026-10"), name.clone()), is_even(name), "{name}");
        }
        assert!(!survey.counts(&of("2026-11"), names[0].clone()) && !survey.counts(&of("2026-10"), "R".to_owned()));
        let mut left = 0;
        survey
            .each_new::<rusqlite::Error>(&of("2026-10"), |name, _| {
                left += usize::from(!is_even(name));
                Ok(())
            })
            .unwrap();
        assert_eq!(left, names.len() / 2);
        survey.check().unwrap();
    }

    #[test]
    fn a_sum_beyond_counting_is_said() {
        let mut survey = Survey::new().unwrap();
        let most = FineUsd::from_bytes((i128::MAX / 2 + 1).to_be_bytes());
        let mut add = |at: usize| {
            let name = format!("R{at}");
            survey.add(&Identity::new(Some(&name), "", [].into_iter()), of("2026-10"), Timestamp::UNIX_EPOCH, most)
        };
        assert!((0..AT_ONCE).all(|at| add(at).is_some()));
        assert!((0..AT_ONCE).any(|at| add(at).is_none()), "each of them twice");
    }
}
