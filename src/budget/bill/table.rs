//! Bills as tables: AWS CUR 2.0 and legacy, FOCUS, Azure cost details, and Google's export with flat columns. Here from CSV.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use csv::{ReaderBuilder, StringRecord};
use jiff::Timestamp;
use serde_json::Value;

use crate::bill::cell::{a_day_after, braced, normalized, numbers_as_text, parse_moment, parse_period};
use crate::bill::columns::{AmountColumns, Columns, EffectiveColumns, FeeColumns, Header, RunColumns, UsageColumns};
use crate::bill::dimensions::{self, Dimensions, RunTag};
use crate::bill::export::{BillError, Format, Position};
use crate::bill::item::{Labels, classify};
use crate::bill::parts::Identity;
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
    pub fn new(file: &'a str, format: Option<Format>, header: Header, sums: &Sums) -> Result<Self, BillError> {
        let unknown = || BillError::Unknown { file: file.to_owned(), why: header.unlike() };
        let format = format.or_else(|| header.format()).ok_or_else(unknown)?;
        let columns = Columns::new(file, format, &header, &sums.mark, sums.unnamed.is_some())?;
        Ok(Self { file, format, header, columns })
    }

    /// The columns that are read; with `parts`, those too that tell lines apart.
    pub fn needed(&self, parts: bool) -> BTreeSet<usize> {
        let identity = &self.columns.identity;
        let more = identity.part.iter().chain(&identity.more).filter(|_| parts);
        self.columns.needed().into_iter().chain(more.copied()).collect()
    }

    /// One line of the bill. One of a run has to be right; of any other, what cannot be read is counted as unread.
    pub fn add(&self, at: Position, record: &StringRecord, sums: &mut Sums) -> Result<(), BillError> {
        sums.lines += 1;
        let row = LineCells { file: self.file, format: self.format, at, header: &self.header, record };
        let column = self.columns.amounts.currency;
        let currency = row.text(column);
        let names_none = currency.is_empty() && !sums.knows(currency);
        let column = || column.map(|column| self.header.names[column].clone()).unwrap_or_default();
        let no_currency = || BillError::NoCurrency { file: self.file.to_owned(), at, column: column() };
        let tags = Tags::from_line(&row, &self.columns.run, &sums.mark)?;
        let part = row.text(self.columns.identity.part);
        let identity = sums.tells_parts().then(|| Identity::new(Some(part), sums.mark.name(), record.iter()));
        let Some(run) = tags.run else {
            let lines =
                if names_none { Err(no_currency()) } else { bill_lines(&row, &self.columns, None, tags.own, identity) };
            sums.add_others(currency, lines);
            return Ok(());
        };
        sums.ours += 1;
        if names_none {
            return Err(no_currency());
        }
        if !sums.knows(currency) {
            return Err(BillError::NoRate {
                file: self.file.to_owned(),
                at,
                column: column(),
                currency: currency.to_owned(),
            });
        }
        for line in bill_lines(&row, &self.columns, Some(run), tags.own, identity)? {
            sums.add_in(currency, line).ok_or_else(|| BillError::TooLarge { file: self.file.to_owned() })?;
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
    /// Some exporters write words where there is nothing.
    fn text(&self, column: Option<usize>) -> &str {
        let text = column.and_then(|column| self.record.get(column)).map(str::trim).unwrap_or_default();
        if matches!(text, "NULL" | "null" | "None" | "\\N") { "" } else { text }
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
    let table = Table::new(file, format, Header::new(Position::Line(1), names), sums)?;
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| broken(&error))? {
        let line = record.position().map_or(0, csv::Position::line);
        table.add(Position::Line(line), &record, sums)?;
    }
    Ok(table.format)
}

/// What the tags of a line say.
#[derive(Default)]
struct Tags {
    /// `None`: no run.
    run: Option<String>,
    own: BTreeMap<String, String>,
}

impl Tags {
    fn from_line(row: &LineCells, columns: &RunColumns, mark: &RunTag) -> Result<Self, BillError> {
        let mut found = Self::default();
        if let Some(column) = columns.tags {
            let text = row.text(Some(column));
            let has_run = mark.may_be_in(text);
            if has_run || dimensions::OTHERS_HAVE.iter().any(|word| text.contains(word)) {
                match serde_json::from_str::<Value>(&braced(text)) {
                    Ok(tags) => found = Self { run: mark.run_of(&tags), own: dimensions::own_tags(&tags, mark) },
                    Err(error) if has_run => {
                        return Err(row.wrong(column, format!("these tags are not valid JSON: {error}")));
                    }
                    Err(_) => {}
                }
            }
        }
        let own = row.text(columns.tag);
        if !own.is_empty() {
            found.run = Some(own.to_owned());
        }
        Ok(found)
    }
}

/// What was rented, where and how.
fn dimensions_of(row: &LineCells, columns: &Columns, mut tags: BTreeMap<String, String>, is_ours: bool) -> Dimensions {
    let place = &columns.place;
    let said = |column| Some(row.text(column).to_owned()).filter(|text: &String| !text.is_empty());
    let usage = row.text(columns.usage.usage);
    for (name, column) in &place.own_tags {
        tags.extend(said(Some(*column)).map(|value| (name.clone(), value)));
    }
    if !is_ours {
        tags.retain(|name, _| dimensions::OTHERS_HAVE.contains(&name.as_str()));
    }
    let instance_type = said(place.instance_type).or_else(|| dimensions::instance_in_json(row.text(place.details)));
    Dimensions {
        tags,
        region: said(place.region).or_else(|| said(place.region_before)),
        instance_type: instance_type.or_else(|| dimensions::instance_of_usage(usage).map(str::to_owned)),
        gpu: dimensions::gpu_of_sku(usage).filter(|_| row.format == Format::Google).map(str::to_owned),
        purchase: dimensions::purchase(row.format, row.text(place.terms), usage),
        invoice: said(place.invoice),
    }
}

fn bill_lines(
    row: &LineCells,
    columns: &Columns,
    run: Option<String>,
    tags: BTreeMap<String, String>,
    identity: Option<Identity>,
) -> Result<Vec<BillLine>, BillError> {
    let start = row.time(columns.start)?;
    let end = match columns.end.filter(|column| !row.text(Some(*column)).is_empty()) {
        Some(column) => row.time(column)?,
        None => a_day_after(start),
    };
    let usage = &columns.usage;
    let labels =
        Labels { category: row.text(usage.category), service: row.text(usage.service), usage: row.text(usage.usage) };
    let item = classify(row.format, labels);
    let AmountColumns { billed, list, contracted, effective, credits, .. } = &columns.amounts;
    let line = BillLine {
        cloud: cloud(row, columns),
        account: row.text(columns.account).to_owned(),
        period: period(row, columns.period)?,
        dimensions: dimensions_of(row, columns, tags, run.is_some()),
        run,
        identity,
        start,
        end: end.max(start),
        item,
        hours: hours(row, usage, item)?,
        billed: row.amount(*billed)?,
        list: row.optional(*list)?,
        contracted: row.optional(*contracted)?,
        effective: effective_cost(row, effective, labels.category)?,
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

/// `None`: the export does not say.
fn period(row: &LineCells, column: Option<usize>) -> Result<Option<String>, BillError> {
    let Some(column) = column.filter(|column| !row.text(Some(*column)).is_empty()) else { return Ok(None) };
    let text = row.text(Some(column));
    let wrong = || row.wrong(column, format!("`{text}` is not a valid billing period, such as 2026-10-01 or 202610"));
    parse_period(text).map(Some).ok_or_else(wrong)
}

/// By the type of the line, since CUR fills the columns of the others with zeros in some exports (docs.aws.amazon.com/cur,
/// "Savings Plans details" and "Reservation details"), and of a fee what no line used, as the query of AWS for amortized cost counts it
/// (Well-Architected CUR query library). `None`: as billed.
fn effective_cost(row: &LineCells, columns: &EffectiveColumns, category: &str) -> Result<Option<FineUsd>, BillError> {
    if columns.every.is_some() {
        return row.optional(columns.every);
    }
    let FeeColumns { committed, used, unused_upfront, unused_recurring, reservation } = columns.fees;
    let both = |first, second, sign: i128| {
        let (first, second) = (row.optional(first)?, row.optional(second)?);
        let sum = |(first, second): (FineUsd, FineUsd)| first.checked_add(second.times_billionths(sign * BILLION)?);
        Ok(first.zip(second).and_then(sum))
    };
    match normalized(category).as_str() {
        "savingsplancoveredusage" => row.optional(columns.savings_plan),
        "discountedusage" => row.optional(columns.reservation),
        // It takes back what covered lines were billed at the on-demand rate, or pays for hours that are effective elsewhere.
        "savingsplannegation" | "savingsplanupfrontfee" => Ok(Some(FineUsd::ZERO)),
        "savingsplanrecurringfee" => both(committed, used, -1),
        "rifee" => both(unused_upfront, unused_recurring, 1),
        "fee" if !row.text(reservation).is_empty() => Ok(Some(FineUsd::ZERO)),
        _ => Ok(None),
    }
}

const BILLION: i128 = 1_000_000_000;

/// One amount, one `{"amount": ...}`, or a list of them; `{}` is none.
fn credit_amounts(text: &str) -> Result<Vec<FineUsd>, String> {
    if !text.starts_with(['[', '{']) {
        return FineUsd::parse(text).map(|amount| vec![amount]).map_err(|error| error.to_string());
    }
    let list: Value = serde_json::from_str(&numbers_as_text(text))
        .map_err(|error| format!("these credits are not valid JSON: {error}"))?;
    let amount = |credit: &Value| {
        let text = credit["amount"].as_str().ok_or_else(|| format!("the credit {credit} has no amount"))?;
        FineUsd::parse(text).map_err(|error| error.to_string())
    };
    match &list {
        Value::Object(credit) if credit.is_empty() => Ok(Vec::new()),
        Value::Array(credits) => credits.iter().map(amount).collect(),
        credit => Ok(vec![amount(credit)?]),
    }
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
mod tests;
