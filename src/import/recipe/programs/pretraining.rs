//! nanotron (src/nanotron/config), MaxText (src/MaxText/configs/base.yml), Levanter (config), NeMo and Megatron-Bridge.

use super::hugging_face::ANY;
use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{Choice, Flag, GpusPerMachine, Machines, Model, Number, Optimizer};
use crate::recipe::usual::OPTIMIZERS;
use crate::recipe::words::pretrains;
use crate::recipe::words::{ACCUMULATION, GLOBAL_BATCH, LENGTH, MICRO_BATCH, PRECISION, RECOMPUTE, STEPS};
use crate::{JobRequest, Names};

/// nanotron, src/nanotron/config.
pub const NANOTRON: Dialect = Dialect {
    stack: "nanotron",
    settings: &[
        ("tokens.micro_batch_size", MICRO_BATCH),
        ("tokens.batch_accumulation_per_replica", ACCUMULATION),
        ("tokens.sequence_length", LENGTH),
        ("tokens.train_steps", STEPS),
        ("model.dtype", Choice(PRECISION, &[("bfloat16", "bf16"), ("float32", "fp32")])),
        ("model.model_config.num_hidden_layers", Number(|file| &mut file.model.layers)),
        ("model.model_config.hidden_size", Number(|file| &mut file.model.hidden)),
        ("model.model_config.num_attention_heads", Number(|file| &mut file.model.heads)),
        ("model.model_config.num_key_value_heads", Number(|file| &mut file.model.kv_heads)),
        ("model.model_config.intermediate_size", Number(|file| &mut file.model.ffn_hidden)),
        ("model.model_config.vocab_size", Number(|file| &mut file.model.vocab)),
        ("model.model_config.max_position_embeddings", Number(|file| &mut file.model.max_context)),
        ("model.model_config.tie_word_embeddings", Flag(|file| &mut file.model.tied_embeddings)),
        ("model.model_config.hidden_act", Choice(|file| &mut file.model.mlp, &[("silu", "glu")])),
    ],
    nothing: &[
        "checkpoints",
        "general",
        "logging",
        "data_stages",
        "tokenizer",
        "optimizer",
        "parallelism",
        "profiler",
        "lighteval",
        "tokens",
        "model.ddp_bucket_cap_mb",
        "model.make_vocab_size_divisible_by",
        "model.init_method",
        "model.model_config",
    ],
    has_common: false,
    complete: nanotron,
};

fn nanotron(_: &[Entry], asked: &mut JobRequest, _: Names) {
    pretrains(asked);
    asked.workload.model.kind = Some("decoder".to_owned());
    asked.workload.model.norm.get_or_insert_with(|| "rms".to_owned());
}

/// MaxText, src/MaxText/configs/base.yml.
pub const MAXTEXT: Dialect = Dialect {
    stack: "maxtext",
    settings: &[
        ("model_name", Model),
        // Its weights are fp32 unless `weight_dtype` says otherwise.
        ("dtype", Choice(PRECISION, &[("bfloat16", "bf16"), ("float32", "fp32")])),
        ("opt_type", Optimizer(OPTIMIZERS)),
        ("per_device_batch_size", MICRO_BATCH),
        ("max_target_length", LENGTH),
        ("steps", STEPS),
        ("base_num_decoder_layers", Number(|file| &mut file.model.layers)),
        ("base_emb_dim", Number(|file| &mut file.model.hidden)),
        ("base_num_query_heads", Number(|file| &mut file.model.heads)),
        // Before they were told apart from those of keys.
        ("base_num_heads", Number(|file| &mut file.model.heads)),
        ("base_num_kv_heads", Number(|file| &mut file.model.kv_heads)),
        ("base_mlp_dim", Number(|file| &mut file.model.ffn_hidden)),
        ("head_dim", Number(|file| &mut file.model.head_dim)),
        ("vocab_size", Number(|file| &mut file.model.vocab)),
        (
            "remat_policy",
            Choice(RECOMPUTE, &[("full", "full"), ("minimal", "selective"), ("minimal_flash", "selective")]),
        ),
    ],
    nothing: &[
        "base_config",
        "hardware",
        "enable_checkpointing",
        "use_iota_embed",
        "scan_layers",
        "dataset_type",
        "async_checkpointing",
        "attention",
        "base_output_directory",
        "run_name",
        "enable_profiler",
        "profiler",
        "skip_first_n_steps_for_profiler",
        "metrics_file",
        "log_period",
        "tokenizer_path",
        "tokenizer_loader",
        "dataset_path",
        "learning_rate",
        "save_period",
    ],
    complete: maxtext,
    ..ANY
};

/// It starts from nothing unless it is told weights (base.yml, `load_parameters_path`), and tunes every weight where it is told so (`use_sft`).
fn maxtext(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    let stated = |key: &str| entries.iter().find(|entry| entry.key == key);
    let has_weights =
        stated("load_parameters_path").and_then(|entry| entry.value.as_deref()).is_some_and(|path| !path.is_empty());
    if stated("use_sft").and_then(Entry::switch) == Some(true) {
        asked.workload.training.task.get_or_insert_with(|| "full-fine-tune".to_owned());
    } else if !has_weights {
        pretrains(asked);
    }
}

/// Levanter, config and src/levanter (main/train_lm.py, trainer.py).
pub const LEVANTER: Dialect = Dialect {
    stack: "jax",
    settings: &[
        ("initialize_from_hf", Model),
        ("model.num_layers", Number(|file| &mut file.model.layers)),
        ("model.hidden_dim", Number(|file| &mut file.model.hidden)),
        ("model.num_heads", Number(|file| &mut file.model.heads)),
        ("model.num_kv_heads", Number(|file| &mut file.model.kv_heads)),
        ("model.intermediate_dim", Number(|file| &mut file.model.ffn_hidden)),
        ("model.seq_len", LENGTH),
        ("model.max_seq_len", LENGTH),
        ("train_seq_len", LENGTH),
        ("trainer.train_batch_size", GLOBAL_BATCH),
        ("trainer.per_device_parallelism", MICRO_BATCH),
        ("trainer.num_train_steps", STEPS),
        ("trainer.mp", Choice(PRECISION, &[("p=f32,c=bfloat16", "bf16"), ("p=f32,c=bf16", "bf16"), ("f32", "fp32")])),
    ],
    nothing: &["data", "trainer", "optimizer", "model.type", "use_hf_model_config", "hf_save_path", "hf_save_steps"],
    has_common: false,
    complete: |_, asked, _| pretrains(asked),
};

/// NeMo and Megatron-Bridge.
pub const NEMO: Dialect = Dialect {
    stack: "nemo",
    settings: &[
        // `training=gpt3/20b` of its launcher.
        ("training", Model),
        ("trainer.devices", GpusPerMachine),
        ("trainer.num_nodes", Machines),
        ("trainer.max_steps", STEPS),
        (
            "trainer.precision",
            Choice(PRECISION, &[("bf16", "bf16"), ("bf16-mixed", "bf16"), ("16", "amp-fp16"), ("32", "fp32")]),
        ),
        ("model.micro_batch_size", MICRO_BATCH),
        ("model.global_batch_size", GLOBAL_BATCH),
        ("model.encoder_seq_length", LENGTH),
        ("model.num_layers", Number(|file| &mut file.model.layers)),
        ("model.hidden_size", Number(|file| &mut file.model.hidden)),
        ("model.num_attention_heads", Number(|file| &mut file.model.heads)),
        ("model.num_query_groups", Number(|file| &mut file.model.kv_heads)),
        ("model.ffn_hidden_size", Number(|file| &mut file.model.ffn_hidden)),
        ("model.kv_channels", Number(|file| &mut file.model.head_dim)),
        ("train.micro_batch_size", MICRO_BATCH),
        ("train.global_batch_size", GLOBAL_BATCH),
        ("train.train_iters", STEPS),
        ("model.seq_length", LENGTH),
        ("dataset.sequence_length", LENGTH),
    ],
    nothing: &[
        "exp_manager",
        "trainer",
        "model.tokenizer",
        "model.data",
        "model.optim",
        "optimizer",
        "scheduler",
        "checkpoint",
        "logger",
        "ddp",
        "rng",
    ],
    has_common: false,
    complete: nemo,
};

/// Weights to start from by the words of NeMo's examples of tuning and of Megatron-Bridge: what they are then trained for their adapters say.
const WEIGHTS: [&str; 4] =
    ["model.restore_from_path", "checkpoint.pretrained_checkpoint", "restore_from_path", "pretrained_checkpoint"];

fn nemo(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    let stated = |key: &str| entries.iter().find(|entry| entry.key == key).and_then(|entry| entry.value.as_deref());
    let has_weights = WEIGHTS.iter().any(|key| stated(key).is_some_and(|path| !path.is_empty()));
    let task = &mut asked.workload.training.task;
    match stated("model.peft.peft_scheme").map(str::to_ascii_lowercase).as_deref() {
        Some("lora") => *task = Some("lora".to_owned()),
        Some("qlora") => *task = Some("qlora".to_owned()),
        Some("none" | "null" | "") if has_weights => *task = Some("full-fine-tune".to_owned()),
        Some("none" | "null" | "") | None if !has_weights => pretrains(asked),
        Some(other) if !matches!(other, "none" | "null" | "") => {
            asked.not_planned.get_or_insert_with(|| format!("the estimate knows no adapters of the kind `{other}`"));
        }
        _ => {}
    }
}
