//! What changed between two plans, two budgets or two price lists, and which input it comes from.

mod budgets;
mod change;
pub mod guardrail;
mod plans;
mod prices;
mod rented;

use serde_json::Value;

pub(crate) use crate::diff::change::{Amount, behind, changed, differing, of_inputs};
pub use crate::diff::change::{Cause, Change, ChangePart, ChangedLine, Diff, DiffError, Mark, Reason};
pub use crate::diff::rented::Rented;

/// Newest version of the documents that are compared.
const VERSION: u64 = 1;

/// What kind of document this is.
fn document_kind(document: &Value) -> Option<&'static str> {
    match document {
        Value::Object(_) if document.get("recommendation").is_some() => Some("a plan"),
        Value::Object(_) if document.get("lines").is_some() && document.get("total").is_some() => Some("a budget"),
        _ => prices::offers(document).map(|_| "a price list"),
    }
}

/// The kind of a document that this program can compare.
fn comparable_kind(side: &'static str, document: &Value) -> Result<&'static str, DiffError> {
    let unknown = |detail: String| DiffError::Unknown { side, detail };
    if let Some(newer) = document.get("version").and_then(Value::as_u64).filter(|version| *version > VERSION) {
        let detail =
            format!("it has version {newer}, written by a newer gpuplan; this program reads version {VERSION}");
        return Err(unknown(detail));
    }
    document_kind(document)
        .ok_or_else(|| unknown("it is not a plan, a budget or a list of prices of gpuplan".to_owned()))
}

/// Compares what `plan`, `budget` or `prices` wrote with `--output json`.
pub fn diff(before: &Value, after: &Value) -> Result<Diff, DiffError> {
    match (comparable_kind("the first", before)?, comparable_kind("the second", after)?) {
        ("a plan", "a plan") => plans::diff(before, after),
        ("a budget", "a budget") => budgets::diff(before, after),
        ("a price list", "a price list") => prices::diff(before, after),
        (one, other) => Err(DiffError::Kinds(one, other)),
    }
}

#[cfg(test)]
mod tests;
