//! `Fields`: checked reading of a configuration's keys. Absent, null, of the wrong type and out of range are told apart.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::model::huggingface::error::ConfigError;

pub(crate) const WIDTH: RangeInclusive<u32> = 1..=1 << 24;
pub(crate) const LAYERS: RangeInclusive<u32> = 1..=10_000;
pub(crate) const HEADS: RangeInclusive<u32> = 1..=4096;
pub(crate) const HEAD_DIM: RangeInclusive<u32> = 1..=1 << 16;
pub(crate) const VOCABULARY: RangeInclusive<u32> = 1..=10_000_000;
pub(crate) const CONTEXT: RangeInclusive<u32> = 1..=1 << 30;
pub(crate) const EXPERTS: RangeInclusive<u32> = 1..=100_000;
pub(crate) const IMAGE_SIDE: RangeInclusive<u32> = 1..=1 << 14;

/// One size for all layers, where a file repeats it for each of them.
fn of_layers(value: &Value) -> &Value {
    match value.as_array().map(Vec::as_slice) {
        Some([first, rest @ ..]) if rest.iter().all(|other| other == first) => first,
        _ => value,
    }
}

pub(super) struct Fields<'a> {
    pub map: &'a Map<String, Value>,
    /// `text_config.` for a nested configuration.
    pub prefix: &'static str,
    /// Class defaults that a nested configuration leaves out.
    pub defaults: &'static [(&'static str, u32)],
}

impl Fields<'_> {
    fn present(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub fn is_present(&self, key: &str) -> bool {
        self.present(key).is_some()
    }

    /// Stands in the file as null, which says that the class default does not hold.
    pub fn is_null(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(Value::is_null)
    }

    pub fn impossible(&self, key: &str, value: impl ToString, why: impl Into<String>) -> ConfigError {
        let mut shown: String = value.to_string().chars().take(61).collect();
        if shown.chars().count() > 60 {
            shown.truncate(shown.char_indices().nth(57).map_or(0, |(at, _)| at));
            shown.push_str("...");
        }
        ConfigError::Impossible { key: format!("{}{key}", self.prefix), value: shown, why: why.into() }
    }

    pub fn missing(&self, key: &str) -> ConfigError {
        ConfigError::Missing { key: format!("{}{key}", self.prefix) }
    }

    /// The first of `keys` that is present, a whole number in `range`.
    pub fn whole(&self, keys: &[&'static str], range: RangeInclusive<u32>) -> Result<Option<u32>, ConfigError> {
        if let Some((key, value)) = keys.iter().find_map(|key| self.present(key).map(|value| (key, of_layers(value)))) {
            let number =
                value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| range.contains(number));
            let why = || format!("it must be a whole number from {} to {}", range.start(), range.end());
            return number.map(Some).ok_or_else(|| self.impossible(key, value, why()));
        }
        Ok(self.defaults.iter().find(|(key, _)| keys.contains(key)).map(|(_, value)| *value))
    }

    /// The same, missing by the name of the first key where none of them is there. `keys` are one at least.
    pub fn required(&self, keys: &[&'static str], range: RangeInclusive<u32>) -> Result<u32, ConfigError> {
        self.whole(keys, range)?.ok_or_else(|| self.missing(keys[0]))
    }

    pub fn flag(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        self.present(key).map_or(Ok(default), |value| {
            value.as_bool().ok_or_else(|| self.impossible(key, value, "it must be true or false"))
        })
    }

    pub fn string(&self, key: &str) -> Result<Option<&str>, ConfigError> {
        self.present(key)
            .map(|value| value.as_str().ok_or_else(|| self.impossible(key, value, "it must be text")))
            .transpose()
    }

    /// Words of a list; what is no list of words has none.
    pub fn words(&self, key: &str) -> Vec<&str> {
        let items = self.present(key).and_then(Value::as_array);
        items.map(|items| items.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }

    /// Whole numbers of a list; an absent list is empty.
    pub fn list(&self, key: &str) -> Result<Vec<u64>, ConfigError> {
        let Some(value) = self.present(key) else { return Ok(Vec::new()) };
        let numbers = value.as_array().and_then(|items| items.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>());
        numbers.ok_or_else(|| self.impossible(key, value, "it must be a list of whole numbers"))
    }
}
