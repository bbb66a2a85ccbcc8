//! Names of models and of the matrices that have adapters, as configurations write them.

use super::setting::Outcome;
use crate::shell::is_unknown;
use crate::{JobRequest, Names};

/// Endings of names on the Hugging Face Hub that change weights and no sizes.
const SAME_SIZES: [&str; 15] = [
    "-hf",
    "-instruct",
    "-base",
    "-chat-hf",
    "-chat",
    "-it",
    "-pt",
    "-2507",
    "-thinking",
    "-bnb-4bit",
    "-unsloth",
    "-gptq",
    "-awq",
    "-gptq-int4",
    "-unsloth-bnb-4bit",
];

/// A model by its name on the Hub or its path. One that the catalog lacks is kept as it is written.
pub fn name(text: &str, asked: &mut JobRequest, names: Names) -> Outcome {
    let is_path = text.starts_with(['/', '.', '~']);
    let short = text.trim_end_matches('/').rsplit('/').next().unwrap_or(text);
    if short.is_empty() || is_unknown(text) {
        return Outcome::Unread;
    }
    let found = [text, short].into_iter().find_map(|name| names.models.find(name)).or_else(|| {
        let mut plain = short.to_ascii_lowercase();
        plain = plain.strip_prefix("meta-").map_or(plain.clone(), str::to_owned);
        loop {
            if let Some(row) = names.models.find(&plain) {
                return Some(row);
            }
            let shorter = SAME_SIZES.iter().find_map(|end| plain.strip_suffix(end)).map(str::to_owned);
            plain = shorter?;
        }
    });
    if found.is_none() && is_path {
        return Outcome::Unread;
    }
    asked.model_name = Some(text.to_owned());
    asked.workload.model.preset = Some(found.map_or_else(|| text.to_owned(), |row| row.id.clone()));
    Outcome::Understood
}

/// `q_proj,v_proj`, `all`. `None`: matrices that are not told apart.
pub fn targets(text: &str) -> Option<Vec<String>> {
    if matches!(text, "all" | "all-linear") {
        return Some(vec!["all-linear".to_owned()]);
    }
    let all: Vec<String> = text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let is_known = |word: &String| {
        matches!(word.as_str(), "q_proj" | "k_proj" | "v_proj" | "o_proj" | "up_proj" | "gate_proj" | "down_proj")
    };
    (!all.is_empty() && all.iter().all(is_known)).then_some(all)
}
