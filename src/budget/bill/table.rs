//! Bills as tables: AWS CUR 2.0 and legacy, FOCUS, Azure cost details, and Google's export with flat columns. Here from CSV.

use std::io::BufRead;

use csv::{ReaderBuilder, StringRecord};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::bill::cell::{normalized, numbers_as_text, parse_moment, run_of_tags};
use crate::bill::columns::{AmountColumns, Columns, Header, RunColumns, UsageColumns};
use crate::bill::export::{BillError, Format, Position};
use crate::bill::item::{Labels, classify};
use crate::bill::sums::{BillLine, Sums};
use crate::charge::Item;
use gpuplan_units::FineUsd;

/// A table of a bill: whose export it is, and where it keeps what.
pub struct Table<'a> {
    pub file: &'a str,
    pub format: Format,
    header: Header,
    columns: Columns,
}

impl<'a> Table<'a> {
    /// The format is guessed by the header where none is named.
    pub fn new(file: &'a str, format: Option<Format>, header: Header) -> Result<Self, BillError> {
        let format = format.or_else(|| header.format()).ok_or_else(|| BillError::Unknown { file: file.to_owned() })?;
        Ok(Self { file, format, columns: Columns::new(file, format, &header)?, header })
    }

    pub fn needs(&self, column: usize) -> bool {
        self.columns.needed().contains(&column)
    }

    /// One line of the bill; it counts if it is of a run.
    pub fn add(&self, at: Position, record: &StringRecord, sums: &mut Sums) -> Result<(), BillError> {
        sums.lines += 1;
        let row = LineCells { file: self.file, format: self.format, at, header: &self.header, record };
        let currency = row.text(Some(self.columns.amounts.currency));
        if !currency.is_empty() && !currency.eq_ignore_ascii_case("usd") {
            let detail = format!("the bill is in `{currency}`; only USD is compared, and nothing is converted");
            return Err(row.wrong(self.columns.amounts.currency, detail));
        }
        let Some(run) = run_of_line(&row, &self.columns.run)? else { return Ok(()) };
        sums.ours += 1;
        for line in bill_lines(&row, &self.columns, run)? {
            sums.add(line).ok_or_else(|| BillError::TooLarge { file: self.file.to_owned() })?;
        }
        Ok(())
    }
}

/// A line and where it stands.
struct LineCells<'a> {
    file: &'a str,
    format: Format,
    at: Position,
    header: &'a Header,
    record: &'a StringRecord,
}

impl LineCells<'_> {
    fn text(&self, column: Option<usize>) -> &str {
        column.and_then(|column| self.record.get(column)).map(str::trim).unwrap_or_default()
    }

    fn wrong(&self, column: usize, detail: impl Into<String>) -> BillError {
        let column = self.header.names[column].clone();
        BillError::Cell { file: self.file.to_owned(), at: self.at, column, detail: detail.into() }
    }

    fn amount(&self, column: usize) -> Result<FineUsd, BillError> {
        FineUsd::parse(self.text(Some(column))).map_err(|error| self.wrong(column, error.to_string()))
    }

    /// Empty where the export does not say.
    fn optional(&self, column: Option<usize>) -> Result<Option<FineUsd>, BillError> {
        column.filter(|column| !self.text(Some(*column)).is_empty()).map(|column| self.amount(column)).transpose()
    }

    fn time(&self, column: usize) -> Result<Timestamp, BillError> {
        let text = self.text(Some(column));
        parse_moment(text)
            .ok_or_else(|| self.wrong(column, format!("`{text}` is not a valid time, such as 2026-10-01T00:00:00Z")))
    }
}

/// Reads a CSV file.
pub fn read(file: &str, format: Option<Format>, lines: impl BufRead, sums: &mut Sums) -> Result<Format, BillError> {
    let mut reader = ReaderBuilder::new().from_reader(lines);
    let broken = |error: &csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        BillError::line(file, line, error.to_string())
    };
    let names = reader.headers().map_err(|error| broken(&error))?.iter().map(str::to_owned);
    let table = Table::new(file, format, Header::new(Position::Line(1), names))?;
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| broken(&error))? {
        let line = record.position().map_or(0, csv::Position::line);
        table.add(Position::Line(line), &record, sums)?;
    }
    Ok(table.format)
}

/// The run that a line is of; `None`: no run of gpuplan.
fn run_of_line(row: &LineCells, columns: &RunColumns) -> Result<Option<String>, BillError> {
    let own = row.text(columns.tag);
    if !own.is_empty() {
        return Ok(Some(own.to_owned()));
    }
    let Some(column) = columns.tags else { return Ok(None) };
    let text = row.text(Some(column));
    // Most lines have other tags: they are not taken apart.
    if !normalized(text).contains("gpuplanrun") {
        return Ok(None);
    }
    // Azure leaves out the braces.
    let whole = if text.starts_with(['{', '[']) { text.to_owned() } else { format!("{{{text}}}") };
    let tags: Value = serde_json::from_str(&whole)
        .map_err(|error| row.wrong(column, format!("these tags are not valid JSON: {error}")))?;
    Ok(run_of_tags(&tags))
}

fn bill_lines(row: &LineCells, columns: &Columns, run: String) -> Result<Vec<BillLine>, BillError> {
    let start = row.time(columns.start)?;
    let end = match columns.end.filter(|column| !row.text(Some(*column)).is_empty()) {
        Some(column) => row.time(column)?,
        None => start.checked_add(SignedDuration::from_hours(24)).unwrap_or(Timestamp::MAX),
    };
    let usage = &columns.usage;
    let labels =
        Labels { category: row.text(usage.category), service: row.text(usage.service), usage: row.text(usage.usage) };
    let item = classify(row.format, labels);
    let AmountColumns { billed, list, contracted, effective: candidates, credits, .. } = &columns.amounts;
    let mut effective = None;
    for column in candidates {
        effective = effective.or(row.optional(Some(*column))?);
    }
    let line = BillLine {
        cloud: cloud(row, columns),
        account: row.text(columns.account).to_owned(),
        run,
        start,
        end: end.max(start),
        item,
        hours: hours(row, usage, item)?,
        billed: row.amount(*billed)?,
        list: row.optional(*list)?,
        contracted: row.optional(*contracted)?,
        effective,
    };
    let mut lines = vec![line];
    // Google writes credits in the same line as the cost, not as lines of their own.
    if let Some(column) = credits.filter(|column| !row.text(Some(*column)).is_empty()) {
        let text = row.text(Some(column));
        let amounts = credit_amounts(text).map_err(|detail| row.wrong(column, detail))?;
        let credit = |amount| BillLine {
            item: Item::Credit,
            billed: amount,
            hours: None,
            list: None,
            contracted: None,
            effective: None,
            ..lines[0].clone()
        };
        let credits: Vec<BillLine> = amounts.into_iter().map(credit).collect();
        lines.extend(credits);
    }
    Ok(lines)
}

/// One amount, or a list of `{"amount": ...}`.
fn credit_amounts(text: &str) -> Result<Vec<FineUsd>, String> {
    if !text.starts_with('[') {
        return FineUsd::parse(text).map(|amount| vec![amount]).map_err(|error| error.to_string());
    }
    let list: Value = serde_json::from_str(&numbers_as_text(text))
        .map_err(|error| format!("these credits are not valid JSON: {error}"))?;
    let amount = |credit: &Value| {
        let text = credit["amount"].as_str().ok_or_else(|| format!("the credit {credit} has no amount"))?;
        FineUsd::parse(text).map_err(|error| error.to_string())
    };
    list.as_array().into_iter().flatten().map(amount).collect()
}

fn cloud(row: &LineCells, columns: &Columns) -> String {
    match row.format {
        Format::Cur => "aws".to_owned(),
        Format::Google => "gcp".to_owned(),
        Format::Azure => "azure".to_owned(),
        Format::Focus => {
            let name = row.text(columns.cloud).to_ascii_lowercase();
            let known = [
                ("aws", "aws"),
                ("amazon", "aws"),
                ("google", "gcp"),
                ("microsoft", "azure"),
                ("azure", "azure"),
                ("oracle", "oci"),
            ];
            known.iter().find(|(word, _)| name.contains(word)).map_or(name.clone(), |(_, cloud)| (*cloud).to_owned())
        }
    }
}

/// Hours of machines, where the line counts in them. A machine of Google is several lines, none of which is an hour of it.
fn hours(row: &LineCells, columns: &UsageColumns, item: Item) -> Result<Option<f64>, BillError> {
    let Some(column) = columns.quantity.filter(|column| item == Item::Machines && !row.text(Some(*column)).is_empty())
    else {
        return Ok(None);
    };
    let unit = normalized(row.text(columns.unit));
    let is_hours = match row.format {
        Format::Cur => true,
        Format::Focus => matches!(unit.as_str(), "hours" | "hour" | "hrs"),
        Format::Azure => matches!(unit.as_str(), "1hour" | "1hours" | "hours"),
        Format::Google => false,
    };
    if !is_hours {
        return Ok(None);
    }
    let text = row.text(Some(column));
    let hours = text.parse::<f64>().ok().filter(|hours| hours.is_finite());
    hours.map(Some).ok_or_else(|| row.wrong(column, format!("`{text}` is not a number of hours")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn read_text(text: &str) -> Result<(Format, Sums), BillError> {
        let mut sums = Sums::default();
        read("bill.csv", None, text.as_bytes(), &mut sums).map(|format| (format, sums))
    }

    fn billed(text: &str) -> Vec<(String, String, Item, String, f64)> {
        let (format, sums) = read_text(text).unwrap();
        let bills = sums.bills("h", format.name(), &BTreeSet::new());
        let charges = bills.iter().flat_map(|bill| &bill.charges);
        charges
            .map(|charge| {
                (
                    charge.resource.cloud.clone(),
                    charge.allocation.run.clone().unwrap(),
                    charge.item,
                    charge.costs.billed.unwrap().to_string(),
                    charge.quantity,
                )
            })
            .collect()
    }

    const CUR: &str = "bill_payer_account_id,line_item_usage_start_date,line_item_usage_end_date,line_item_currency_code,line_item_unblended_cost,\
        line_item_line_item_type,line_item_usage_type,line_item_usage_amount,resource_tags\n";

    #[test]
    fn a_cost_and_usage_report_is_read_old_and_new() {
        let lines = format!(
            "{CUR}1,2026-10-01T00:00:00.000Z,2026-10-01T01:00:00.000Z,USD,1.0000000001,Usage,SpotUsage:g5.xlarge,1.0,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n\
             1,2026-10-01T01:00:00.000Z,2026-10-01T02:00:00.000Z,USD,0.5,Usage,SpotUsage:g5.xlarge,0.5,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n\
             1,2026-10-01T01:00:00.000Z,2026-10-01T02:00:00.000Z,USD,0.01,Usage,EBS:VolumeUsage.gp3,0.5,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n\
             1,2026-10-01T01:00:00.000Z,2026-10-01T02:00:00.000Z,USD,9,Usage,BoxUsage:m5.large,0.5,\"{{\"\"user_name\"\":\"\"b\"\"}}\"\n"
        );
        let one = |item, amount: &str, quantity| ("aws".to_owned(), "a".to_owned(), item, amount.to_owned(), quantity);
        assert_eq!(billed(&lines), [one(Item::Machines, "1.50", 1.5), one(Item::Disk, "0.01", 1.0)]);
        let old = "lineItem/UsageStartDate,lineItem/CurrencyCode,lineItem/UnblendedCost,lineItem/LineItemType,lineItem/UsageType,resourceTags/user:gpuplan:run\n\
            2026-10-01T00:00:00Z,USD,-3,EdpDiscount,BoxUsage:p5.48xlarge,a\n";
        assert_eq!(billed(old), [one(Item::Credit, "-3.00", 1.0)]);
    }

    #[test]
    fn focus_azure_and_google_are_told_by_their_header() {
        let focus = "BilledCost,ListCost,ContractedCost,EffectiveCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ServiceCategory,\
            ServiceName,ProviderName,BillingAccountId,ConsumedQuantity,ConsumedUnit,Tags\n\
            2.5,5,2.5,2,USD,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,Usage,Compute,Virtual Machines,Microsoft,7,24,Hours,\"{\"\"gpuplan:run\"\":\"\"a\"\"}\"\n\
            0.3,,,,USD,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,Tax,Other,,Microsoft,7,,,\"{\"\"gpuplan:run\"\":\"\"a\"\"}\"\n";
        let one = |cloud: &str, item, amount: &str, quantity| {
            (cloud.to_owned(), "a".to_owned(), item, amount.to_owned(), quantity)
        };
        assert_eq!(billed(focus), [one("azure", Item::Machines, "2.50", 24.0), one("azure", Item::Tax, "0.30", 1.0)]);
        let azure = "\u{feff}Date,CostInBillingCurrency,BillingCurrency,ChargeType,MeterCategory,MeterName,Quantity,UnitOfMeasure,Tags\n\
            10/31/2026,3.2040163817600001E-05,USD,Usage,Virtual Machines,NC24,2,1 Hour,\"\"\"gpuplan_run\"\": \"\"a\"\",\"\"x\"\":\"\"y\"\"\"\n";
        assert_eq!(billed(azure), [one("azure", Item::Machines, "0.00003204", 2.0)]);
        let google = "billing_account_id,usage_start_time,usage_end_time,cost,currency,labels,credits,service.description,sku.description\n\
            A,2026-10-01 00:00:00 UTC,2026-10-01 01:00:00 UTC,2.25,USD,\"[{\"\"key\"\":\"\"gpuplan_run\"\",\"\"value\"\":\"\"a\"\"}]\",\
            \"[{\"\"name\"\":\"\"sud\"\",\"\"amount\"\":-0.25}]\",Compute Engine,Spot Preemptible A100 GPU\n";
        assert_eq!(billed(google), [one("gcp", Item::Machines, "2.25", 1.0), one("gcp", Item::Credit, "-0.25", 1.0)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_file_line_and_column() {
        let said = |text: &str| read_text(text).err().map(|error| error.to_string()).unwrap_or_default();
        let line = |currency: &str, amount: &str, at: &str| {
            format!("{CUR}1,{at},,{currency},{amount},Usage,BoxUsage,1,\"{{\"\"user_gpuplan_run\"\":\"\"a\"\"}}\"\n")
        };
        let day = "2026-10-01T00:00:00Z";
        assert!(
            said(&line("EUR", "1", day))
                .starts_with("bill.csv line 2, column `line_item_currency_code`: the bill is in `EUR`")
        );
        assert_eq!(
            said(&line("USD", "1,5", day).replace("1,5", "\"1,5\"")),
            "bill.csv line 2, column `line_item_unblended_cost`: `1,5` is not an amount in dollars, such as 55.04"
        );
        assert_eq!(
            said(&line("USD", "1", "yesterday")),
            "bill.csv line 2, column `line_item_usage_start_date`: `yesterday` is not a valid time, such as 2026-10-01T00:00:00Z"
        );
        assert_eq!(
            said(&CUR.replace("line_item_currency_code", "x")),
            "bill.csv line 1: the column `line_item_currency_code` is missing"
        );
        assert!(
            said(&CUR.replace("resource_tags", "x"))
                .contains("the column `resource_tags` is missing: without the tag `gpuplan:run`")
        );
        assert!(said("a,b\n1,2\n").contains("is not a known export"));
        assert!(said(&format!("{CUR}1,2\n")).starts_with("bill.csv line 2: "), "{}", said(&format!("{CUR}1,2\n")));
        assert!(
            said(&line("USD", "1", day).replace("\"\"a\"\"}", "\"\"a\"\""))
                .contains("column `resource_tags`: these tags are not valid JSON")
        );
        assert_eq!(
            said(&line("USD", "1", day).replace(",BoxUsage,1,", ",BoxUsage,an hour,")),
            "bill.csv line 2, column `line_item_usage_amount`: `an hour` is not a number of hours"
        );
        let google = "usage_start_time,cost,currency,labels,credits\n\
            2026-10-01,2,USD,\"[{\"\"key\"\":\"\"gpuplan_run\"\",\"\"value\"\":\"\"a\"\"}]\",\"[{\"\"name\"\":\"\"free\"\"}]\"\n";
        assert_eq!(said(google), "bill.csv line 2, column `credits`: the credit {\"name\":\"free\"} has no amount");
    }

    /// A line of a run in a cost and usage report, and its cells that cannot be read.
    fn cur_line(currency: &str, start: &str, amount: &str, hours: &str) -> (String, Vec<String>) {
        let tags = r#""{""user_gpuplan_run"":""a""}""#;
        let line = format!("{CUR}1,{start},,{currency},\"{amount}\",Usage,BoxUsage:p5.48xlarge,{hours},{tags}\n");
        let readable = [
            (currency, matches!(currency, "USD" | "usd" | "")),
            (start, parse_moment(start).is_some()),
            // What is wrong with an amount is told without its sign.
            (amount.strip_prefix('-').unwrap_or(amount), FineUsd::parse(amount).is_ok()),
            (hours, hours.is_empty() || hours.parse::<f64>().is_ok_and(f64::is_finite)),
        ];
        (
            line,
            readable.into_iter().filter(|(_, is_readable)| !is_readable).map(|(cell, _)| format!("`{cell}`")).collect(),
        )
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_by_the_name_of_its_file(text in ".{0,80}") {
            for text in [text.clone(), format!("{CUR}{text}")] {
                match read_text(&text) {
                    Ok((_, sums)) => assert!(sums.ours <= sums.lines && sums.bills("h", "s", &BTreeSet::new()).len() as u64 <= sums.ours),
                    Err(error) => assert!(error.to_string().starts_with("bill.csv"), "{error}"),
                }
            }
        }

        #[test]
        fn a_line_is_read_to_its_amount_or_its_wrong_cell_is_quoted(
            currency in "USD|usd|EUR||[A-Z]{3}",
            start in "20[0-9]{2}-[01][0-9]-[0-3][0-9](T[0-2][0-9]:00:00Z)?|[0-9]{1,2}/[0-9]{1,2}/2026|[a-z0-9:-]{0,8}",
            amount in "-?[0-9]{1,9}([.][0-9]{1,15})?([eE]-?[0-9])?|[0-9.,e-]{0,8}",
            hours in "[0-9]{1,4}([.][0-9]{1,6})?||[a-z0-9.-]{1,5}",
        ) {
            let (text, unreadable) = cur_line(&currency, &start, &amount, &hours);
            match read_text(&text) {
                Ok((format, sums)) => {
                    assert_eq!((format, sums.lines, sums.ours, unreadable), (Format::Cur, 1, 1, Vec::new()));
                    let bills = sums.bills("h", "s", &BTreeSet::new());
                    let charges: Vec<_> = bills.iter().flat_map(|bill| &bill.charges).collect();
                    assert_eq!(charges.len(), 1);
                    assert_eq!(charges[0].costs.billed, Some(FineUsd::parse(&amount).unwrap().rounded()));
                    assert!(charges[0].start <= charges[0].end && crate::charge::utc_day(charges[0].start).starts_with(&bills[0].month));
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.starts_with("bill.csv line 2, column `line_item_"), "{said}");
                    assert!(unreadable.iter().any(|cell| said.contains(cell)), "{said}: {unreadable:?}");
                }
            }
        }
    }
}
