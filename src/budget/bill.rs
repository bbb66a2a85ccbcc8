//! `ImportedBill`: what a cloud billed for runs of gpuplan in one month, read from its export line by line or column by column.

pub mod columnar;
pub mod columns;
pub mod compare;
pub mod google;
pub mod sums;
pub mod table;

use std::fmt;
use std::io::BufRead;

use serde::{Deserialize, Serialize};

use crate::bill::sums::Sums;
use crate::charge::Charge;

/// One account, one month, of one import.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportedBill {
    /// Of what was imported: the hash of the files, cloud, account and month.
    pub id: String,
    pub cloud: String,
    pub account: String,
    /// `2026-10`.
    pub month: String,
    /// Lines of runs, added up by run, day and item.
    pub charges: Vec<Charge>,
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
pub enum At {
    File,
    Line(u64),
    /// Of Parquet, which has no lines; from one, over all groups of rows.
    Row(u64),
}

impl fmt::Display for At {
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
    #[error("{file}{at}: the column `{column}` is missing{why}")]
    Missing { file: String, at: At, column: String, why: &'static str },
    /// The file is mended, or another one taken.
    #[error("{file}{at}, column `{column}`: {detail}")]
    Cell { file: String, at: At, column: String, detail: String },
    #[error("{file}{at}: {detail}")]
    Place { file: String, at: At, detail: String },
    #[error(
        "{file}: its columns are of no export that is known: AWS CUR 2.0, FOCUS, Google Cloud Billing, Azure cost details"
    )]
    Unknown { file: String },
    #[error("{file}: the sum is more than this program can count")]
    TooLarge { file: String },
}

impl BillError {
    pub fn cell(file: &str, line: u64, column: &str, detail: impl Into<String>) -> Self {
        Self::Cell { file: file.to_owned(), at: At::Line(line), column: column.to_owned(), detail: detail.into() }
    }

    pub fn line(file: &str, line: u64, detail: impl Into<String>) -> Self {
        Self::Place { file: file.to_owned(), at: At::Line(line), detail: detail.into() }
    }
}

/// Adds every line of a run to the sums, in memory that does not grow with the file. Gives whose export it was.
pub fn read(file: &str, format: Option<Format>, mut lines: impl BufRead, sums: &mut Sums) -> Result<Format, BillError> {
    let beginning = lines.fill_buf().map_err(|error| BillError::line(file, 1, error.to_string()))?;
    if is_columnar(beginning) {
        let detail = "Parquet is read as it is, and not packed: unpack it with `gunzip`".to_owned();
        return Err(BillError::Place { file: file.to_owned(), at: At::File, detail });
    }
    let is_json = beginning.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    match (is_json, format) {
        (true, None | Some(Format::Google)) => google::read(file, lines, sums).map(|()| Format::Google),
        (true, Some(format)) => Err(BillError::line(
            file,
            1,
            format!("these are JSON lines, as of Google's export, and not the `{}` that was named", format.name()),
        )),
        (false, format) => table::read(file, format, lines, sums),
    }
}

/// Whether a file that begins so is Parquet, and for `columnar::read`.
pub fn is_columnar(beginning: &[u8]) -> bool {
    columnar::BEGINNINGS.iter().any(|known| beginning.starts_with(known))
}

/// Letters and digits alone: `lineItem/UnblendedCost` and `line_item_unblended_cost` are one column.
pub fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether a tag, label or column is the mark of a run: `gpuplan:run` in every spelling that exports have, such as
/// `resource_tags_user_gpuplan_run` and `user_gpuplan_run`.
pub fn is_run(name: &str) -> bool {
    plain(name).ends_with("gpuplanrun")
}
