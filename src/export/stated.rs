//! Keys of the workload's `[training]` and `[data]` that the plan does not hold, and that most frameworks have no flag for.

use serde_json::Value;

/// Keys of `[training]` that a `Setting` stands for, or that say how much is trained.
const NAMED: [&str; 17] = [
    "task",
    "tokens",
    "samples",
    "epochs",
    "steps",
    "sequence_length",
    "global_batch",
    "global_batch_tokens",
    "micro_batch",
    "grad_accumulation",
    "precision",
    "recompute",
    "framework",
    "framework_year",
    "compile",
    "overlap",
    "optimizer",
];

/// Stated keys of `[training]` that no `Setting` stands for, with their values. A table's keys are written `lora.rank`.
pub fn other_keys(training: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (key, value) in training.as_object().into_iter().flatten() {
        match value {
            _ if NAMED.contains(&key.as_str()) => {}
            Value::Null | Value::Bool(false) => {}
            Value::Object(inner) => {
                let inner = inner.iter().filter(|(_, value)| !value.is_null());
                all.extend(inner.map(|(name, value)| (format!("{key}.{name}"), text(value))));
            }
            _ => all.push((key.clone(), text(value))),
        }
    }
    all
}

/// Stated keys of `[data]` that programs have to be told, with their values: `data.workers`.
pub fn data_keys(data: &Value) -> Vec<(String, String)> {
    let stated = |key: &str| data.get(key).filter(|value| !value.is_null()).map(text);
    ["workers", "decode", "pinned"].into_iter().filter_map(|key| Some((format!("data.{key}"), stated(key)?))).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        _ => value.to_string(),
    }
}
