//! Axolotl, docs/config-reference.

use super::hugging_face::{ANY, adapters};
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{
    AllTargets, Choice, NotPlanned, Nothing, Objective, Optimizer, Precision, Switch,
};
use crate::recipe::usual::{OBJECTIVES, OPTIMIZERS};
use crate::recipe::words::value;
use crate::recipe::words::{EPOCHS, LENGTH, OBJECTIVE, TASK};
use crate::{JobRequest, Names};
use gpuplan_workload::file::LoraSection;

/// Axolotl, docs/config-reference.
pub const AXOLOTL: Dialect = Dialect {
    stack: "axolotl",
    settings: &[
        ("adapter", Choice(TASK, &[("lora", "lora"), ("qlora", "qlora")])),
        ("sequence_len", LENGTH),
        ("num_epochs", EPOCHS),
        ("optimizer", Optimizer(OPTIMIZERS)),
        ("lora_target_linear", AllTargets),
        ("flash_attention", Switch(|file| &mut file.training.attention, "flash")),
        ("xformers_attention", Nothing),
        ("activation_offloading", Switch(|file| &mut file.training.offload, "activations")),
        ("float16", Precision("amp-fp16")),
        ("bfloat16", Precision("bf16")),
        ("fp8", Precision("fp8")),
        ("rl", Objective(OBJECTIVES)),
        ("reward_model", Switch(OBJECTIVE, "reward")),
        ("process_reward_model", NotPlanned("the estimate knows no rewards of single steps")),
        ("relora", NotPlanned("the estimate knows no ReLoRA")),
        ("relora_steps", NotPlanned("the estimate knows no ReLoRA")),
        ("base_model_config", Nothing),
    ],
    nothing: &[
        "sample_packing",
        "pad_to_sequence_len",
        "dp_shard_size",
        "dp_replicate_size",
        "tensor_parallel_size",
        "val_set_size",
        "dataset_prepared_path",
        "wandb_entity",
        "wandb_watch",
        "wandb_name",
        "wandb_log_model",
        "wandb_run_id",
        "lr_scheduler",
        "logging",
        "warmup_ratio",
        "evals_per_epoch",
        "saves_per_epoch",
        "special_tokens",
        "loss_watchdog_threshold",
        "loss_watchdog_patience",
        "lora_model_dir",
        "eval_sample_packing",
        "tokens",
        "tokenizer_type",
        "model_type",
        "tokenizer_config",
        "processor_type",
        "plugins",
        "liger_rope",
        "liger_rms_norm",
        "liger_glu_activation",
        "liger_layer_norm",
        "liger_fused_linear_cross_entropy",
        "save_first_step",
        "group_by_length",
        "train_on_inputs",
        "strict",
        "fsdp_config",
        "fsdp_version",
        "deepspeed",
        "eval_table_size",
        "early_stopping_patience",
        "debug",
        "local_rank",
        "is_llama_derived_model",
        "is_mistral_derived_model",
        "hub_model_id",
        "datasets",
        "test_datasets",
        "shuffle_merged_datasets",
        "eot_tokens",
        "ddp",
        "lora_mlp_kernel",
        "lora_qkv_kernel",
        "lora_o_kernel",
        "resize_token_embeddings_to_32x",
        "dataset_processes",
        "bnb_config_kwargs",
    ],
    complete: axolotl,
    ..ANY
};

/// Words that few other programs have. One of them may stand in anybody's file.
const OWN: [&str; 12] = [
    "sequence_len",
    "num_epochs",
    "micro_batch_size",
    "adapter",
    "sample_packing",
    "val_set_size",
    "dataset_prepared_path",
    "train_on_inputs",
    "evals_per_epoch",
    "saves_per_epoch",
    "flash_attention",
    "pad_to_sequence_len",
];

/// Without adapters Axolotl trains every weight, which a file that only shares a word with its own does not say.
fn axolotl(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    let adapter = value(entries, "adapter").unwrap_or_default();
    let training = &mut asked.workload.training;
    match adapter {
        "" if entries.iter().filter(|entry| OWN.contains(&entry.key.as_str())).count() < 2 => {}
        "" => {
            training.task = Some("full-fine-tune".to_owned());
            training.lora = LoraSection::default();
        }
        "lora" | "qlora" => adapters(entries, asked, names),
        other => {
            asked.not_planned.get_or_insert_with(|| format!("the estimate knows no adapters of the kind `{other}`"));
        }
    }
    if asked.workload.training.base_weights.is_some()
        && !matches!(asked.workload.training.task.as_deref(), Some("lora" | "qlora"))
    {
        asked.workload.training.base_weights = None;
    }
}
