//! What a cloud billed for runs of gpuplan in one billing period, read from its export line by line or column by column.

mod cell;
pub mod columnar;
mod columns;
pub mod compare;
pub mod delivery;
pub mod dimensions;
mod export;
mod google;
mod item;
pub mod sums;
mod table;

use std::io::BufRead;

pub use crate::bill::export::{BillError, Format, ImportedBill, Position};
use crate::bill::sums::Sums;

/// Adds every line of a run to the sums, in memory that does not grow with the file. Gives whose export it was.
pub fn read(file: &str, format: Option<Format>, mut lines: impl BufRead, sums: &mut Sums) -> Result<Format, BillError> {
    let beginning = lines.fill_buf().map_err(|error| BillError::line(file, 1, error.to_string()))?;
    if is_columnar(beginning) {
        let detail = "Parquet is read as it is, and not packed: unpack it with `gunzip`".to_owned();
        return Err(BillError::Place { file: file.to_owned(), at: Position::File, detail });
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

/// Whether a file that begins so is Parquet, and for `columnar::read`.
pub fn is_columnar(beginning: &[u8]) -> bool {
    columnar::BEGINNINGS.iter().any(|known| beginning.starts_with(known))
}
