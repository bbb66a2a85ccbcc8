//! A JSON document as the program prints it.

use serde::Serialize;
use serde_json::Value;

/// Version of the JSON outputs. Fields may be added; a name, a unit or a meaning changes only together with it.
pub const VERSION: u32 = 1;

/// Why every document can be written.
const IS_JSON: &str = "a document has text keys, and numbers that JSON can say";

/// Indented, with a line break at its end.
pub fn pretty(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect(IS_JSON) + "\n"
}

/// As part of another document.
pub fn json_value(document: &impl Serialize) -> Value {
    serde_json::to_value(document).expect(IS_JSON)
}
