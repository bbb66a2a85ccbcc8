//! What is entered stays, comes once, and a ledger of others is left as it is.

#![cfg(test)]

use super::*;
use crate::charge::{Item, Resource, Waste, examples};

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
    assert_eq!(ledger.enter(&[one.clone(), credit.clone()], now).unwrap(), Entered { new: 2, ..Entered::default() });
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
    let bill = |id: &str, adds| ImportedBill { id: id.to_owned(), adds, part_count: 1, ..ImportedBill::default() };
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
