//! `Ledger`: what was spent, entered once and never changed. SQLite, write-ahead; triggers refuse to change or delete a row.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bill::ImportedBill;
use crate::bill::delivery::{Delivered, Loss, counted, period_of};
use crate::charge::Charge;
use crate::spending::spent::RunKnown;
use gpuplan_runstore::private;

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
        let writing = self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let kept: Vec<(String, ImportedBill)> = all(&writing, "SELECT id, content FROM bills ORDER BY number")?;
        let mut delivered = Delivered::default();
        for bill in bills {
            let current = counted(kept.iter().map(|(_, kept)| kept), period_of(bill));
            let times = kept.iter().filter(|(_, kept)| kept.id == bill.id).count();
            if bill.adds {
                let counts = |part| current.iter().any(|kept| kept.parts.contains_key(part));
                if current.is_empty() || bill.parts.keys().any(counts) {
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
            delivered.new += 1;
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
        let bills: Vec<ImportedBill> = contents(&self.database, "SELECT id, content FROM bills ORDER BY number")?;
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
mod tests {
    use super::*;
    use crate::bill::parts::Part;
    use crate::charge::{Item, Resource, Waste, examples};
    use gpuplan_units::Usd;

    fn charge(id: &str, dollars: &str) -> Charge {
        let amount = Usd::parse_signed(dollars).unwrap();
        let kept = examples::charge(id, "a", amount);
        Charge {
            item: if amount < Usd::ZERO { Item::Credit } else { Item::Machines },
            resource: Resource { id: Some("i-1".to_owned()), gpus: Some(1.0), ..kept.resource },
            quantity: 0.1,
            waste: Some(Waste::Idle),
            priced_at: Some(Timestamp::UNIX_EPOCH),
            ..kept
        }
    }

    fn ledger() -> (tempfile::TempDir, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        (folder, ledger)
    }

    #[test]
    fn a_charge_is_entered_once_and_never_priced_again() {
        let (folder, mut ledger) = ledger();
        let (one, credit) = (charge("1", "3.000000001"), charge("2", "-0.5"));
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            ledger.enter(&[one.clone(), credit.clone()], now).unwrap(),
            Entered { new: 2, ..Entered::default() }
        );
        assert_eq!(ledger.enter(std::slice::from_ref(&one), now).unwrap(), Entered { known: 1, ..Entered::default() });
        let dearer = charge("1", "4");
        let entered = ledger.enter(&[dearer.clone(), charge("3", "1")], now).unwrap();
        assert_eq!((entered.new, entered.differing.len()), (1, 1));
        assert_eq!((&entered.differing[0].kept, &entered.differing[0].found), (&one, &dearer));
        drop(ledger);
        let again = Ledger::open(&folder.path().join("ledger.sqlite")).unwrap();
        assert_eq!(again.charges().unwrap(), [one, credit, charge("3", "1")]);
    }

    #[test]
    fn a_line_of_a_bill_without_amount_is_an_error_and_not_nothing() {
        let (_folder, mut ledger) = ledger();
        let bill =
            ImportedBill { id: "bill/1".to_owned(), charges: vec![charge("bill/1/a", "3")], ..ImportedBill::default() };
        assert_eq!(ledger.deliver(&[bill], false, Timestamp::UNIX_EPOCH).unwrap().new, 1);
        let said = ledger.bills().unwrap_err().to_string();
        assert_eq!(said, "the ledger: the row `bill/1` cannot be read: its line `bill/1/a` has no amount");
    }

    /// A program that does not know of deliveries that add would take the last one for the whole month.
    #[test]
    fn a_ledger_with_a_delivery_that_adds_is_of_the_newer_version_and_any_other_is_not() {
        let (_folder, mut ledger) = ledger();
        let bill = |id: &str, adds| ImportedBill {
            id: id.to_owned(),
            adds,
            parts: [(id.to_owned(), Part::default())].into(),
            ..ImportedBill::default()
        };
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(ledger.deliver(&[bill("a", true)], false, now).unwrap().outrun, 1, "there is nothing to add to");
        assert_eq!(ledger.deliver(&[bill("a", false)], false, now).unwrap().new, 1);
        assert_eq!(pragma(&ledger.database, "user_version").unwrap(), OF_WHOLE_DELIVERIES);
        assert_eq!(ledger.deliver(&[bill("b", true)], false, now).unwrap().new, 1);
        assert_eq!(pragma(&ledger.database, "user_version").unwrap(), VERSION);
        assert_eq!(counted(&ledger.bills().unwrap(), ("", "", "")).len(), 2);
    }

    #[test]
    fn nobody_changes_or_deletes_a_row() {
        let (folder, mut ledger) = ledger();
        ledger.enter(&[charge("1", "3")], Timestamp::UNIX_EPOCH).unwrap();
        ledger.know(&RunKnown { key: "a@1".to_owned(), ..RunKnown::default() }, Timestamp::UNIX_EPOCH).unwrap();
        let direct = Connection::open(folder.path().join("ledger.sqlite")).unwrap();
        for statement in [
            "UPDATE charges SET content = '{}'",
            "DELETE FROM charges",
            "INSERT OR REPLACE INTO charges VALUES ('1', '{}', 0)",
            "REPLACE INTO runs (number, run, content, entered_at) VALUES (1, 'a', '{}', 0)",
            "UPDATE runs SET content = '{}'",
            "DELETE FROM runs",
            "DELETE FROM bills WHERE 1",
        ] {
            let refused = direct.execute_batch(statement);
            // There is no bill, so nothing is deleted.
            assert!(refused.is_err() || statement.contains("bills"), "{statement}");
        }
        assert_eq!(ledger.charges().unwrap(), [charge("1", "3")]);
    }

    #[test]
    fn a_newer_ledger_and_a_foreign_file_are_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let newer = folder.path().join("newer.sqlite");
        drop(Ledger::open(&newer).unwrap());
        let direct = Connection::open(&newer).unwrap();
        direct.execute_batch("PRAGMA user_version = 7; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        drop(direct);
        let before = std::fs::read(&newer).unwrap();
        assert!(matches!(Ledger::open(&newer), Err(LedgerError::Newer(7))));
        assert!(std::fs::read(&newer).unwrap() == before, "not a byte is another");
        let text = folder.path().join("text.sqlite");
        std::fs::write(
            &text,
            "not a database, and long enough to be looked at as one: 0123456789012345678901234567890123456789",
        )
        .unwrap();
        assert!(matches!(Ledger::open(&text), Err(LedgerError::Foreign(_))));
        let foreign = folder.path().join("foreign.sqlite");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
        assert!(matches!(Ledger::open(&foreign), Err(LedgerError::Foreign(_))));
    }

    #[test]
    fn a_full_disk_enters_nothing_and_loses_nothing() {
        let (_folder, mut ledger) = ledger();
        ledger.enter(&[charge("first", "1")], Timestamp::UNIX_EPOCH).unwrap();
        let pages = pragma(&ledger.database, "page_count").unwrap();
        // SQLite answers SQLITE_FULL here as it does where the disk has no room.
        ledger.database.pragma_update(None, "max_page_count", pages).unwrap();
        let many: Vec<Charge> = (0..200).map(|number| charge(&format!("{number:04}"), "1")).collect();
        assert!(matches!(ledger.enter(&many, Timestamp::UNIX_EPOCH), Err(LedgerError::Full)));
        assert_eq!(ledger.charges().unwrap().len(), 1);
        ledger.database.pragma_update(None, "max_page_count", 1_000_000).unwrap();
        assert_eq!(ledger.enter(&many, Timestamp::UNIX_EPOCH).unwrap().new, 200);
    }

    #[test]
    fn the_newest_word_on_a_run_counts() {
        let (_folder, mut ledger) = ledger();
        let mut run = RunKnown { key: "a@1".to_owned(), run: "a".to_owned(), ..RunKnown::default() };
        let now = Timestamp::UNIX_EPOCH;
        ledger.know(&run, now).unwrap();
        ledger.know(&run, now).unwrap();
        run.outcome = Some("completed".to_owned());
        ledger.know(&run, now).unwrap();
        let count: i64 = ledger.database.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).unwrap();
        assert_eq!((count, ledger.runs().unwrap()["a@1"].outcome.as_deref()), (2, Some("completed")));
        ledger.know(&RunKnown { key: "b@1".to_owned(), ..RunKnown::default() }, now).unwrap();
        ledger.know(&RunKnown { outcome: Some("failed".to_owned()), ..run.clone() }, now).unwrap();
        let turn: Vec<(String, Option<String>)> =
            ledger.runs_in_turn().unwrap().into_iter().map(|run| (run.key, run.outcome)).collect();
        assert_eq!(turn, [("b@1".to_owned(), None), ("a@1".to_owned(), Some("failed".to_owned()))]);
    }
}
