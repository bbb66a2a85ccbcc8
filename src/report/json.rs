//! A JSON document as the program prints it.

use serde::Serialize;

/// Version of the JSON outputs. Fields may be added; a name, a unit or a meaning changes only together with it.
pub const VERSION: u32 = 1;

/// Indented, with a line break at its end.
pub fn pretty(document: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(document).map(|text| text + "\n")
}
