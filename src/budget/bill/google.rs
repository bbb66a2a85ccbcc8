//! Google's billing export as JSON lines, as BigQuery writes the nested table of the standard and the detailed export.

use std::io::BufRead;

use serde_json::Value;

use crate::bill::cell::{a_day_after, numbers_as_text, parse_moment, parse_period};
use crate::bill::dimensions::{self, Dimensions, RunTag};
use crate::bill::export::{BillError, Format, Position};
use crate::bill::item::{Labels, classify};
use crate::bill::parts::Identity;
use crate::bill::sums::{BillLine, Sums};
use crate::charge::Item;
use gpuplan_units::FineUsd;

/// A row with its labels is far smaller; a file that is no JSON lines may be one long line.
const LONGEST_LINE: u64 = 16 << 20;

pub fn read(file: &str, mut lines: impl BufRead, sums: &mut Sums) -> Result<(), BillError> {
    let (mut number, mut bytes) = (0, Vec::new());
    loop {
        bytes.clear();
        number += 1;
        let read = std::io::Read::take(&mut lines, LONGEST_LINE).read_until(b'\n', &mut bytes);
        let length = read.map_err(|error| BillError::line(file, number, error.to_string()))?;
        if length == 0 {
            return Ok(());
        }
        if length as u64 == LONGEST_LINE {
            return Err(BillError::line(file, number, "this line is too long to be a row of an export"));
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| BillError::line(file, number, error.to_string()))?;
        if text.trim().is_empty() {
            continue;
        }
        sums.lines += 1;
        let row: Value = serde_json::from_str(&numbers_as_text(text)).map_err(|error| broken(file, number, &error))?;
        let currency = row["currency"].as_str().unwrap_or_default();
        let run = sums.mark.run_of(&row["labels"]);
        let identity = sums
            .tells_parts()
            .then(|| Identity::new(row["export_time"].as_str(), sums.mark.name(), std::iter::once(text.trim())));
        let is_ours = run.is_some();
        let lines = if currency.is_empty() && !sums.knows(currency) {
            let column = "currency".to_owned();
            Err(BillError::NoCurrency { file: file.to_owned(), at: Position::Line(number), column })
        } else {
            bill_lines(file, number, &row, run, &sums.mark).map(|lines| marked(lines, identity.as_ref()))
        };
        if !is_ours {
            sums.add_others(currency, lines);
            continue;
        }
        sums.ours += 1;
        let lines = lines?;
        for line in lines {
            if !sums.knows(currency) {
                return Err(BillError::NoRate {
                    file: file.to_owned(),
                    at: Position::Line(number),
                    column: "currency".to_owned(),
                    currency: currency.to_owned(),
                });
            }
            sums.add_in(currency, line).ok_or_else(|| BillError::TooLarge { file: file.to_owned() })?;
        }
    }
}

fn marked(mut lines: Vec<BillLine>, identity: Option<&Identity>) -> Vec<BillLine> {
    for line in &mut lines {
        line.identity = identity.cloned();
    }
    lines
}

/// A row that is spread over several lines ends before it is whole.
fn broken(file: &str, number: u64, error: &serde_json::Error) -> BillError {
    let detail = if error.is_eof() {
        "this JSON goes on in the next line, and a row has one: `jq -c . FILE >bill.json` makes it so".to_owned()
    } else {
        error.to_string()
    };
    BillError::line(file, number, detail)
}

/// The month of the invoice; `None`: the export does not say.
fn period(file: &str, number: u64, row: &Value) -> Result<Option<String>, BillError> {
    let Some(given) = row["invoice"]["month"].as_str() else { return Ok(None) };
    let wrong =
        || BillError::cell(file, number, "invoice.month", format!("`{given}` is not a valid month, such as 202610"));
    parse_period(given).map(Some).ok_or_else(wrong)
}

fn dimensions_of(row: &Value, is_ours: bool, sku: &str, mark: &RunTag) -> Dimensions {
    let mut tags = dimensions::own_tags(&row["labels"], mark);
    if !is_ours {
        tags.retain(|name, _| dimensions::OTHERS_HAVE.contains(&name.as_str()));
    }
    Dimensions {
        tags,
        region: row["location"]["region"].as_str().map(str::to_owned),
        instance_type: dimensions::instance_in_json(&row["system_labels"].to_string()),
        gpu: dimensions::gpu_of_sku(sku).map(str::to_owned),
        purchase: dimensions::purchase(Format::Google, "", sku),
        // An export has its month alone.
        invoice: None,
    }
}

fn bill_lines(
    file: &str,
    number: u64,
    row: &Value,
    run: Option<String>,
    mark: &RunTag,
) -> Result<Vec<BillLine>, BillError> {
    let text = |column: &str| {
        let missing = || BillError::cell(file, number, column, "it is missing");
        row[column].as_str().ok_or_else(missing)
    };
    let time = |column: &str| {
        let given = text(column)?;
        parse_moment(given).ok_or_else(|| {
            BillError::cell(
                file,
                number,
                column,
                format!("`{given}` is not a valid time, such as 2026-10-01T00:00:00Z"),
            )
        })
    };
    let amount = |column: &str, given: &str| {
        FineUsd::parse(given).map_err(|error| BillError::cell(file, number, column, error.to_string()))
    };
    let start = time("usage_start_time")?;
    let description = |key: &str| row[key]["description"].as_str().unwrap_or_default();
    let labels = Labels {
        category: row["cost_type"].as_str().unwrap_or_default(),
        service: description("service"),
        usage: description("sku"),
    };
    let line = BillLine {
        cloud: "gcp".to_owned(),
        account: row["billing_account_id"].as_str().unwrap_or_default().to_owned(),
        period: period(file, number, row)?,
        dimensions: dimensions_of(row, run.is_some(), labels.usage, mark),
        run,
        identity: None,
        start,
        // As in a table: where an export does not say, usage is of a day.
        end: if row["usage_end_time"].is_null() { a_day_after(start) } else { time("usage_end_time")?.max(start) },
        item: classify(Format::Google, labels),
        hours: None,
        billed: amount("cost", text("cost")?)?,
        list: if row["cost_at_list"].is_null() { None } else { Some(amount("cost_at_list", text("cost_at_list")?)?) },
        contracted: None,
        effective: None,
    };
    let mut lines = vec![line.clone()];
    let credits = match &row["credits"] {
        Value::Null => &[],
        Value::Array(credits) => credits.as_slice(),
        other => return Err(BillError::cell(file, number, "credits", format!("`{other}` is not a list of credits"))),
    };
    for credit in credits {
        let given = credit["amount"]
            .as_str()
            .ok_or_else(|| BillError::cell(file, number, "credits.amount", "it is missing"))?;
        lines.push(BillLine {
            item: Item::Credit,
            billed: amount("credits.amount", given)?,
            list: None,
            ..line.clone()
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bill::sums::Known;
    use gpuplan_hardware::Hardware;

    fn sums(text: &str) -> Result<Sums, String> {
        let mut sums = Sums::default();
        read("bill.json", text.as_bytes(), &mut sums).map_err(|error| error.to_string()).map(|()| sums)
    }

    const ROW: &str = r#"{"billing_account_id":"0-1","service":{"description":"Compute Engine"},"sku":{"description":"A100 \"40\" GPU"},
        "usage_start_time":"2026-10-01 00:00:00 UTC","usage_end_time":"2026-10-01T01:00:00Z","labels":[{"key":"gpuplan_run","value":"a"}],
        "cost":1.2345678901234567,"currency":"USD","credits":[{"name":"free","amount":-1.5e-3}],"cost_type":"regular"}"#;

    #[test]
    fn amounts_are_read_as_they_are_written() {
        let row = ROW.replace('\n', " ");
        let mut sums = sums(&format!("{row}\n\n{}\n", row.replace("gpuplan_run", "other"))).unwrap();
        assert_eq!((sums.lines, sums.ours), (2, 1), "a credit is a part of its line");
        let bills = sums.take_bills("h", "google", &Known { runs: &BTreeSet::new(), hardware: &Hardware::default() });
        let amounts: Vec<String> =
            bills[0].charges.iter().map(|charge| charge.costs.billed.unwrap().to_string()).collect();
        assert_eq!(amounts, ["1.23456789", "-0.0015"]);
    }

    #[test]
    fn usage_without_an_end_is_of_a_day_and_what_cannot_be_read_of_nobody_is_named_once() {
        let row = ROW
            .replace('\n', "")
            .replace(r#""usage_end_time":"2026-10-01T01:00:00Z","#, "")
            .replace("gpuplan_run", "team");
        let found = sums(&row).unwrap();
        assert_eq!((found.lines, found.ours, found.unread, found.first_unread), (1, 0, 0, None));
        let broken = row.replace("usage_start_time", "start");
        let found = sums(&format!("{broken}\n{broken}")).unwrap();
        let first = "bill.json line 1, column `usage_start_time`: it is missing";
        assert_eq!((found.unread, found.first_unread.as_deref()), (2, Some(first)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let row = ROW.replace('\n', " ");
        let said = |from: &str, to: &str| sums(&row.replace(from, to)).unwrap_err();
        assert!(said("\"USD\"", "\"EUR\"").starts_with("bill.json line 1, column `currency`: the bill is in `EUR`"));
        assert_eq!(said("\"USD\"", "\"\""), "bill.json line 1, column `currency`: it names no currency");
        assert_eq!(said("\"cost\":", "\"costs\":"), "bill.json line 1, column `cost`: it is missing");
        assert!(said("2026-10-01 00", "soon").contains("column `usage_start_time`"));
        assert!(said("}],", "}").starts_with("bill.json line 1: "));
        let spread = sums("{\n  \"billing_account_id\": \"0-1\"\n}\n").unwrap_err();
        assert!(spread.starts_with("bill.json line 1: ") && spread.contains("jq -c . FILE"), "{spread}");
        assert_eq!(said("\"amount\":", "\"amounts\":"), "bill.json line 1, column `credits.amount`: it is missing");
        let credit = r#"[{"name":"free","amount":-1.5e-3}]"#;
        assert!(said(credit, "3").starts_with("bill.json line 1, column `credits`: `\"3\"` is not a list of credits"));
        assert_eq!(
            said("\"cost\":1.2345678901234567", "\"cost\":1,\"cost_at_list\":{}"),
            "bill.json line 1, column `cost_at_list`: it is missing"
        );
    }
}
