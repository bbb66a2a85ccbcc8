//! A JSON document as the program prints it.

use serde::Serialize;

/// Version of the JSON outputs. Fields may be added; a name, a unit or a meaning changes only together with it.
pub const VERSION: u32 = 1;

/// Indented, with a line break at its end.
pub fn pretty(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document).expect("a document has text keys, and numbers that JSON can say") + "\n"
}
