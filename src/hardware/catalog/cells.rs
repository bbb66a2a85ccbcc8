//! Cells of a table of the catalog that may be empty, or missing in older files.

use crate::error::HardwareError;
use gpuplan_embedded::Table;

/// A number, if one stands there.
pub(crate) fn optional(cell: &str) -> Result<Option<f64>, ()> {
    match cell {
        "" => Ok(None),
        text => text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0).map(Some).ok_or(()),
    }
}

/// Cells of a column that files of before it do not have.
pub(crate) fn newer<'a>(table: &'a Table, name: &str) -> Result<Vec<&'a str>, HardwareError> {
    if table.names().any(|known| known == name) {
        Ok(table.column(name)?.collect())
    } else {
        Ok(vec![""; table.rows()])
    }
}
