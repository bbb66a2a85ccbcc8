//! `Journal`: what is about to be done is written here before a cloud is called, and what came of it after. SQLite, write-ahead.

pub mod handed;
mod sighted;

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::controller::events::{End, Order, Rentable, ResumeState, Standing};
use crate::controller::rental::{Rental, Rentals};
use crate::ports::machine::{Machine, MachineId, Pool};
use crate::spec::{RunSpec, SpecError};
use gpuplan_runstore::private;
use gpuplan_units::UsdPerHour;

const VERSION: i64 = 1;
/// How long another process may hold the file.
const BUSY: Duration = Duration::from_secs(10);

/// `step` was the billing step. Every cloud bills by the second, so 1 is written for journals that want a value.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS runs (
        run TEXT PRIMARY KEY, spec TEXT NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER, end TEXT,
        done REAL NOT NULL DEFAULT 0, interruptions INTEGER NOT NULL DEFAULT 0, leader INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE IF NOT EXISTS orders (
        token TEXT PRIMARY KEY, run TEXT NOT NULL, number INTEGER NOT NULL, epoch INTEGER NOT NULL, node INTEGER NOT NULL,
        pool TEXT NOT NULL, rate INTEGER NOT NULL, step INTEGER NOT NULL, minimum INTEGER NOT NULL,
        sent_at REAL NOT NULL, answered INTEGER NOT NULL DEFAULT 0, answer TEXT);
    CREATE TABLE IF NOT EXISTS machines (
        id TEXT NOT NULL, run TEXT NOT NULL, pool TEXT NOT NULL, epoch INTEGER NOT NULL, node INTEGER NOT NULL,
        rate INTEGER NOT NULL, step INTEGER NOT NULL, minimum INTEGER NOT NULL, since REAL NOT NULL, until REAL, PRIMARY KEY (run, id));
    CREATE TABLE IF NOT EXISTS handed (
        run TEXT PRIMARY KEY, work TEXT NOT NULL, handed_at INTEGER NOT NULL, job TEXT, end TEXT, ended_at INTEGER, relaunches INTEGER);
    CREATE TABLE IF NOT EXISTS sightings (run TEXT NOT NULL, pool TEXT NOT NULL, nodes INTEGER NOT NULL, at INTEGER NOT NULL, saw TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS identity (id TEXT PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS events (run TEXT NOT NULL, at INTEGER NOT NULL, line TEXT NOT NULL);
";

/// Why the journal cannot be used. Without it nothing is launched.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal of launches: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("the folder of the journal: {0}")]
    Folder(#[from] std::io::Error),
    #[error("the journal of launches was written by another version of this program ({0})")]
    Version(i64),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("the journal of launches: a row cannot be read: {0}")]
    Row(String),
    #[error("the journal of launches has no run `{0}`")]
    Unknown(String),
}

pub struct Journal {
    database: Connection,
}

/// Lines for people, of one moment.
#[derive(Clone, Debug)]
pub struct LogLines<'a> {
    pub at: Timestamp,
    pub lines: Vec<&'a str>,
}

/// A run as the journal knows it.
#[derive(Clone, Debug)]
pub struct RunRecord {
    pub spec: RunSpec,
    pub past: ResumeState,
    /// How it ended, where it did.
    pub end: Option<String>,
    pub ended_at: Option<Timestamp>,
    pub machines: Vec<MachineRecord>,
}

/// A run as its store and the marks on its machines tell it.
#[derive(Clone, Debug)]
pub struct Adopted {
    pub spec: RunSpec,
    /// That are there, with what each costs and since when. Seconds of the run.
    pub machines: Vec<(Machine, Rentable, f64)>,
    /// That are gone, by epoch and node.
    pub earlier: Vec<(u64, u32, Rental)>,
    /// The highest that may have been ordered.
    pub epoch: u64,
    /// Where they are.
    pub pool: Option<Pool>,
}

#[derive(Clone, Debug)]
pub struct MachineRecord {
    pub id: MachineId,
    pub pool: Pool,
    pub epoch: u64,
    pub node: u32,
    pub is_over: bool,
}

impl Journal {
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        private::database(path)?;
        let database = Connection::open(path)?;
        database.busy_timeout(BUSY)?;
        // What is forgotten, a variable of a job among it, is overwritten and not only unlinked.
        database.pragma_update(None, "secure_delete", "ON")?;
        database.pragma_update(None, "journal_mode", "WAL")?;
        // An intent has to survive a power cut.
        database.pragma_update(None, "synchronous", "FULL")?;
        let version: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != 0 && version != VERSION {
            return Err(JournalError::Version(version));
        }
        database.execute_batch(TABLES)?;
        several_runs_a_machine(&database)?;
        database.pragma_update(None, "user_version", VERSION)?;
        Ok(Self { database })
    }

    /// One write that is on the disk when it returns.
    fn write(&mut self, statement: &str, values: impl Params) -> Result<usize, JournalError> {
        Ok(self.database.execute(statement, values)?)
    }

    /// What is known of a run by now, in place of what was.
    pub fn amend(&mut self, spec: &RunSpec) -> Result<(), JournalError> {
        self.write("UPDATE runs SET spec = ?2 WHERE run = ?1", params![spec.run, spec.write()?]).map(drop)
    }

    /// A new run. False if there is one of this name already.
    pub fn begin(&mut self, spec: &RunSpec) -> Result<bool, JournalError> {
        let rows = self.write(
            "INSERT OR IGNORE INTO runs (run, spec, started_at) SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM handed WHERE run = ?1)",
            params![spec.run, spec.write()?, spec.started_at.as_second()],
        )?;
        Ok(rows == 1)
    }

    /// Before each call. False, and nothing may be asked, if somebody has ended the run. What was ordered for earlier gangs is settled:
    /// a controller orders none before.
    pub fn intend(&mut self, run: &str, number: u64, order: &Order, at: f64) -> Result<bool, JournalError> {
        let Rentable { pool, rate, minimum_seconds, .. } = &order.choice;
        self.write(
            "UPDATE orders SET answered = 1, answer = 'nothing came of it' WHERE run = ?1 AND epoch < ?2 AND answered = 0",
            params![run, order.epoch as i64],
        )?;
        let rows = self.write(
            "INSERT INTO orders (token, run, number, epoch, node, pool, rate, step, minimum, sent_at) \
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9 WHERE EXISTS (SELECT 1 FROM runs WHERE run = ?2 AND end IS NULL) \
             ON CONFLICT (token) DO UPDATE SET sent_at = excluded.sent_at",
            params![
                order.token,
                run,
                number as i64,
                order.epoch as i64,
                order.node,
                json(pool)?,
                rate.nanos(),
                minimum_seconds,
                at
            ],
        )?;
        Ok(rows > 0)
    }

    /// Orders without a clear answer: where, and with which token. Each may have created a machine.
    pub fn open_orders(&self, run: &str) -> Result<Vec<(Pool, String)>, JournalError> {
        let mut rows = self.database.prepare("SELECT pool, token FROM orders WHERE run = ?1 AND answered = 0")?;
        let found =
            rows.query_map([run], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?.collect::<Result<Vec<_>, _>>()?;
        found.into_iter().map(|(text, token)| Ok((pool(&text)?, token))).collect()
    }

    /// What came of the orders that have a clear answer, by token: the machine, or why there is none.
    pub fn answers(&self, run: &str) -> Result<Vec<(String, String)>, JournalError> {
        let mut rows = self.database.prepare("SELECT token, answer FROM orders WHERE run = ?1 AND answered = 1")?;
        let found =
            rows.query_map([run], |row| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?.unwrap_or_default())))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Nothing can come any more of what was ordered without a clear answer: lists were looked at for long enough.
    pub fn nothing_came(&mut self, run: &str) -> Result<(), JournalError> {
        let closing = "UPDATE orders SET answered = 1, answer = 'nothing came of it' WHERE run = ?1 AND answered = 0";
        self.write(closing, [run]).map(drop)
    }

    /// Of this journal, like no other's: who keeps it may follow a leader that kept it, too.
    pub fn identity(&mut self) -> Result<String, JournalError> {
        self.write(
            "INSERT INTO identity (id) SELECT lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM identity)",
            [],
        )?;
        Ok(self.database.query_row("SELECT id FROM identity", [], |row| row.get(0))?)
    }

    /// After it. An answer that is not clear leaves the order open.
    pub fn answer(&mut self, token: &str, what: &str, is_clear: bool) -> Result<(), JournalError> {
        self.write("UPDATE orders SET answered = ?2, answer = ?3 WHERE token = ?1", params![token, is_clear, what])?;
        Ok(())
    }

    /// A machine that a cloud named, so that it is never forgotten.
    pub fn found(&mut self, run: &str, machine: &Machine, choice: &Rentable, since: f64) -> Result<(), JournalError> {
        self.write(
            "INSERT OR IGNORE INTO machines (id, run, pool, epoch, node, rate, step, minimum, since) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8)",
            params![
                machine.id.0,
                run,
                json(&machine.pool)?,
                machine.epoch as i64,
                machine.node,
                choice.rate.nanos(),
                choice.minimum_seconds,
                since
            ],
        )?;
        Ok(())
    }

    /// What the controller knows after a step, and what it says. One write: each costs a flush of the disk.
    pub fn keep(
        &mut self,
        run: &str,
        rentals: &Rentals,
        done: f64,
        interruptions: u32,
        said: &LogLines<'_>,
    ) -> Result<(), JournalError> {
        let writing = self.database.transaction()?;
        for rental in &rentals.0 {
            writing.execute(
                "UPDATE machines SET since = ?2, until = ?3, rate = ?4 WHERE id = ?1 AND run = ?5",
                params![rental.machine.0, rental.since, rental.until, rental.mean_rate().nanos(), run],
            )?;
        }
        writing.execute(
            "UPDATE runs SET done = ?2, interruptions = ?3 WHERE run = ?1",
            params![run, done, interruptions],
        )?;
        for line in &said.lines {
            writing.execute(
                "INSERT INTO events (run, at, line) VALUES (?1, ?2, ?3)",
                params![run, said.at.as_second(), line],
            )?;
        }
        writing.commit()?;
        Ok(())
    }

    /// The run pays for the machine until then and no longer. Seconds of the run.
    pub fn ends_at(&mut self, run: &str, machine: &MachineId, until: f64) -> Result<(), JournalError> {
        self.write("UPDATE machines SET until = ?3 WHERE run = ?1 AND id = ?2", params![run, machine.0, until])
            .map(drop)
    }

    pub fn end(&mut self, run: &str, end: &End, at: Timestamp) -> Result<(), JournalError> {
        self.write("UPDATE runs SET end = ?2, ended_at = ?3 WHERE run = ?1", params![run, words(end), at.as_second()])?;
        Ok(())
    }

    /// The same by the process that leads the run under `number` (`take_the_lead`). False, and nothing is written, if another
    /// leads it by now: that one may have resumed a run whose end was asked of its predecessor.
    pub fn end_as_leader(&mut self, run: &str, number: i64, end: &End, at: Timestamp) -> Result<bool, JournalError> {
        let ending = "UPDATE runs SET end = ?3, ended_at = ?4 WHERE run = ?1 AND leader = ?2";
        Ok(self.write(ending, params![run, number, words(end), at.as_second()])? > 0)
    }

    /// A run that had ended goes on. In the same moment it is no longer led by who led it before, which may still be ending it.
    pub fn reopen(&mut self, run: &str) -> Result<(), JournalError> {
        self.write("UPDATE runs SET end = NULL, ended_at = NULL, leader = leader + 1 WHERE run = ?1", [run])?;
        Ok(())
    }

    /// A run of which nothing is left.
    pub fn forget(&mut self, run: &str) -> Result<(), JournalError> {
        let writing = self.database.transaction()?;
        for table in ["events", "machines", "orders", "runs", "sightings"] {
            writing.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run])?;
        }
        writing.commit()?;
        // The log of writes still has it. Where another process reads, its next checkpoint does this.
        self.database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    /// A run of which this journal knew nothing. False if it has one of this name.
    pub fn adopt(&mut self, adopted: &Adopted) -> Result<bool, JournalError> {
        let spec = &adopted.spec;
        if !self.begin(spec)? {
            return Ok(false);
        }
        for (machine, choice, since) in &adopted.machines {
            self.found(&spec.run, machine, choice, *since)?;
        }
        let place = adopted.pool.as_ref().or_else(|| spec.places().next().map(|offered| &offered.pool));
        let Some(place) = place else { return Err(JournalError::Spec(SpecError::Nowhere)) };
        for (epoch, node, rental) in &adopted.earlier {
            self.write(
                "INSERT OR IGNORE INTO machines (id, run, pool, epoch, node, rate, step, minimum, since, until) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9)",
                params![
                    rental.machine.0,
                    spec.run,
                    json(place)?,
                    *epoch as i64,
                    node,
                    rental.rate.nanos(),
                    rental.minimum_seconds,
                    rental.since,
                    rental.until
                ],
            )?;
        }
        // Stands for every order that the lost journal had: the next epoch comes after all of theirs.
        self.write(
            "INSERT OR IGNORE INTO orders (token, run, number, epoch, node, pool, rate, step, minimum, sent_at, answered, answer) \
             VALUES (?1, ?2, 0, ?3, 0, ?4, 0, 0, 0, 0, 1, 'adopted')",
            params![format!("adopted {}", spec.run), spec.run, adopted.epoch as i64, json(place)?],
        )?;
        Ok(true)
    }

    /// Whoever leads from now on, by a number: the one before finds out, and orders nothing more.
    pub fn take_the_lead(&mut self, run: &str) -> Result<i64, JournalError> {
        self.write("UPDATE runs SET leader = leader + 1 WHERE run = ?1", [run])?;
        self.leader(run)?.ok_or_else(|| JournalError::Unknown(run.to_owned()))
    }

    /// `None`: there is no such run.
    pub fn leader(&self, run: &str) -> Result<Option<i64>, JournalError> {
        Ok(self.database.query_row("SELECT leader FROM runs WHERE run = ?1", [run], |row| row.get(0)).optional()?)
    }

    /// Whether somebody has ended the run.
    pub fn has_ended(&self, run: &str) -> Result<bool, JournalError> {
        let ended = self.database.query_row("SELECT end IS NOT NULL FROM runs WHERE run = ?1", [run], |row| row.get(0));
        Ok(ended.optional()?.unwrap_or(false))
    }

    /// Names of all runs, the newest first.
    pub fn runs(&self) -> Result<Vec<String>, JournalError> {
        let mut rows = self.database.prepare("SELECT run FROM runs ORDER BY started_at DESC, run")?;
        let runs = rows.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(runs)
    }

    pub fn run(&self, run: &str) -> Result<Option<RunRecord>, JournalError> {
        let found = self.database.query_row(
            "SELECT spec, end, ended_at, done, interruptions FROM runs WHERE run = ?1",
            [run],
            |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, Option<i64>>(2)?, row.get(3)?, row.get(4)?)),
        );
        let Some((spec, end, ended_at, done, interruptions)) = found.optional()? else { return Ok(None) };
        let (mut past, mut machines) = (ResumeState { done, interruptions, ..ResumeState::default() }, Vec::new());
        let mut orders =
            self.database.prepare("SELECT epoch, answered, sent_at FROM orders WHERE run = ?1 ORDER BY number")?;
        let mut rows = orders.query([run])?;
        while let Some(row) = rows.next()? {
            past.orders += 1;
            past.epoch = past.epoch.max(row.get::<_, i64>(0)? as u64);
            if !row.get::<_, bool>(1)? {
                let sent_at: f64 = row.get(2)?;
                past.open_since = Some(past.open_since.map_or(sent_at, |before: f64| before.max(sent_at)));
            }
        }
        let mut rented = self.database.prepare(
            "SELECT id, pool, epoch, node, rate, minimum, since, until FROM machines WHERE run = ?1 ORDER BY since, id",
        )?;
        let mut rows = rented.query([run])?;
        while let Some(row) = rows.next()? {
            let (id, until) = (MachineId(row.get(0)?), row.get::<_, Option<f64>>(7)?);
            let pool = pool(&row.get::<_, String>(1)?)?;
            let (epoch, node) = (row.get::<_, i64>(2)? as u64, row.get(3)?);
            if until.is_none() {
                past.standing.push(Standing { machine: id.clone(), epoch, pool: pool.clone() });
            }
            machines.push(MachineRecord { id: id.clone(), pool, epoch, node, is_over: until.is_some() });
            past.rentals.add(Rental {
                machine: id,
                rate: UsdPerHour::from_nanos(row.get(4)?),
                minimum_seconds: row.get(5)?,
                since: row.get(6)?,
                until,
                moved: None,
            });
        }
        let ended_at = ended_at.map(time).transpose()?;
        Ok(Some(RunRecord { spec: RunSpec::read(&spec)?, past, end, ended_at, machines }))
    }

    /// What was said of a run, the oldest first.
    pub fn said(&self, run: &str) -> Result<Vec<(Timestamp, String)>, JournalError> {
        let mut rows = self.database.prepare("SELECT at, line FROM events WHERE run = ?1 ORDER BY rowid")?;
        let said =
            rows.query_map([run], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?.collect::<Result<Vec<_>, _>>()?;
        said.into_iter().map(|(at, line)| Ok((time(at)?, line))).collect()
    }

    /// Whether any run knows this machine as one that still runs.
    pub fn knows(&self, machine: &MachineId) -> Result<bool, JournalError> {
        let found = self.database.query_row(
            "SELECT 1 FROM machines JOIN runs USING (run) WHERE id = ?1 AND until IS NULL AND runs.end IS NULL",
            [&machine.0],
            |_| Ok(()),
        );
        Ok(found.optional()?.is_some())
    }
}

/// A journal from before machines were taken over has room for one run each.
fn several_runs_a_machine(database: &Connection) -> Result<(), JournalError> {
    let is_before = "SELECT 1 FROM sqlite_master WHERE name = 'machines' AND sql LIKE '%id TEXT PRIMARY KEY%'";
    if database.query_row(is_before, [], |_| Ok(())).optional()?.is_some() {
        let rows = "INSERT INTO machines SELECT * FROM machines_before; DROP TABLE machines_before;";
        database.execute_batch(&format!(
            "BEGIN IMMEDIATE; ALTER TABLE machines RENAME TO machines_before; {TABLES} {rows} COMMIT;"
        ))?;
    }
    Ok(())
}

/// As the journal and `status` write it.
pub fn words(end: &End) -> &'static str {
    match end {
        End::Completed => "completed",
        End::Failed(_) => "failed",
        End::Stopped => "stopped",
        End::OutOfBudget => "out-of-budget",
        End::Refused { .. } => "refused",
    }
}

fn time(seconds: i64) -> Result<Timestamp, JournalError> {
    Timestamp::from_second(seconds).map_err(|error| JournalError::Row(error.to_string()))
}

fn json(pool: &Pool) -> Result<String, JournalError> {
    serde_json::to_string(pool).map_err(|error| JournalError::Row(error.to_string()))
}

fn pool(text: &str) -> Result<Pool, JournalError> {
    serde_json::from_str(text).map_err(|error| JournalError::Row(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_from_before_machines_were_taken_over_keeps_its_machines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("launches.sqlite");
        let before =
            TABLES.replace("id TEXT NOT NULL, run", "id TEXT PRIMARY KEY, run").replace(", PRIMARY KEY (run, id)", "");
        assert_ne!(before, TABLES);
        let old = Connection::open(&path).unwrap();
        old.execute_batch(&before).unwrap();
        old.execute("INSERT INTO machines VALUES ('i-1', 'one', '{}', 1, 0, 5, 1, 60, 2.5, NULL)", []).unwrap();
        old.pragma_update(None, "user_version", VERSION).unwrap();
        drop(old);
        for _ in 0..2 {
            let journal = Journal::open(&path).unwrap();
            let row = journal.database.query_row("SELECT id, run, since FROM machines", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            });
            assert_eq!(row.unwrap(), ("i-1".to_owned(), "one".to_owned(), 2.5));
            let second = "INSERT OR IGNORE INTO machines VALUES ('i-1', 'two', '{}', 1, 0, 5, 1, 60, 9.0, NULL)";
            journal.database.execute(second, []).unwrap();
            let rows: i64 = journal.database.query_row("SELECT count(*) FROM machines", [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 2, "one machine, two runs");
        }
    }
}
