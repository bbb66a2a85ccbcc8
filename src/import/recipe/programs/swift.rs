//! ms-swift, swift/llm/argument (docs, "Command Line Parameters"); its second version had other names. Its `megatron` takes the words
//! of Megatron-LM and the model by name.

use super::hugging_face::{ANY, adapters};
use crate::recipe::entry::Entry;
use crate::recipe::model;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{self, Choice, ModelOrKind, Nothing, Objective, Switch, Targets};
use crate::recipe::usual::OBJECTIVES;
use crate::recipe::words::{MICRO_BATCH, PRECISION, TASK, value};
use crate::shell::is_unknown;
use crate::{JobRequest, Names};
use gpuplan_workload::Recompute;
use gpuplan_workload::assumption::JobAssumption;

const TASKS: &[(&str, &str)] = &[("lora", "lora"), ("full", "full-fine-tune")];

/// ms-swift.
pub const SWIFT: Dialect = Dialect { stack: "", settings: SETTINGS, nothing: NOTHING, complete: swift, ..ANY };

/// Megatron-SWIFT. Its parser is not that of Megatron-LM, so the row of `stacks.toml` of that one says nothing of it.
pub const MEGATRON_SWIFT: Dialect = Dialect { complete: megatron_swift, ..SWIFT };

const SETTINGS: &[(&str, Setting)] = &[
    ("train_type", Choice(TASK, TASKS)),
    ("tuner_type", Choice(TASK, TASKS)),
    ("sft_type", Choice(TASK, TASKS)),
    // Of weights and, where nothing else is said, of the mixed precision too.
    ("torch_dtype", Choice(PRECISION, &[("bfloat16", "bf16"), ("float16", "amp-fp16"), ("float32", "fp32")])),
    ("dtype", Choice(PRECISION, &[("bf16", "bf16"), ("fp16", "amp-fp16"), ("fp32", "fp32")])),
    ("batch_size", MICRO_BATCH),
    // The model in the second version, the kind of the one that `model` names since.
    ("model_type", ModelOrKind),
    ("model_name", Nothing),
    ("target_modules", Targets),
    ("quant_bits", Choice(|file| &mut file.training.base_weights, &[("4", "nf4"), ("8", "int8")])),
    ("attn_impl", Choice(|file| &mut file.training.attention, crate::recipe::usual::ATTENTION)),
    ("attention_backend", Choice(|file| &mut file.training.attention, &[("flash", "flash")])),
    ("use_flash_attn", Switch(|file| &mut file.training.attention, "flash")),
    ("rlhf_type", Objective(OBJECTIVES)),
];

const NOTHING: &[&str] = &[
    "model_author",
    "loss_scale",
    "tools_prompt",
    "deepspeed",
    "template",
    "template_type",
    "tuner_backend",
    "ddp_backend",
    "train_dataset_sample",
    "check_dataset_strategy",
    "load_from_cache_file",
    "split_dataset_ratio",
    "val_dataset",
    "save_only_model",
    "load_safetensors",
    "save_safetensors",
    "no_save_optim",
    "no_save_rng",
    "finetune",
    "cross_entropy_loss_fusion",
    "system",
];

/// Adapters where nothing is said (swift/arguments, `tuner_type`).
fn swift(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    train("lora", entries, asked, names);
}

/// Every weight is trained, and attention is computed again, where nothing is said (docs/Megatron-SWIFT, "Command line parameters").
/// Weights that were converted lie in a folder that ends with `-mcore`.
fn megatron_swift(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    train("full", entries, asked, names);
    if asked.workload.training.recompute.is_none() {
        asked.workload.training.recompute = Some("selective".to_owned());
        let stack = "megatron-swift".to_owned();
        asked.assumed.push(JobAssumption::RecomputeOfStack { stack, recompute: Recompute::Selective });
    }
    let converted = ["load", "mcore_model"].iter().find_map(|key| value(entries, key));
    if let (None, Some(folder)) = (&asked.model_name, converted) {
        let folder = folder.trim_end_matches('/');
        model::name(folder.strip_suffix("-mcore").unwrap_or(folder), asked, names);
    }
}

fn train(usual: &str, entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let stated = ["train_type", "tuner_type", "sft_type"].iter().find_map(|key| value(entries, key));
    match stated {
        None => {
            let task = TASKS.iter().find(|(word, _)| *word == usual).map(|(_, task)| (*task).to_owned());
            asked.workload.training.task = asked.workload.training.task.take().or(task);
        }
        Some("lora" | "full") => {}
        Some(other) if is_unknown(other) => {}
        Some(other) => {
            let why = format!("the estimate knows no training of the kind `{other}`");
            asked.not_planned.get_or_insert(why);
        }
    }
    if asked.workload.training.task.as_deref() == Some("lora") {
        adapters(entries, asked, names);
    }
}
