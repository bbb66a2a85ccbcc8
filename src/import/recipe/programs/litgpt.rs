//! LitGPT (litgpt/args.py, litgpt/finetune, config_hub): a command, and the configuration of it.

use super::hugging_face::ANY;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{self, Choice, GpusPerMachine, Machines, Model, Number, Rank, Share};
use crate::recipe::words::{EPOCHS, GLOBAL_BATCH, LENGTH, MICRO_BATCH, PRECISION, STEPS};
use crate::{JobRequest, Names};

/// A configuration, and `litgpt finetune`, which trains adapters.
pub const LITGPT: Dialect =
    Dialect { stack: "litgpt", settings: SETTINGS, nothing: NOTHING, has_common: true, complete: by_its_keys };

/// `litgpt finetune_full`
pub const LITGPT_FULL: Dialect = Dialect { complete: |_, asked, _| is("full-fine-tune", asked), ..LITGPT };

/// `litgpt pretrain`
pub const LITGPT_PRETRAIN: Dialect = Dialect { complete: |_, asked, _| is("pretrain", asked), ..LITGPT };

const SETTINGS: &[(&str, Setting)] = &[
    ("checkpoint_dir", Model),
    ("model_name", Model),
    ("devices", GpusPerMachine),
    ("num_nodes", Machines),
    (
        "precision",
        Choice(
            PRECISION,
            &[("bf16-true", "pure-bf16"), ("bf16-mixed", "bf16"), ("16-mixed", "amp-fp16"), ("32-true", "fp32")],
        ),
    ),
    (
        "quantize",
        Choice(
            |file| &mut file.training.base_weights,
            &[("bnb.nf4", "nf4"), ("bnb.nf4-dq", "nf4"), ("bnb.int8-training", "int8")],
        ),
    ),
    ("train.global_batch_size", GLOBAL_BATCH),
    ("train.micro_batch_size", MICRO_BATCH),
    ("train.epochs", EPOCHS),
    ("train.max_steps", STEPS),
    ("train.max_tokens", Number(|file| &mut file.training.tokens)),
    ("train.max_seq_length", LENGTH),
    ("lora_r", Rank),
    ("lora_dropout", Share(|file| &mut file.training.lora.dropout)),
];

const NOTHING: &[&str] =
    &["data", "train", "eval", "optimizer", "out_dir", "seed", "logger_name", "tokenizer_dir", "resume", "lora_alpha"];

fn is(task: &str, asked: &mut JobRequest) {
    asked.workload.training.task = Some(task.to_owned());
}

/// A rank is one of adapters, weights to start from without one are trained whole, and a model by its name alone is trained from the start.
fn by_its_keys(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    let is_command = entries.iter().any(|entry| entry.key == "model");
    let training = &asked.workload.training;
    let task = match (training.lora.rank.is_some() || has("lora_r") || is_command, has("checkpoint_dir")) {
        (true, _) if training.base_weights.as_deref() == Some("nf4") => "qlora",
        (true, _) => "lora",
        (false, true) => "full-fine-tune",
        (false, false) => "pretrain",
    };
    is(task, asked);
    // Under adapters the estimate's own format is the one of frozen weights in sixteen bits.
    let precision = &mut asked.workload.training.precision;
    if task != "full-fine-tune" && task != "pretrain" && precision.as_deref() == Some("pure-bf16") {
        *precision = Some("bf16".to_owned());
    }
    (ANY.complete)(entries, asked, names);
}
