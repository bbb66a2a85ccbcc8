//! What every table and document is made of: columns, lines, numbers for people, CSV and JSON.

pub(crate) mod csv_text;
pub mod fit;
pub mod format;
pub mod json;
pub mod style;
pub mod table;
pub mod wrap;
