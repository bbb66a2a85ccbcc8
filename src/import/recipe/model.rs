//! Names of models and of the matrices that have adapters, as configurations write them.

use super::setting::Outcome;
use crate::shell::is_unknown;
use crate::{JobRequest, Names};

/// Folders that say nothing of what lies in them.
const GENERIC: [&str; 8] = ["hf", "model", "models", "weights", "final", "latest", "snapshots", "checkpoint"];

/// End of the file in which a model without weights is described (`configs/transformer_340M.json`).
const DESCRIPTION: &str = ".json";

/// Files of weights by the names that transformers and PEFT give them (transformers/utils/__init__.py).
const WEIGHTS: [&str; 4] = ["pytorch_model.bin", "model.safetensors", "tf_model.h5", "flax_model.msgpack"];

/// A model by its name on the Hub or its path. One that the catalog lacks is kept as it is written where it may be a name.
pub fn name(text: &str, asked: &mut JobRequest, names: Names) -> Outcome {
    if is_placeholder(text) {
        return Outcome::Unread;
    }
    // `ORG/NAME@REVISION`
    let text = text.split_once('@').map_or(text, |(name, _)| name);
    // Of `$HOME/models/Qwen2.5-7B` the folder is known and where it lies is not.
    let known = if is_unknown(text) { text.rsplit('/').next().unwrap_or_default() } else { text };
    if text.is_empty() || is_unknown(known) || (known.len() < text.len() && !has_size(known)) {
        return Outcome::Unread;
    }
    let text = known;
    let is_path = text.starts_with(['/', '.', '~']) || text.matches('/').count() > 1 || text.ends_with(DESCRIPTION);
    let candidates = if is_path { folders(text) } else { vec![text.to_owned()] };
    let mut found = candidates.iter().find_map(|name| names.models.named(name));
    let Some(own) = candidates.first() else { return Outcome::Unread };
    // `saves/qwen2_vl-2b/pretrain-2026-03-04`: what was made of the model in whose folder it lies.
    if found.is_none() && is_path && !has_size(own) && names.models.made_of(own).is_none() {
        let above = text.split('/').rev().skip(1).filter(|folder| has_size(folder));
        found = above.into_iter().find_map(|folder| names.models.named(folder));
    }
    // A folder without a size in its name may be anything, unless it has the name of a model in it.
    if found.is_none() && is_path && !has_size(own) && names.models.made_of(own).is_none() {
        return Outcome::Unread;
    }
    asked.model_name = Some(text.to_owned());
    asked.workload.model.preset = Some(found.map_or_else(|| own.clone(), |(row, _)| row.id.clone()));
    Outcome::Understood
}

/// Beginnings of names that somebody has yet to fill in.
const TO_FILL_IN: [&str; 6] = ["path_to_", "your_model", "replace_", "change_me", "changeme", "fill_in"];

/// `__MODEL__`, `<model>`, `{{ model }}`, `YOUR_MODEL`, `path/to/model`, Hydra's `???`: what somebody has yet to fill in.
fn is_placeholder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    // The braces of `${HOME}` are a variable's.
    let plain = text.replace("${", "$");
    let is_marked = |open: &str, close: &str| plain.contains(open) && plain.contains(close);
    !text.contains(char::is_alphanumeric)
        || (text.len() > 4 && text.starts_with("__") && text.ends_with("__"))
        || is_marked("<", ">")
        || is_marked("{", "}")
        || TO_FILL_IN.iter().any(|beginning| lower.replace('-', "_").starts_with(beginning))
        || (lower.contains("path/to/") && !has_size(lower.rsplit('/').next().unwrap_or_default()))
}

/// A teacher, where the catalog has it: an estimate of distillation needs its size.
pub fn teacher(text: &str, asked: &mut JobRequest, names: Names) -> Outcome {
    if text.is_empty() || is_unknown(text) {
        return Outcome::Unread;
    }
    let folder = folders(text).into_iter().find_map(|name| names.models.named(&name));
    match names.models.named(text).or(folder) {
        Some((row, _)) => {
            asked.workload.training.objective = Some("distill".to_owned());
            asked.workload.training.teacher = Some(row.id.clone());
        }
        None => {
            asked.not_planned.get_or_insert_with(|| format!("it learns from `{text}`, a teacher that no catalog has"));
        }
    }
    Outcome::Understood
}

/// What a path may name, the nearest first: its last folder, and the one above where the last says nothing;
/// `models--ORG--NAME/snapshots/HASH` as the Hub's cache lays it out.
fn folders(path: &str) -> Vec<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let Some(cached) = parts.iter().find_map(|part| part.strip_prefix("models--")) {
        return vec![cached.replacen("--", "/", 1)];
    }
    let says_nothing = |part: &str| {
        let lower = part.to_ascii_lowercase();
        GENERIC.contains(&lower.as_str())
            || WEIGHTS.contains(&lower.as_str())
            || (lower.contains("-of-") && [".bin", ".safetensors"].iter().any(|end| lower.ends_with(end)))
            || is_step(&lower)
            || (lower.len() >= 32 && lower.chars().all(|letter| letter.is_ascii_hexdigit()))
    };
    let named = parts.iter().rev().find(|part| !says_nothing(part));
    // ModelScope writes `1___5B` for 1.5B.
    named.map(|part| part.strip_suffix(DESCRIPTION).unwrap_or(part).replace("___", ".")).into_iter().collect()
}

/// `checkpoint-500`, `iter_0264000`, `global_step_40`: a state of what lies in the folder above.
fn is_step(folder: &str) -> bool {
    const WORDS: [&str; 6] = ["checkpoint", "iter", "step", "global_step", "epoch", "ckpt"];
    let word = folder.trim_end_matches(|letter: char| letter.is_ascii_digit());
    folder.starts_with("checkpoint-")
        || (word.len() < folder.len() && WORDS.contains(&word.trim_end_matches(['-', '_'])))
}

/// `7b`, `0.5B`, `350m` among the words of a name.
fn has_size(name: &str) -> bool {
    name.to_ascii_lowercase().split(['-', '_', ' ']).any(|word| {
        let number = word.strip_suffix(['b', 'm']).unwrap_or_default();
        !number.is_empty() && number.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    })
}

/// `q_proj,v_proj`, `all`. `None`: matrices that are not told apart.
pub fn targets(text: &str) -> Option<Vec<String>> {
    if matches!(text.to_ascii_lowercase().as_str(), "all" | "all-linear") {
        return Some(vec!["all-linear".to_owned()]);
    }
    let all: Vec<String> = text.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let is_known = |word: &String| {
        matches!(word.as_str(), "q_proj" | "k_proj" | "v_proj" | "o_proj" | "up_proj" | "gate_proj" | "down_proj")
    };
    (!all.is_empty() && all.iter().all(is_known)).then_some(all)
}
