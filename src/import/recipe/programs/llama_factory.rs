//! LLaMA-Factory, src/llamafactory/hparams.

use super::hugging_face::{ANY, adapters};
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{
    Choice, Completed, Gpus, NotPlanned, Nothing, Objective, Precision, Rank, Switch, Targets,
};
use crate::recipe::usual::OBJECTIVES;
use crate::recipe::words::value;
use crate::recipe::words::{EPOCHS, RECOMPUTE, TASK};
use crate::shell::is_unknown;
use crate::{JobRequest, Names};

/// Programs that took over its words: what they leave open is what Hugging Face's Trainer makes of it.
pub const LIKE_LLAMA_FACTORY: Dialect = Dialect { stack: "hf-trainer", ..LLAMA_FACTORY };

/// LLaMA-Factory, src/llamafactory/hparams.
pub const LLAMA_FACTORY: Dialect = Dialect {
    stack: "llama-factory",
    settings: &[
        ("finetuning_type", Choice(TASK, &[("lora", "lora"), ("full", "full-fine-tune")])),
        ("lora_target", Targets),
        ("stage", Objective(OBJECTIVES)),
        ("pref_beta", Nothing),
        (
            "flash_attn",
            Choice(
                |file| &mut file.training.attention,
                &[("fa2", "flash"), ("sdpa", "flash"), ("fa3", "flash3"), ("auto", "flash")],
            ),
        ),
        ("disable_gradient_checkpointing", Switch(RECOMPUTE, "none")),
        ("use_galore", Completed),
        ("use_apollo", Completed),
        ("use_badam", Completed),
        ("use_adam_mini", Completed),
        ("use_muon", Completed),
        ("mixture_of_depths", NotPlanned("the estimate knows no mixture of depths")),
        ("freeze_trainable_layers", NotPlanned("the estimate knows no training of a part of the layers")),
        ("use_llama_pro", NotPlanned("the estimate knows no training of a part of the layers")),
        ("num_epochs", EPOCHS),
        ("fp8", Precision("fp8")),
        ("quantization_bit", Choice(|file| &mut file.training.base_weights, &[("4", "nf4"), ("8", "int8")])),
        ("peft_config.name", Choice(TASK, &[("lora", "lora")])),
        ("peft_config.r", Rank),
        ("peft_config.target_modules", Targets),
        (
            "quant_config.quantization_bit",
            Choice(|file| &mut file.training.base_weights, &[("4", "nf4"), ("8", "int8")]),
        ),
        ("ray_num_workers", Gpus),
    ],
    nothing: &[
        "pref_loss",
        "use_v1_kernels",
        "batching_strategy",
        "quantization_method",
        "fp8_backend",
        "peft_config.lora_alpha",
        "template",
        "max_samples",
        "overwrite_cache",
        "deepspeed",
        "model_class",
        "kernel_config",
        "train_dataset",
        "dataset_dir",
        "image_max_pixels",
        "video_max_pixels",
        "freeze_vision_tower",
        "freeze_multi_modal_projector",
        "ray_run_name",
        "ray_storage_path",
        "resources_per_worker",
        "placement_strategy",
        "dist_config",
        "sample_backend",
        "max_new_tokens",
        "eval_dataset",
        "val_size",
        "predict_with_generate",
        "ddp_find_unused_parameters",
        "tokenized_path",
        "streaming",
        "media_dir",
        "eval_on_start",
        "infer_dtype",
    ],
    complete: llama_factory,
    ..ANY
};

/// Its own optimizers, by the switches that turn them on (hparams/finetuning_args.py). They win over `optim`.
const OPTIMIZERS: [(&str, &str); 5] = [
    ("use_galore", "GaLore"),
    ("use_apollo", "APOLLO"),
    ("use_badam", "BAdam"),
    ("use_adam_mini", "Adam-mini"),
    ("use_muon", "Muon"),
];

/// Words without which nothing is learnt: data, and how to learn from them.
const LEARNING: [&str; 11] = [
    "stage",
    "do_train",
    "dataset",
    "train_dataset",
    "learning_rate",
    "num_train_epochs",
    "num_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "micro_batch_size",
    "gradient_accumulation_steps",
];
const NO_TRAINING: &str = "no key says that it trains: neither data nor how to learn from them";

/// Words that few other programs have.
const OWN: [&str; 5] = ["template", "cutoff_len", "dataset_dir", "lora_target", "plot_loss"];

fn llama_factory(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let is_on = |key: &str| entries.iter().any(|entry| entry.key == key && entry.switch() == Some(true));
    if let Some((_, name)) = OPTIMIZERS.iter().find(|(key, _)| is_on(key)) {
        asked.workload.training.optimizer = None;
        asked.unknown_optimizer = Some((*name).to_owned());
    }
    let kind = value(entries, "finetuning_type").or_else(|| value(entries, "peft_config.name"));
    let is_new = value(entries, "model_class").is_some();
    // A file of how to merge, to ask or to serve has the words of a model alone.
    let learns = LEARNING.iter().any(|key| value(entries, key).is_some());
    if asked.program.is_none() && !learns {
        asked.workload.training.task = None;
        asked.not_planned.get_or_insert_with(|| NO_TRAINING.to_owned());
        return;
    }
    let trains = value(entries, "do_train").is_none_or(|text| text.eq_ignore_ascii_case("true"));
    match kind {
        Some("lora") => adapters(entries, asked, names),
        Some("full") => {}
        // What a variable says only a run would tell.
        Some(other) if is_unknown(other) => {}
        None if is_new => asked.workload.training.task = Some("full-fine-tune".to_owned()),
        // A file that has a `stage` and none of its other words is somebody's own.
        None if asked.program.is_none() && !OWN.iter().any(|key| value(entries, key).is_some()) => {}
        // `finetuning_type` is lora where nothing is said (hparams/finetuning_args.py).
        None => {
            asked.workload.training.task.get_or_insert_with(|| "lora".to_owned());
            adapters(entries, asked, names);
        }
        Some(other) => {
            let why = format!("the estimate knows no training of the kind `{other}`");
            asked.not_planned.get_or_insert(why);
        }
    }
    // ORPO and SimPO have no reference (hparams/finetuning_args.py, `pref_loss`).
    let pairs = asked.workload.training.objective.as_deref() == Some("dpo");
    if pairs && matches!(value(entries, "pref_loss"), Some("orpo" | "simpo")) {
        asked.workload.training.objective = Some("orpo".to_owned());
    }
    // Frozen weights that are stored quantized already, or by another method than the estimate's.
    if !trains || (value(entries, "do_train").is_none() && !is_new && value(entries, "do_predict").is_some()) {
        asked.not_planned.get_or_insert_with(|| "it trains nothing".to_owned());
    }
}
