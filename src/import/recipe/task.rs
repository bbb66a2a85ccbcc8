//! What is trained, where a program says it by its name and by where its weights start.

use super::entry::Entry;
use crate::JobRequest;

/// Keys that name weights to start from.
const PRETRAINED: [&str; 8] = [
    "model_name_or_path",
    "model_name",
    "pretrained_model_name_or_path",
    "model_path",
    "model_id_or_path",
    "base_model",
    "bert_model",
    "model_id",
];
/// Keys that describe a model without weights.
const DESCRIBED: [&str; 4] = ["config_name", "model_type", "config_overrides", "tokenizer_name"];
/// Programs of transformers (examples/pytorch/language-modeling) that train from the start where they get no weights.
const LANGUAGE_MODELING: [&str; 6] =
    ["run_clm", "run_mlm", "run_plm", "run_fim", "run_t5_mlm", "run_language_modeling"];
/// Beginnings of the names of further examples of transformers and diffusers, which train every weight of a published model
/// unless their name says adapters.
const FINE_TUNING: [&str; 18] = [
    "run_glue",
    "run_xnli",
    "run_ner",
    "run_qa",
    "run_squad",
    "run_swag",
    "run_seq2seq",
    "run_summarization",
    "run_translation",
    "run_classification",
    "run_speech_recognition",
    "run_audio_classification",
    "run_image_classification",
    "run_object_detection",
    "run_semantic_segmentation",
    "train_text_to_image",
    "train_dreambooth",
    "finetune_trainer",
];

/// Whether a program is an example of transformers or diffusers, whose parser has the defaults of their trainers.
pub fn is_example(name: &str) -> bool {
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".py");
    LANGUAGE_MODELING.iter().chain(&FINE_TUNING).any(|known| stem.starts_with(known))
}

/// Sets the task of a program that does not state it: whole fine-tuning where weights are named and no adapters are.
pub fn of_program(name: &str, entries: &[Entry], asked: &mut JobRequest) {
    if asked.workload.training.task.is_some() || asked.not_planned.is_some() {
        return;
    }
    let (entries, _) = without_unused_adapters(entries);
    let stem = name.strip_suffix(".py").unwrap_or(name);
    let contains = |all: &[&str]| all.iter().any(|known| stem.contains(known));
    let has = |keys: &[&str]| entries.iter().any(|entry| keys.contains(&entry.key.as_str()));
    let (has_weights, is_language) = (has(&PRETRAINED), contains(&LANGUAGE_MODELING));
    if is_language && !has_weights && has(&DESCRIBED) {
        asked.workload.training.task = Some("pretrain".to_owned());
        asked.understand(name, "pretrain");
    } else if has_weights && (is_language || contains(&FINE_TUNING)) {
        asked.workload.training.task = Some("full-fine-tune".to_owned());
        asked.understand(name, "full-fine-tune");
    } else if has(&["lora_r", "lora_rank", "lora_target_modules", "lora_target", "lora_alpha"]) {
        // A rank that only a run would tell is one all the same.
        asked.workload.training.task = Some("lora".to_owned());
    } else if trains(&entries) && (are_switched_off(&entries) || name == "trl sft") && !freezes(&entries) {
        // TRL trains every weight where `use_peft` is off, as it is by itself (trl/trainer/model_config.py).
        asked.workload.training.task = Some("full-fine-tune".to_owned());
    }
}

/// Whether a key leaves a part of the weights as it is: `--freeze_vision_tower true`.
fn freezes(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| entry.key.contains("freeze") && entry.switch() != Some(false))
}

/// Keys that switch adapters on and off.
const ADAPTERS_ARE_USED: [&str; 6] = ["use_peft", "use_lora", "is_peft", "enable_lora", "lora_enable", "use_adapters"];

fn switches_adapters(entry: &Entry) -> bool {
    ADAPTERS_ARE_USED.contains(&entry.key.rsplit('.').next().unwrap_or_default())
}

/// Whether each key that could switch adapters on says that they are off.
fn are_switched_off(entries: &[Entry]) -> bool {
    let mut switches = entries.iter().filter(|entry| switches_adapters(entry)).map(Entry::switch).peekable();
    switches.peek().is_some() && switches.all(|switch| switch == Some(false))
}

/// Entries, and those which describe adapters that another entry switches off (`use_peft: false` beside `lora_r: 64`).
pub fn without_unused_adapters(entries: &[Entry]) -> (Vec<Entry>, Vec<Entry>) {
    let are_off = are_switched_off(entries);
    let describes = |entry: &&Entry| {
        let mut parts = entry.key.split('.');
        are_off
            && parts.any(|part| {
                part.starts_with("lora_") || matches!(part, "lora" | "peft" | "peft_config" | "lora_config")
            })
    };
    let describes = |entry: &Entry| describes(&entry) && !switches_adapters(entry);
    entries.iter().cloned().partition(|entry| !describes(entry))
}

/// Whether the words of transformers' Trainer for batch and learning show that it trains.
pub fn trains(entries: &[Entry]) -> bool {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let is_trainer = has("per_device_train_batch_size") || has("per_gpu_train_batch_size");
    is_trainer && (has("do_train") || has("learning_rate") || has("num_train_epochs") || has("max_steps"))
}
