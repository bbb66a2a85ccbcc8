//! Bills as Parquet, in which AWS and Azure write their exports unless asked otherwise: only the columns that are needed, some
//! rows of each at a time (https://parquet.apache.org/docs/file-format/).

pub mod cells;
pub mod fields;
mod tests;
pub mod text;

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use csv::StringRecord;
use parquet::basic::Compression;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};

use crate::bill::columnar::cells::Cells;
use crate::bill::columnar::fields::Field;
use crate::bill::columns::Header;
use crate::bill::export::{BillError, Format, Position};
use crate::bill::sums::Sums;
use crate::bill::table::Table;

/// Beginning of the file, and of one whose list of columns is encrypted.
pub const BEGINNINGS: [[u8; 4]; 2] = [*b"PAR1", *b"PARE"];
/// Read of each column at once. Beside them, memory holds one unpacked page of each column that is needed.
const ROWS: usize = 1024;

/// Adds every line of a run to the sums. Gives whose export it was.
pub fn read(
    file: &str,
    format: Option<Format>,
    source: impl ChunkReader + 'static,
    sums: &mut Sums,
) -> Result<Format, BillError> {
    // A file that was damaged on purpose may make the Parquet reader panic instead of refusing.
    catch_unwind(AssertUnwindSafe(|| read_whole(file, format, source, sums)))
        .unwrap_or_else(|_| Err(broken(file, "what it says of itself is impossible")))
}

fn broken(file: &str, detail: &str) -> BillError {
    BillError::Place {
        file: file.to_owned(),
        at: Position::File,
        detail: format!("this Parquet file is broken or cut off: {detail}"),
    }
}

fn read_whole(
    file: &str,
    format: Option<Format>,
    source: impl ChunkReader + 'static,
    sums: &mut Sums,
) -> Result<Format, BillError> {
    let reader = SerializedFileReader::new(source).map_err(|error| broken(file, &error.to_string()))?;
    let fields = fields::fields(reader.metadata().file_metadata().schema_descr());
    let names = fields.iter().map(|field| field.name.clone());
    let all = Table::new(file, format, Header::new(Position::File, names), sums)?;
    let places = all.needed(sums.tells_parts());
    let needed: Vec<&Field> =
        fields.iter().enumerate().filter(|(place, _)| places.contains(place)).map(|(_, field)| field).collect();
    let names = needed.iter().map(|field| field.name.clone());
    let table = Table::new(file, Some(all.format), Header::new(Position::File, names), sums)?;
    let mut before = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| broken(file, &error.to_string()))?;
        let rows = usize::try_from(group.metadata().num_rows()).map_err(|error| broken(file, &error.to_string()))?;
        add(&table, &needed, group.as_ref(), before..before + rows, sums)?;
        before += rows;
    }
    Ok(table.format)
}

/// The rows of one group: `rows` of the whole file, from 0.
fn add(
    table: &Table,
    needed: &[&Field],
    group: &dyn RowGroupReader,
    rows: Range<usize>,
    sums: &mut Sums,
) -> Result<(), BillError> {
    let wrong = |field: &Field, row: usize, detail: String| BillError::Cell {
        file: table.file.to_owned(),
        at: Position::Row(row as u64),
        column: field.name.clone(),
        detail,
    };
    let mut columns = Vec::with_capacity(needed.len());
    for field in needed {
        packing(field, group).map_err(|detail| wrong(field, rows.start + 1, detail))?;
        columns.push(Cells::new(field, group).map_err(|detail| wrong(field, rows.start + 1, detail))?);
    }
    let (mut record, mut text) = (StringRecord::new(), String::new());
    for first in rows.clone().step_by(ROWS) {
        let count = ROWS.min(rows.end - first);
        for (field, cells) in needed.iter().zip(&mut columns) {
            cells.load(count).map_err(|detail| wrong(field, first + 1, detail))?;
        }
        for row in first + 1..=first + count {
            record.clear();
            for (field, cells) in needed.iter().zip(&mut columns) {
                text.clear();
                cells.write(&mut text).map_err(|detail| wrong(field, row, detail))?;
                record.push_field(&text);
            }
            table.add(Position::Row(row as u64), &record, sums)?;
        }
    }
    Ok(())
}

/// What the clouds pack with: AWS Snappy or gzip, Azure Snappy, BigQuery Snappy, gzip or Zstandard.
fn packing(field: &Field, group: &dyn RowGroupReader) -> Result<(), String> {
    for leaf in field.leaves() {
        match group.metadata().column(leaf).compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) | Compression::ZSTD(_) => {}
            other => {
                let name = format!("{other:?}");
                let name = name.split_once('(').map_or(name.as_str(), |(name, _)| name);
                return Err(format!("it is packed with {name}; Snappy, gzip and Zstandard are read"));
            }
        }
    }
    Ok(())
}
