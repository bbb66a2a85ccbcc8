//! A document as JSON for people and programs.

use serde::Serialize;

/// Indented, with a line end.
pub fn pretty(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("a document has text keys, and numbers that JSON can say") + "\n"
}
