//! A document as JSON for people and programs.

use serde::Serialize;
use serde_json::Value;

/// Why every document can be written.
const IS_JSON: &str = "a document has text keys, and numbers that JSON can say";

/// Indented, with a line end.
pub fn pretty(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect(IS_JSON) + "\n"
}

/// As part of another document.
pub fn json_value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect(IS_JSON)
}
