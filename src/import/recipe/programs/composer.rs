//! Composer's programs: llm-foundry (scripts/train) and OLMo (olmo/config.py), which took over its words.

use super::hugging_face::{ANY, adapters};
use super::megatron::shape;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Either, Flag, Model, Number, Optimizer, Rank};
use crate::recipe::words::{GLOBAL_BATCH, LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE, pretrains, value};
use crate::{JobRequest, Names};
use gpuplan_workload::file::Scalar;

pub const COMPOSER: Dialect = Dialect {
    stack: "",
    settings: &[
        ("device_train_microbatch_size", MICRO_BATCH),
        ("global_train_batch_size", GLOBAL_BATCH),
        ("model.max_sequence_length", LENGTH),
        (
            "precision",
            Choice(PRECISION, &[("amp_bf16", "bf16"), ("amp_fp16", "amp-fp16"), ("amp_fp8", "fp8"), ("fp32", "fp32")]),
        ),
        ("model.d_model", Number(|file| &mut file.model.hidden)),
        ("model.n_heads", Number(|file| &mut file.model.heads)),
        ("model.n_layers", Number(|file| &mut file.model.layers)),
        ("model.vocab_size", Number(|file| &mut file.model.vocab)),
        ("model.weight_tying", Flag(|file| &mut file.model.tied_embeddings)),
        ("model.pretrained_model_name_or_path", Model),
        ("model.peft_config.r", Rank),
        ("optimizer.name", Optimizer(&[("decoupled_adamw", "adamw"), ("adamw", "adamw")])),
        ("fsdp_config.activation_checkpointing", Either(RECOMPUTE, "full", "none")),
    ],
    nothing: &[
        "model",
        "max_duration",
        "data_local",
        "data_remote",
        "data",
        "tokenizer",
        "train_loader",
        "eval_loader",
        "scheduler",
        "optimizer",
        "algorithms",
        "eval_interval",
        "eval_first",
        "eval_subset_num_batches",
        "evaluators",
        "device_eval_batch_size",
        "global_seed",
        "fsdp_config",
        "fsdp",
        "progress_bar",
        "log_to_console",
        "console_log_interval",
        "callbacks",
        "loggers",
        "wandb",
        "save_folder",
        "load_path",
        "max_grad_norm",
        "speed_monitor",
        "autoresume",
        "dist_timeout",
        "icl_seq_len",
        "dry_run",
    ],
    complete: composer,
    ..ANY
};

fn composer(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    adapters(entries, asked, names);
    duration(value(entries, "max_duration").unwrap_or_default(), asked);
    if value(entries, "model.pretrained_model_name_or_path").is_some() {
        let is_new = value(entries, "model.pretrained").is_some_and(|text| text == "false");
        let task = if is_new { "pretrain" } else { "full-fine-tune" };
        asked.workload.training.task.get_or_insert_with(|| task.to_owned());
    }
    let number = |key: &str| value(entries, key).and_then(|text| text.parse::<f64>().ok());
    let (Some(hidden), true) = (number("model.d_model"), asked.workload.model.layers.is_some()) else { return };
    pretrains(asked);
    // OLMo's gated block has half of its ratio in each of two matrices (olmo/model.py, `output_multiplier`).
    let is_gated = value(entries, "model.activation_type") == Some("swiglu");
    let ratio = number("model.mlp_ratio").or_else(|| number("model.expansion_ratio")).unwrap_or(4.0);
    let width = ratio * hidden * if is_gated { 0.5 } else { 1.0 };
    let model = &mut asked.workload.model;
    if is_gated {
        model.mlp = Some("glu".to_owned());
    }
    if width.fract() == 0.0 && width > 0.0 && width < f64::from(u32::MAX) {
        model.ffn_hidden = Some(Scalar::from(width.to_string()));
    }
    shape(asked, true);
}

/// `63900ba`, `2ep`; a number alone counts steps.
fn duration(text: &str, asked: &mut JobRequest) {
    let plain = text.replace('_', "");
    let unit = plain.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let number = plain[..plain.len() - unit.len()].to_owned();
    if number.is_empty() {
        return;
    }
    let training = &mut asked.workload.training;
    let slot = match unit {
        "" | "ba" => &mut training.steps,
        "ep" => &mut training.epochs,
        "sp" => &mut training.samples,
        "tok" => &mut training.tokens,
        other => return asked.leave_unread("max_duration", other),
    };
    *slot = Some(Scalar::from(number.clone()));
    asked.understand("max_duration", text);
}
