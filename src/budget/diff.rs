//! What changed between two plans, two budgets or two price lists, and which input it comes from.

mod budgets;
mod change;
mod figure;
pub mod guardrail;
mod plans;
mod prices;
mod rented;

use serde_json::Value;

pub(crate) use crate::diff::change::{Amount, behind, changed, differing, input_changes};
pub use crate::diff::change::{Cause, Change, ChangePart, ChangedLine, Diff, DiffError, Mark, Reason};
pub use crate::diff::figure::{Figure, FigureChange};
pub use crate::diff::rented::Rented;

/// Newest version of a budget and of a price list that is compared.
const VERSION: u64 = 1;

/// What kind of document this is.
fn document_kind(document: &Value) -> Option<&'static str> {
    match document {
        Value::Object(_) if document.get("recommendation").is_some() => Some("a plan"),
        Value::Object(_) if document.get("lines").is_some() && document.get("total").is_some() => Some("a budget"),
        _ => prices::offers(document).map(|_| "a price list"),
    }
}

/// The kind of a document that this program can compare. Plans are read with their version elsewhere.
fn comparable_kind(side: &'static str, document: &Value) -> Result<&'static str, DiffError> {
    let (kind, version) = (document_kind(document), document.get("version").and_then(Value::as_u64));
    let detail = match (kind, version) {
        (Some("a plan"), _) => return Ok("a plan"),
        (_, Some(newer)) if newer > VERSION => {
            format!("it has version {newer}, written by a newer gpuplan; this program reads version {VERSION}")
        }
        (Some(kind), _) => return Ok(kind),
        (None, _) => "it is not a plan, a budget or a list of prices of gpuplan".to_owned(),
    };
    Err(DiffError::Unknown { side, detail })
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
