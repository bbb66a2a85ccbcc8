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
    }
}

/// Keys that switch adapters on and off.
const ADAPTERS_ARE_USED: [&str; 6] = ["use_peft", "use_lora", "is_peft", "enable_lora", "lora_enable", "use_adapters"];

/// Entries, and those which describe adapters that another entry switches off (`use_peft: false` beside `lora_r: 64`).
pub fn without_unused_adapters(entries: &[Entry]) -> (Vec<Entry>, Vec<Entry>) {
    let end = |entry: &Entry| entry.key.rsplit('.').next().unwrap_or_default().to_owned();
    let switches: Vec<Option<bool>> =
        entries.iter().filter(|entry| ADAPTERS_ARE_USED.contains(&end(entry).as_str())).map(Entry::switch).collect();
    let are_off = !switches.is_empty() && switches.iter().all(|switch| *switch == Some(false));
    let describes = |entry: &&Entry| {
        let mut parts = entry.key.split('.');
        are_off
            && parts.any(|part| {
                part.starts_with("lora_") || matches!(part, "lora" | "peft" | "peft_config" | "lora_config")
            })
    };
    let describes = |entry: &Entry| describes(&entry) && !ADAPTERS_ARE_USED.contains(&end(entry).as_str());
    entries.iter().cloned().partition(|entry| !describes(entry))
}

/// Whether the words of transformers' Trainer for batch and learning show that it trains.
pub fn trains(entries: &[Entry]) -> bool {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let is_trainer = has("per_device_train_batch_size") || has("per_gpu_train_batch_size");
    is_trainer && (has("do_train") || has("learning_rate") || has("num_train_epochs") || has("max_steps"))
}
