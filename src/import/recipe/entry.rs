//! `Entry`: a key of a configuration or a flag, with its value and where it stands.

use std::collections::HashMap;

use serde_json::Value;

/// A key and what stands behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As tables spell it: `_` for `-`, `.` between sections.
    pub key: String,
    /// `None`: a flag alone.
    pub value: Option<String>,
    /// Where it stands, as it is shown: `--bf16`, `qlora.yaml: bf16`.
    pub shown: String,
}

impl Entry {
    pub fn flag(key: &str, value: Option<String>) -> Self {
        let key = key.replace('-', "_");
        Self { shown: format!("--{key}"), key, value }
    }

    /// Whether it is switched on. `None`: it is no switch.
    pub fn switch(&self) -> Option<bool> {
        match self.value.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("true" | "1" | "yes" | "on") => Some(true),
            Some("false" | "0" | "no" | "off" | "null" | "none" | "") => Some(false),
            Some(_) => None,
        }
    }
}

/// Every value of a document by the path of its keys. Lists of plain values are one value with commas.
pub fn entries(document: &Value, file: Option<&str>) -> Vec<Entry> {
    let mut all = Vec::new();
    flatten(document, "", file, &mut all);
    interpolate(&mut all);
    all
}

/// `${max_seq_len}` of OmegaConf is the value of that key; what names no key stays as it is written.
fn interpolate(all: &mut [Entry]) {
    const DEEPEST: usize = 5;
    for _ in 0..DEEPEST {
        let mut first = HashMap::new();
        for entry in all.iter() {
            first.entry(entry.key.as_str()).or_insert(&entry.value);
        }
        let known: Vec<(usize, String)> = all
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| {
                let path = entry.value.as_deref()?.strip_prefix("${")?.strip_suffix('}')?;
                let value = (*first.get(path)?).clone()?;
                (entry.value.as_ref() != Some(&value)).then_some((at, value))
            })
            .collect();
        if known.is_empty() {
            return;
        }
        for (at, value) in known {
            all[at].value = Some(value);
        }
    }
}

fn flatten(value: &Value, path: &str, file: Option<&str>, all: &mut Vec<Entry>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let text = match value {
        Value::Object(map) => {
            for (key, value) in map {
                flatten(value, &below(key), file, all);
            }
            return;
        }
        Value::Array(list) if list.iter().any(|one| one.is_object() || one.is_array()) => {
            for (index, one) in list.iter().enumerate() {
                flatten(one, &below(&index.to_string()), file, all);
            }
            return;
        }
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(","),
        // A key with nothing behind it says nothing.
        Value::Null => return,
        other => plain(other),
    };
    let shown = file.map_or_else(|| path.to_owned(), |file| format!("{file}: {path}"));
    all.push(Entry { key: path.replace('-', "_"), value: Some(text), shown });
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
