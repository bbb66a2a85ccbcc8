//! `Ledger`: what was spent, entered once and never changed. SQLite, write-ahead; triggers refuse to change or delete a row.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bill::ImportedBill;
use crate::bill::delivery::{Delivered, Loss, counted, period_of};
use crate::bill::parts::Part;
use crate::bill::survey::Survey;
use crate::charge::Charge;
use crate::spending::spent::RunKnown;
use gpuplan_runstore::private;
use gpuplan_units::Usd;

/// Version of a ledger in which each delivery is that of a whole billing period. Its tables are those of the newest.
const OF_WHOLE_DELIVERIES: i64 = 1;
/// The newest version, in which deliveries may add to others: a program that does not know of them would take the last one for the
/// whole period. A ledger of a newer version is never touched.
const VERSION: i64 = 2;
/// "gpLe": tells a ledger from any other SQLite file (https://www.sqlite.org/pragma.html#pragma_application_id).
const APPLICATION: i64 = 0x6770_4c65;
/// How long another process may hold the file.
const BUSY: Duration = Duration::from_secs(10);

/// A row is inserted and stays. `BEFORE INSERT` refuses `INSERT OR REPLACE` too, which would delete without a delete trigger.
const TABLES: &str = "
    CREATE TABLE charges (id TEXT PRIMARY KEY, content TEXT NOT NULL, entered_at INTEGER NOT NULL) STRICT;
    CREATE TABLE bills (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, content TEXT NOT NULL, entered_at INTEGER NOT NULL) STRICT;
    CREATE TABLE runs (number INTEGER PRIMARY KEY, run TEXT NOT NULL, content TEXT NOT NULL, entered_at INTEGER NOT NULL) STRICT;
    CREATE TRIGGER charges_stay BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER charges_are_kept BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER charges_come_once BEFORE INSERT ON charges WHEN EXISTS (SELECT 1 FROM charges WHERE id = NEW.id)
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER bills_stay BEFORE UPDATE ON bills BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER bills_are_kept BEFORE DELETE ON bills BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER bills_come_once BEFORE INSERT ON bills WHEN EXISTS (SELECT 1 FROM bills WHERE id = NEW.id OR number = NEW.number)
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER runs_stay BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER runs_are_kept BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER runs_come_once BEFORE INSERT ON runs WHEN EXISTS (SELECT 1 FROM runs WHERE number = NEW.number)
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
";

/// Parts of deliveries to which others may be added, by the row of the bill that began their period. An insert of one that is there is
/// ignored, so that nothing replaces it either.
const PARTS: &str = "
    CREATE TABLE IF NOT EXISTS parts (began INTEGER NOT NULL, name TEXT NOT NULL, content INTEGER NOT NULL, billed TEXT NOT NULL,
        PRIMARY KEY (began, name)) STRICT, WITHOUT ROWID;
    CREATE TRIGGER IF NOT EXISTS parts_stay BEFORE UPDATE ON parts BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER IF NOT EXISTS parts_are_kept BEFORE DELETE ON parts BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER IF NOT EXISTS parts_come_once BEFORE INSERT ON parts
        WHEN EXISTS (SELECT 1 FROM parts WHERE began = NEW.began AND name = NEW.name) BEGIN SELECT RAISE(IGNORE); END;
";

/// Why the ledger cannot be used, by what a person does next. What was entered before stands in every case.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A newer program is needed.
    #[error(
        "the ledger was written by a newer version of this program (its version is {0}, this program knows {VERSION}); it was not touched"
    )]
    Newer(i64),
    /// Another file is meant.
    #[error("this is not a ledger: {0}")]
    Foreign(String),
    /// Room is made.
    #[error("the disk is full: nothing of this was entered, and what was entered before stands")]
    Full,
    #[error("the ledger: {0}")]
    Database(rusqlite::Error),
    #[error("the folder of the ledger: {0}")]
    Folder(#[from] std::io::Error),
    #[error("the ledger: the row `{id}` cannot be read: {detail}")]
    Row { id: String, detail: String },
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::NotADatabase) => Self::Foreign("it is not a SQLite file".to_owned()),
            _ => Self::Database(error),
        }
    }
}

/// A charge that is in the ledger already, and differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Differing {
    pub kept: Charge,
    pub found: Charge,
}

/// What came of entering charges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entered {
    pub new: usize,
    pub known: usize,
    /// The ledger keeps what it has: nothing is priced again.
    pub differing: Vec<Differing>,
}

pub struct Ledger {
    database: Connection,
}

impl Ledger {
    /// Opens the ledger, or makes an empty one.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        private::database(path)?;
        let mut database = Connection::open(path)?;
        database.busy_timeout(BUSY)?;
        // Looked at before anything is written: a ledger of a newer version is left as it is.
        let (version, application, tables) =
            (pragma(&database, "user_version")?, pragma(&database, "application_id")?, tables(&database)?);
        match (version, application) {
            (OF_WHOLE_DELIVERIES | VERSION, APPLICATION) => {}
            (newer, APPLICATION) if newer > VERSION => return Err(LedgerError::Newer(newer)),
            (0, 0) if tables == 0 => begin(&mut database)?,
            _ => {
                return Err(LedgerError::Foreign(format!(
                    "a SQLite file of another program (version {version}, {tables} tables)"
                )));
            }
        }
        // What was entered survives a power cut.
        database.pragma_update(None, "synchronous", "FULL")?;
        Ok(Self { database })
    }

    /// Enters charges, all that are new or none. The same charge again changes nothing; one that differs is given back.
    pub fn enter(&mut self, charges: &[Charge], now: Timestamp) -> Result<Entered, LedgerError> {
        let writing = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut entered = Entered::default();
        for charge in charges {
            match kept_content(&writing, "SELECT content FROM charges WHERE id = ?1", &charge.id)? {
                None => {
                    let content = to_json(&charge.id, charge)?;
                    writing
                        .prepare("INSERT INTO charges (id, content, entered_at) VALUES (?1, ?2, ?3)")?
                        .execute(params![charge.id, content, now.as_second()])?;
                    entered.new += 1;
                }
                Some(kept) if is_same(&charge.id, &kept, charge)? => entered.known += 1,
                Some(kept) => {
                    entered.differing.push(Differing { kept: from_json(&charge.id, &kept)?, found: charge.clone() });
                }
            }
        }
        writing.commit()?;
        Ok(entered)
    }

    /// What is known of a run now. The newest word counts; the same word again is not written.
    pub fn know(&mut self, run: &RunKnown, now: Timestamp) -> Result<(), LedgerError> {
        let writing = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let last =
            kept_content(&writing, "SELECT content FROM runs WHERE run = ?1 ORDER BY number DESC LIMIT 1", &run.key)?;
        let content = to_json(&run.key, run)?;
        if last.as_ref() != Some(&content) {
            writing.execute(
                "INSERT INTO runs (run, content, entered_at) VALUES (?1, ?2, ?3)",
                params![run.key, content, now.as_second()],
            )?;
        }
        writing.commit()?;
        Ok(())
    }

    /// Bills of a cloud, all or none. A delivery takes the place of what counts for its account and billing period, or adds to it. One
    /// that would take lines or charges away is given back, and so is one that a newer delivery has replaced: only `replace` lets it count.
    pub fn deliver(&mut self, bills: &[ImportedBill], replace: bool, now: Timestamp) -> Result<Delivered, LedgerError> {
        self.deliver_with(bills, None, replace, now)
    }

    /// The same of bills that were read without what counts already. Their parts are kept, so that others may be added later.
    pub fn add_parts(
        &mut self,
        bills: &[ImportedBill],
        survey: &Survey,
        replace: bool,
        now: Timestamp,
    ) -> Result<Delivered, LedgerError> {
        self.deliver_with(bills, Some(survey), replace, now)
    }

    fn deliver_with(
        &mut self,
        bills: &[ImportedBill],
        survey: Option<&Survey>,
        replace: bool,
        now: Timestamp,
    ) -> Result<Delivered, LedgerError> {
        let writing = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let kept = bills_of(&writing)?;
        let mut delivered = Delivered::default();
        for bill in bills {
            let current = counted(&kept, period_of(bill));
            let times = kept.iter().filter(|kept| kept.id == bill.id).count();
            if bill.adds {
                if current.is_empty() {
                    delivered.outrun += 1;
                    continue;
                }
                writing.pragma_update(None, "user_version", VERSION)?;
            } else if matches!(current[..], [only] if only.id == bill.id) {
                delivered.known += 1;
                continue;
            } else if times > 0 && !replace {
                delivered.superseded.push(bill.clone());
                continue;
            } else if let Some(loss) =
                (!replace && !current.is_empty()).then(|| Loss::between(&current, bill)).flatten()
            {
                delivered.losses.push(loss);
                continue;
            }
            // A delivery that counts again is a row of its own: no row is changed.
            let row = if times > 0 { format!("{}#{}", bill.id, times + 1) } else { bill.id.clone() };
            writing.execute(
                "INSERT INTO bills (id, content, entered_at) VALUES (?1, ?2, ?3)",
                params![row, to_json(&bill.id, bill)?, now.as_second()],
            )?;
            let began = current.first().filter(|_| bill.adds).map_or(writing.last_insert_rowid(), |first| first.number);
            let is_outrun =
                survey.map(|survey| keep_parts(&writing, began, survey, bill)).transpose()?.unwrap_or(false);
            delivered.outrun += usize::from(is_outrun);
            delivered.new += usize::from(!is_outrun);
        }
        if !delivered.losses.is_empty() || delivered.outrun > 0 {
            return Ok(Delivered { new: 0, ..delivered });
        }
        writing.commit()?;
        Ok(delivered)
    }

    /// Every charge, by the begin of its time.
    pub fn charges(&self) -> Result<Vec<Charge>, LedgerError> {
        let mut charges = contents(&self.database, "SELECT id, content FROM charges ORDER BY id")?;
        charges.sort_by(|a: &Charge, b: &Charge| (a.start, &a.id).cmp(&(b.start, &b.id)));
        Ok(charges)
    }

    /// The newest word on every run.
    pub fn runs(&self) -> Result<BTreeMap<String, RunKnown>, LedgerError> {
        let known: Vec<RunKnown> = contents(&self.database, "SELECT run, content FROM runs ORDER BY number")?;
        Ok(known.into_iter().map(|run| (run.key.clone(), run)).collect())
    }

    /// The same, in the order in which they were last spoken of.
    pub fn runs_in_turn(&self) -> Result<Vec<RunKnown>, LedgerError> {
        let known: Vec<RunKnown> = contents(&self.database, "SELECT run, content FROM runs ORDER BY number")?;
        let newest: BTreeMap<String, usize> = known.iter().enumerate().map(|(at, run)| (run.key.clone(), at)).collect();
        Ok(known
            .into_iter()
            .enumerate()
            .filter(|(at, run)| newest.get(&run.key) == Some(at))
            .map(|(_, run)| run)
            .collect())
    }

    /// Every bill, in the order in which they were imported.
    pub fn bills(&self) -> Result<Vec<ImportedBill>, LedgerError> {
        let bills = bills_of(&self.database)?;
        for bill in &bills {
            if let Some(line) = bill.charges.iter().find(|line| line.costs.billed.is_none()) {
                return Err(LedgerError::Row {
                    id: bill.id.clone(),
                    detail: format!("its line `{}` has no amount", line.id),
                });
            }
        }
        Ok(bills)
    }

    /// A part of the period that this bill began, and that has parts.
    pub fn part(&self, began: &ImportedBill, name: &str) -> Result<Option<Part>, LedgerError> {
        let query = "SELECT content, billed FROM parts WHERE began = ?1 AND name = ?2";
        let row = |row: &Row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let kept = self.database.query_row(query, params![began.number, name], row).optional()?;
        let part = |(content, billed): (i64, String)| match Usd::parse_signed(&billed) {
            Ok(billed_usd) => Ok(Part { content: content.cast_unsigned(), billed_usd }),
            Err(error) => Err(LedgerError::Row { id: format!("{}/{name}", began.id), detail: error.to_string() }),
        };
        kept.map(part).transpose()
    }
}

/// The new parts of a bill. True if one of them is there already.
fn keep_parts(
    writing: &Transaction<'_>,
    began: i64,
    survey: &Survey,
    bill: &ImportedBill,
) -> Result<bool, LedgerError> {
    writing.execute_batch(PARTS)?;
    let mut enter = writing.prepare("INSERT INTO parts (began, name, content, billed) VALUES (?1, ?2, ?3, ?4)")?;
    let (source, account, month) = period_of(bill);
    let mut is_outrun = false;
    survey.each_new(&(source.to_owned(), account.to_owned(), month.to_owned()), |name, part| {
        let rows = enter.execute(params![began, name, part.content.cast_signed(), part.billed_usd.to_string()])?;
        is_outrun |= rows == 0;
        Ok::<(), LedgerError>(())
    })?;
    Ok(is_outrun)
}

fn bills_of(database: &Connection) -> Result<Vec<ImportedBill>, LedgerError> {
    let mut statement = database.prepare("SELECT number, id, content FROM bills ORDER BY number")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, id, content): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        found.push(ImportedBill { number, ..from_json(&id, &content)? });
    }
    Ok(found)
}

/// Every row that is found, with its id.
fn all<T: DeserializeOwned>(database: &Connection, query: &str) -> Result<Vec<(String, T)>, LedgerError> {
    let mut statement = database.prepare(query)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, content): (String, String) = (row.get(0)?, row.get(1)?);
        let content = from_json(&id, &content)?;
        found.push((id, content));
    }
    Ok(found)
}

fn contents<T: DeserializeOwned>(database: &Connection, query: &str) -> Result<Vec<T>, LedgerError> {
    Ok(all(database, query)?.into_iter().map(|(_, content)| content).collect())
}

/// Tables, version and mark of a new ledger: all of it or nothing. Another process may have been faster.
fn begin(database: &mut Connection) -> Result<(), LedgerError> {
    database.pragma_update(None, "journal_mode", "WAL")?;
    let making = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if tables(&making)? == 0 {
        making.execute_batch(TABLES)?;
        making.pragma_update(None, "application_id", APPLICATION)?;
        making.pragma_update(None, "user_version", OF_WHOLE_DELIVERIES)?;
    }
    making.commit()?;
    Ok(())
}

fn pragma(database: &Connection, name: &str) -> Result<i64, LedgerError> {
    Ok(database.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))?)
}

fn tables(database: &Connection) -> Result<i64, LedgerError> {
    Ok(database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?)
}

fn kept_content(writing: &Transaction<'_>, query: &str, id: &str) -> Result<Option<String>, LedgerError> {
    Ok(writing.prepare(query)?.query_row([id], |row| row.get(0)).optional()?)
}

/// As texts say it: a number that is read and written again may end in another digit.
fn is_same(id: &str, kept: &str, charge: &Charge) -> Result<bool, LedgerError> {
    Ok(from_json::<Value>(id, kept)? == from_json::<Value>(id, &to_json(id, charge)?)?)
}

fn to_json<T: Serialize>(id: &str, what: &T) -> Result<String, LedgerError> {
    serde_json::to_string(what).map_err(|error| LedgerError::Row { id: id.to_owned(), detail: error.to_string() })
}

fn from_json<T: DeserializeOwned>(id: &str, text: &str) -> Result<T, LedgerError> {
    serde_json::from_str(text).map_err(|error| LedgerError::Row { id: id.to_owned(), detail: error.to_string() })
}

#[cfg(test)]
mod tests;
