//! Rows of any list as JSON and CSV, and what the tables of the catalog share.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::text::format::thousands;
use crate::text::json::pretty;
use crate::text::table::Column;

/// Rows that a command lists.
pub trait Listed: Serialize + Sized {
    /// The document that `-o json` prints: a version, and the rows under the name of what they are.
    fn list(rows: &[Self]) -> impl Serialize;
}

/// Where a row of the catalog comes from.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RowOrigin<'a> {
    pub notes: &'a str,
    /// Where the figures were read.
    pub source: &'a str,
    /// When they were read, as a date.
    pub as_of: &'a str,
}

/// Any rows as the document that lists them.
pub fn json<T: Listed>(rows: &[T]) -> String {
    pretty(&T::list(rows))
}

/// Any rows as CSV: `columns` are a title and where its value stands in the row's JSON.
pub fn csv<T: Serialize>(rows: &[T], columns: &[(&str, &str)]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|(title, _)| title))?;
    for row in rows {
        let row = serde_json::to_value(row).map_err(std::io::Error::from)?;
        writer.write_record(columns.iter().map(|(_, pointer)| row.pointer(pointer).map_or(String::new(), cell)))?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(cell).collect::<Vec<_>>().join(";"),
        other => other.to_string(),
    }
}

pub(crate) fn is_shown(columns: &[Column], title: &str) -> bool {
    columns.iter().any(|column| column.title == title && column.from_width == 0)
}

pub(crate) fn or_dash(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| thousands(number.round() as i128))
}

/// Azure's prefix says nothing; a narrow table leaves it out.
pub(crate) fn short_machine_name(name: &str, is_wide: bool) -> &str {
    if is_wide { name } else { name.strip_prefix("Standard_").unwrap_or(name) }
}
