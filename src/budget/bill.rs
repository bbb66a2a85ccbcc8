//! What a cloud billed for runs of gpuplan in one billing period, read from its export line by line or column by column.

mod cell;
pub mod columnar;
mod columns;
pub mod compare;
pub mod delivery;
pub mod dimensions;
mod export;
mod google;
pub mod increment;
mod item;
pub mod parts;
pub mod sums;
pub mod survey;
mod table;

use std::io::BufRead;

pub use crate::bill::export::{BillError, Format, ImportedBill, Position};
use crate::bill::sums::Sums;

/// Adds every line of a run to the sums, in memory that does not grow with the file. Gives whose export it was.
pub fn read(file: &str, format: Option<Format>, mut lines: impl BufRead, sums: &mut Sums) -> Result<Format, BillError> {
    let beginning = lines.fill_buf().map_err(|error| BillError::line(file, 1, error.to_string()))?;
    if let Some(detail) = unreadable(beginning) {
        return Err(BillError::Place { file: file.to_owned(), at: Position::File, detail: detail.to_owned() });
    }
    let is_json = beginning.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    match (is_json, format) {
        (true, None | Some(Format::Google)) => google::read(file, lines, sums).map(|()| Format::Google),
        (true, Some(format)) => Err(BillError::line(
            file,
            1,
            format!("these are JSON lines, as in Google's export, and not `{}` as stated", format.name()),
        )),
        (false, format) => table::read(file, format, lines, sums),
    }
}

/// What a file that begins so is, where it cannot be read line by line, and what makes it so.
fn unreadable(beginning: &[u8]) -> Option<&'static str> {
    let first = beginning.iter().find(|byte| !byte.is_ascii_whitespace());
    if is_columnar(beginning) {
        Some("Parquet is read as it is, and not packed: unpack it with `gunzip`")
    } else if beginning.starts_with(b"PK") {
        Some("this is a zip archive or an Excel workbook: `unzip` it, or save the sheet as CSV")
    } else if beginning.starts_with(&[0xff, 0xfe]) || beginning.starts_with(&[0xfe, 0xff]) {
        Some("this is UTF-16: `iconv -f UTF-16 -t UTF-8 FILE >bill.csv` makes it readable")
    } else if first == Some(&b'[') {
        Some("this is one list of JSON, and a row is a line of its own: `jq -c '.[]' FILE >bill.json` makes it so")
    } else {
        None
    }
}

/// Whether a file that begins so is Parquet, and for `columnar::read`.
pub fn is_columnar(beginning: &[u8]) -> bool {
    columnar::BEGINNINGS.iter().any(|known| beginning.starts_with(known))
}
