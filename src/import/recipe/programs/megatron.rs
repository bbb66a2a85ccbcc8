//! Megatron-LM (megatron/training/arguments.py) and what took over its words: a model is given by its sizes.

use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{self, Choice, Flag, Nothing, Number, Precision, Share, Switch};
use crate::{JobRequest, Names};
use gpuplan_workload::file::Scalar;

/// Megatron-LM, megatron/training/arguments.py.
pub const MEGATRON: Dialect =
    Dialect { stack: "megatron", settings: SETTINGS, nothing: NOTHING, has_common: true, complete };

pub const MEGATRON_DEEPSPEED: Dialect = Dialect { stack: "megatron-deepspeed", ..MEGATRON };

pub const GPT_NEOX: Dialect = Dialect {
    stack: "gpt-neox",
    settings: NEOX_SETTINGS,
    nothing: &[
        "pipe_parallel_size",
        "model_parallel_size",
        "zero_optimization",
        "optimizer",
        "fp16",
        "warmup",
        "gradient_clipping",
        "steps_per_print",
        "wall_clock_breakdown",
        "distributed_backend",
        "data_impl",
        "log_dir",
    ],
    has_common: true,
    complete: complete_neox,
};

/// The training program of AWS's samples for FSDP, which names the sizes of a model its own way.
pub const AWS_SAMPLES: Dialect = Dialect {
    stack: "fsdp",
    settings: AWS_SETTINGS,
    nothing: &[
        "tokenizer",
        "checkpoint_freq",
        "checkpoint_dir",
        "validation_freq",
        "dataset_config_name",
        "val_batch_size",
        "sharding_strategy",
        "train_split",
        "val_split",
    ],
    has_common: true,
    complete: |_, _, _| {},
};

const SETTINGS: &[(&str, Setting)] = &[
    ("num_layers", Number(|file| &mut file.model.layers)),
    ("hidden_size", Number(|file| &mut file.model.hidden)),
    ("num_attention_heads", Number(|file| &mut file.model.heads)),
    ("num_query_groups", Number(|file| &mut file.model.kv_heads)),
    ("num_key_value_heads", Number(|file| &mut file.model.kv_heads)),
    ("ffn_hidden_size", Number(|file| &mut file.model.ffn_hidden)),
    ("kv_channels", Number(|file| &mut file.model.head_dim)),
    ("vocab_size", Number(|file| &mut file.model.vocab)),
    ("pad_vocab_size_to", Number(|file| &mut file.model.vocab)),
    ("max_position_embeddings", Number(|file| &mut file.model.max_context)),
    ("num_experts", Number(|file| &mut file.model.experts)),
    ("moe_router_topk", Number(|file| &mut file.model.experts_per_token)),
    ("moe_ffn_hidden_size", Number(|file| &mut file.model.expert_ffn_hidden)),
    ("swiglu", Switch(|file| &mut file.model.mlp, "glu")),
    ("normalization", Choice(|file| &mut file.model.norm, &[("rmsnorm", "rms"), ("layernorm", "layer")])),
    ("hidden_dropout", Share(|file| &mut file.training.dropout)),
    ("untie_embeddings_and_output_weights", Nothing),
];

const NEOX_SETTINGS: &[(&str, Setting)] = &[
    ("num_layers", Number(|file| &mut file.model.layers)),
    ("hidden_size", Number(|file| &mut file.model.hidden)),
    ("num_attention_heads", Number(|file| &mut file.model.heads)),
    ("max_position_embeddings", Number(|file| &mut file.model.max_context)),
    ("norm", Choice(|file| &mut file.model.norm, &[("layernorm", "layer"), ("rmsnorm", "rms")])),
    ("no_weight_tying", Nothing),
    ("gpt_j_residual", Flag(|file| &mut file.model.parallel_residual)),
    ("fp16.enabled", Precision("amp-fp16")),
    ("fp16.fp16", Nothing),
    ("bf16.enabled", Precision("bf16")),
    ("hidden_dropout", Share(|file| &mut file.training.dropout)),
];

const AWS_SETTINGS: &[(&str, Setting)] = &[
    ("max_context_width", Number(|file| &mut file.training.sequence_length)),
    ("num_key_value_heads", Number(|file| &mut file.model.kv_heads)),
    ("intermediate_size", Number(|file| &mut file.model.ffn_hidden)),
    ("hidden_width", Number(|file| &mut file.model.hidden)),
    ("num_layers", Number(|file| &mut file.model.layers)),
    ("num_heads", Number(|file| &mut file.model.heads)),
    ("train_batch_size", Number(|file| &mut file.training.micro_batch)),
    ("model_type", Choice(|file| &mut file.model.mlp, &[("llama_v2", "glu"), ("llama_v3", "glu"), ("mistral", "glu")])),
    ("offload_activations", Switch(|file| &mut file.training.offload, "activations")),
];

const NOTHING: &[&str] = &[
    "use_mcore_models",
    "disable_bias_linear",
    "position_embedding_type",
    "rotary_base",
    "rotary_percent",
    "no_position_embedding",
    "no_masked_softmax_fusion",
    "attention_backend",
    "attention_dropout",
    "group_query_attention",
    "apply_layernorm_1p",
    "decoupled_lr",
    "decoupled_min_lr",
    "grad_reduce_in_bf16",
    "cross_entropy_loss_fusion",
    "moe_aux_loss_coeff",
    "moe_router_load_balancing_type",
    "moe_token_dispatcher_type",
    "moe_grouped_gemm",
    "no_load_optim",
    "no_load_rng",
    "fp8_amax_history_len",
    "fp8_amax_compute_algo",
    "transformer_impl",
    "wandb_entity",
    "zero_stage",
    "deepspeed",
    "deepspeed_config",
    "deepspeed_activation_checkpointing",
];

fn has(entries: &[Entry], key: &str) -> bool {
    entries.iter().any(|entry| entry.key == key)
}

/// What the parser does where nothing is said (megatron/training/arguments.py): tied embeddings, two matrices of four times the width,
/// layer norms.
fn complete(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    if !has(entries, "num_layers") {
        return;
    }
    shape(asked, !has(entries, "untie_embeddings_and_output_weights"));
    if !has(entries, "group_query_attention") {
        asked.workload.model.kv_heads = None;
    }
}

fn complete_neox(entries: &[Entry], asked: &mut JobRequest, _: Names) {
    shape(asked, !has(entries, "no_weight_tying"));
    asked.workload.training.task.get_or_insert_with(|| "pretrain".to_owned());
}

/// What a model of given sizes has besides where nothing is said.
pub fn shape(asked: &mut JobRequest, is_tied: bool) {
    let model = &mut asked.workload.model;
    model.tied_embeddings.get_or_insert(is_tied);
    let mlp = model.mlp.get_or_insert_with(|| "gelu".to_owned());
    if let (None, Some(Scalar::Text(hidden)), "gelu") = (&model.ffn_hidden, &model.hidden, mlp.as_str())
        && let Ok(hidden) = hidden.parse::<u32>()
    {
        model.ffn_hidden = hidden.checked_mul(4).map(Scalar::from);
    }
    model.norm.get_or_insert_with(|| "layer".to_owned());
    if model.kind.is_none() {
        model.kind = Some(if model.experts.is_some() { "moe" } else { "decoder" }.to_owned());
    }
}
