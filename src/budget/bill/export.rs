//! What every reader of a bill shares: whose export it is, where something stands in it, what goes wrong, and what comes out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::charge::Charge;

/// One delivery: what an import has of one account and one billing period. A newer delivery of that period replaces it, unless it
/// adds to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportedBill {
    /// Of what was imported: the hash of the files, cloud, account and billing period.
    pub id: String,
    pub cloud: String,
    pub account: String,
    /// The billing period, `2026-10`: the month of the invoice, whenever its lines were used. Usage that was reported late and
    /// corrections of other months stay with the invoice that they came with.
    pub month: String,
    /// Lines of runs in it; 0: kept by an older version, which did not count them.
    #[serde(default)]
    pub lines: u64,
    /// Lines of runs, added up by run, day of usage, item, machine and tags.
    pub charges: Vec<Charge>,
    /// Lines of no run, added up by month of usage, item, machine and team.
    #[serde(default)]
    pub others: Vec<Charge>,
    /// It adds to what counts of its period, in place of replacing it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adds: bool,
    /// How many parts of the period it has, to which others may be added; 0: it was imported as a whole, and nothing is known of its parts.
    #[serde(default, skip_serializing_if = "is_none")]
    pub part_count: u64,
    /// Its row in the ledger; 0: it is in none yet.
    #[serde(skip)]
    pub number: i64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Whose export it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// AWS Cost and Usage Report, 2.0 or legacy.
    Cur,
    /// FinOps Open Cost and Usage Specification.
    Focus,
    /// Google Cloud Billing export.
    Google,
    /// Azure cost and usage details.
    Azure,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::Cur, Self::Focus, Self::Google, Self::Azure];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cur => "cur",
            Self::Focus => "focus",
            Self::Google => "google",
            Self::Azure => "azure",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == text)
    }
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    File,
    Line(u64),
    /// Of Parquet, which has no lines; the first is 1, counted over all groups of rows.
    Row(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, " line {line}"),
            Self::Row(row) => write!(f, " row {row}"),
        }
    }
}

/// Why an export cannot be read. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BillError {
    /// The export is made again with it.
    #[error("{file}{at}: the column `{column}` is missing")]
    Missing { file: String, at: Position, column: String },
    /// The file is mended, or another one taken.
    #[error("{file}{at}, column `{column}`: {detail}")]
    Cell { file: String, at: Position, column: String, detail: String },
    /// A rate of exchange is stated: nothing is converted at one that nobody states.
    #[error("{file}{at}, column `{column}`: the bill is in `{currency}`, and no rate of exchange is stated for it")]
    NoRate { file: String, at: Position, column: String, currency: String },
    /// The currency is stated beside the bill, or the export is made again with its column.
    #[error("{file}{at}: the column `{column}` is missing")]
    MissingCurrency { file: String, at: Position, column: String },
    /// The currency is stated beside the bill.
    #[error("{file}{at}, column `{column}`: it names no currency")]
    NoCurrency { file: String, at: Position, column: String },
    #[error("{file}{at}: {detail}")]
    Place { file: String, at: Position, detail: String },
    #[error("{file} is not a known export (AWS CUR, FOCUS, Google Cloud Billing, Azure cost details): {why}")]
    Unknown { file: String, why: &'static str },
    #[error("{file}: the sum is more than this program can count")]
    TooLarge { file: String },
}

impl BillError {
    pub fn cell(file: &str, line: u64, column: &str, detail: impl Into<String>) -> Self {
        Self::Cell { file: file.to_owned(), at: Position::Line(line), column: column.to_owned(), detail: detail.into() }
    }

    pub fn line(file: &str, line: u64, detail: impl Into<String>) -> Self {
        Self::Place { file: file.to_owned(), at: Position::Line(line), detail: detail.into() }
    }
}
