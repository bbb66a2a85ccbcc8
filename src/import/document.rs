//! A configuration as values, whichever of YAML, JSON and TOML it is written in.

use serde_json::Value;

use crate::yaml;

/// `None`: it is none of them, or no table.
pub fn parse(text: &str) -> Option<Value> {
    of_toml(text).or_else(|| yaml::documents(text).ok()?.into_iter().find(Value::is_object))
}

/// TOML with a table or a key. `None`: it is none.
pub fn of_toml(text: &str) -> Option<Value> {
    let table: toml::Table = text.parse().ok()?;
    (!table.is_empty()).then(|| serde_json::to_value(table).ok())?
}
