//! Which program a configuration file is for: its keys say so.

use serde_json::Value;

use super::entry::Entry;
use super::programs::{
    ACCELERATE, ANY, AXOLOTL, COMPOSER, DEEPSPEED, DIFFUSERS, DIFFUSION_PIPE, GPT_NEOX, HUGGING_FACE, LEVANTER,
    LIGHTNING, LITGPT, LLAMA_FACTORY, MAXTEXT, MLX, NANOTRON, NEMO, OUMI, TORCHTITAN, TORCHTUNE, VERL,
};
use super::setting::Dialect;
use super::sizes;

/// Keys of which each group means a program, from the most particular to the least.
const KINDS: [(&[&str], &Dialect); 53] = [
    (&["device_train_microbatch_size"], &COMPOSER),
    (&["training.seq_len"], &TORCHTITAN),
    (&["model.flavor"], &TORCHTITAN),
    (&["model._component_"], &TORCHTUNE),
    (&["policy_model._component_"], &TORCHTUNE),
    (&["tokens.micro_batch_size"], &NANOTRON),
    (&["actor_rollout_ref.model.path"], &VERL),
    (&["model.model_name", "data.train.datasets.0.dataset_name"], &OUMI),
    (&["model.model_name", "training.trainer_type"], &OUMI),
    (&["base_model", "per_device_train_batch_size"], &HUGGING_FACE),
    (&["base_model", "sequence_len"], &AXOLOTL),
    (&["base_model", "datasets.0.path"], &AXOLOTL),
    (&["base_model", "adapter"], &AXOLOTL),
    (&["base_model", "rl"], &AXOLOTL),
    (&["base_model"], &ANY),
    (&["model_name_or_path", "finetuning_type"], &LLAMA_FACTORY),
    (&["model_name_or_path", "stage"], &LLAMA_FACTORY),
    (&["model_name_or_path", "template"], &LLAMA_FACTORY),
    (&["model", "model_class"], &LLAMA_FACTORY),
    (&["model_name_or_path"], &HUGGING_FACE),
    (&["trainer.mp", "model.type"], &LEVANTER),
    (&["trainer.mp", "trainer.train_batch_size"], &LEVANTER),
    // Hugging Face's programs that translate have a `max_target_length` too.
    (&["max_target_length", "per_device_batch_size"], &MAXTEXT),
    (&["max_target_length", "base_output_directory"], &MAXTEXT),
    (&["max_target_length", "base_config"], &MAXTEXT),
    (&["max_target_length", "remat_policy"], &MAXTEXT),
    (&["base_emb_dim"], &MAXTEXT),
    (&["num_layers", "hidden_size", "num_attention_heads", "train_micro_batch_size_per_gpu"], &GPT_NEOX),
    (&["num_layers", "hidden_size", "num_attention_heads", "pipe_parallel_size"], &GPT_NEOX),
    (&["num_layers", "hidden_size", "num_attention_heads", "train_iters"], &GPT_NEOX),
    (&["model.micro_batch_size"], &NEMO),
    (&["train.micro_batch_size", "train.global_batch_size", "checkpoint_dir"], &LITGPT),
    (&["train.micro_batch_size", "train.global_batch_size", "model_name"], &LITGPT),
    (&["train.micro_batch_size", "train.train_iters"], &NEMO),
    (&["train.global_batch_size", "train.train_iters"], &NEMO),
    (&["trainer.devices", "trainer.accelerator"], &LIGHTNING),
    (&["trainer.devices", "trainer.max_epochs"], &LIGHTNING),
    (&["trainer.devices", "trainer.max_steps"], &LIGHTNING),
    (&["trainer.devices", "trainer.precision"], &LIGHTNING),
    (&["trainer.devices", "trainer.strategy"], &LIGHTNING),
    (&["trainer.accumulate_grad_batches", "trainer.precision"], &LIGHTNING),
    (&["pretrained_model_name_or_path", "network_module"], &DIFFUSERS),
    (&["micro_batch_size_per_gpu", "model.type"], &DIFFUSION_PIPE),
    (&["distributed_type"], &ACCELERATE),
    (&["train_micro_batch_size_per_gpu"], &DEEPSPEED),
    (&["zero_optimization.stage"], &DEEPSPEED),
    (&["train_batch_size", "optimizer.type"], &DEEPSPEED),
    (&["train_batch_size", "scheduler.type"], &DEEPSPEED),
    (&["train_batch_size", "steps_per_print"], &DEEPSPEED),
    (&["fine_tune_type", "iters"], &MLX),
    (&["model_name", "per_device_train_batch_size"], &ANY),
    (&["model", "per_device_train_batch_size"], &ANY),
    // Hugging Face's arguments, with a model that the program has of elsewhere.
    (&["per_device_train_batch_size", "num_train_epochs"], &HUGGING_FACE),
];

/// The tables of a configuration. `None`: it is none of a training program.
pub fn of_document(document: &Value, entries: &[Entry]) -> Option<&'static Dialect> {
    let has = |key: &&str| entries.iter().any(|entry| entry.key == **key);
    // Axolotl and Hugging Face's parser have no sections: a model beside `training.per_device_train_batch_size` is somebody's own.
    let is_own = |keys: &[&str]| {
        let is_batch = |entry: &Entry| {
            let section = entry.key.strip_suffix(".batch_size").or_else(|| entry.key.strip_suffix(".micro_batch_size"));
            section.is_some_and(|section| ["training", "train", "trainer", "hyperparameters"].contains(&section))
        };
        let has_section = entries.iter().any(|entry| is_batch_of_section(entry) || is_batch(entry));
        (keys.starts_with(&["base_model"]) || keys == ["model_name_or_path"]) && has_section
    };
    let kinds = KINDS.iter().filter(|_| document.is_object());
    kinds.into_iter().find(|(keys, _)| keys.iter().all(has) && !is_own(keys)).map(|(_, dialect)| *dialect)
}

/// Keys by which such a configuration names a model of others.
const NAMES_OF_MODEL: [&str; 13] = [
    "model",
    "model.name",
    "model.student",
    "name_or_path",
    "model_name_or_path",
    "base_model",
    "model_name",
    "model_path",
    "model_id",
    "base_model_name",
    "base_model_id",
    "base",
    "pretrained_model_name_or_path",
];

/// Words for sections of which nothing is the training's.
const OTHERS: [&str; 14] = [
    "eval",
    "evaluation",
    "validation",
    "val",
    "test",
    "inference",
    "generation",
    "rollout",
    "vllm",
    "teacher",
    "ref",
    "reference",
    "reward",
    "judge",
];

/// Words of Hugging Face's that mean the same however deep they stand.
const NESTED: [&str; 14] = [
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "learning_rate",
    "bf16",
    "fp16",
    "optim",
    "gradient_checkpointing",
    "load_in_4bit",
    "load_in_8bit",
    "max_seq_length",
    "lora_alpha",
    "lora_dropout",
];

fn is_of_adapters(sections: &str) -> bool {
    sections.split(['.', '_']).any(|word| matches!(word, "lora" | "peft" | "qlora"))
}

/// A configuration of somebody's own with sections of Hugging Face's arguments (`trainer.per_device_train_batch_size`), or of a batch, a rate
/// of learning and an amount of work beside a model: its keys without their sections. Another is left as it is, and no dialect is known.
pub fn without_sections(entries: Vec<Entry>) -> (Vec<Entry>, Option<&'static Dialect>) {
    let ends = |all: &[&str]| {
        let is_of = |entry: &Entry| {
            entry.key.split_once('.').is_some_and(|(_, rest)| all.contains(&rest)) || all.contains(&entry.key.as_str())
        };
        entries.iter().any(is_of)
    };
    let of_trainer = entries.iter().any(is_batch_of_section);
    let batches =
        ["batch_size", "micro_batch_size", "train_batch_size", "batch_size_per_device", "per_device_batch_size"];
    let amounts = ["epochs", "num_epochs", "num_train_epochs", "max_steps", "num_steps", "total_steps", "max_epochs"];
    // Without a model it is one that counts its cards.
    let plain_keys = || entries.iter().map(|entry| Entry { key: end(&entry.key).to_owned(), ..entry.clone() });
    let is_described = || sizes::are_of_language_model(&plain_keys().collect::<Vec<_>>());
    let has_subject = || ends(&NAMES_OF_MODEL) || ends(&["gpus", "num_gpus"]) || is_described();
    let learns = ends(&["learning_rate", "lr", "peak_lr", "max_lr"]);
    let own = ends(&batches) && learns && ends(&amounts) && has_subject();
    if !of_trainer && !own {
        return (entries, None);
    }
    // Sections in sections are left out where a word of Hugging Face's stands in them: `train.train_config.num_train_epochs`.
    let is_own = |(sections, rest): &(&str, &str)| {
        let is_flat = !sections.contains('.') || NESTED.contains(rest) || is_of_adapters(sections);
        is_flat && !sections.split(['.', '_']).any(|word| OTHERS.contains(&word))
    };
    let plain = |entry: Entry| {
        let Some((section, rest)) = entry.key.rsplit_once('.').filter(is_own) else {
            return entry;
        };
        let key = match (section, rest) {
            ("model" | "lm", "name" | "path" | "dir" | "model_dir" | "model_path" | "name_or_path" | "base" | "id") => {
                "model_name_or_path"
            }
            (section, "r" | "rank") if is_of_adapters(section) => "lora_r",
            (section, "target_modules") if is_of_adapters(section) => "lora_target_modules",
            (_, rest) => rest,
        };
        Entry { key: key.to_owned(), ..entry }
    };
    let dialect: &'static Dialect = if of_trainer { &HUGGING_FACE } else { &ANY };
    (entries.into_iter().map(plain).collect(), Some(dialect))
}

/// A key without its sections.
fn end(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn is_batch_of_section(entry: &Entry) -> bool {
    [".per_device_train_batch_size", ".per_device_batch_size"].iter().any(|end| entry.key.ends_with(end))
}
