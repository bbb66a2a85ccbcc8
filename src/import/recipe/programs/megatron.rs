//! Megatron-LM (megatron/training/arguments.py) and what took over its words: a model is given by its sizes.

mod arguments;

use crate::recipe::entry::Entry;
use crate::recipe::setting::Dialect;
use crate::recipe::setting::Setting::{
    self, Choice, Completed, Flag, NotPlanned, Nothing, Number, Precision, Share, Switch,
};
use crate::recipe::usual::REINFORCEMENT;
use crate::recipe::words::{TASK, value};
use crate::{JobRequest, Names};
use arguments::NOTHING;
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

const LATENT: &str = "the estimate knows multi-latent attention of the models that it has by name alone";
const LAYERS: &str = "the estimate knows no model whose layers differ in kind";

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
    ("padded_vocab_size", Number(|file| &mut file.model.vocab)),
    ("moe_shared_expert_intermediate_size", Completed),
    ("moe_layer_freq", Completed),
    ("multi_latent_attention", NotPlanned(LATENT)),
    ("heterogeneous_layers_config_path", NotPlanned(LAYERS)),
    ("is_hybrid_model", NotPlanned(LAYERS)),
    ("hybrid_override_pattern", NotPlanned(LAYERS)),
    ("retro_add_retriever", NotPlanned(LAYERS)),
    ("perform_rl_step", NotPlanned(REINFORCEMENT)),
    ("skip_train", NotPlanned("it trains nothing")),
    ("sft", Switch(TASK, "full-fine-tune")),
    ("fp4_format", Precision("nvfp4")),
    ("swiglu", Switch(|file| &mut file.model.mlp, "glu")),
    ("quick_geglu", Switch(|file| &mut file.model.mlp, "glu")),
    ("squared_relu", Switch(|file| &mut file.model.mlp, "gelu")),
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
    experts(entries, asked);
}

/// Shared experts by their width together, and the layers that have no experts.
fn experts(entries: &[Entry], asked: &mut JobRequest) {
    let number = |key: &str| value(entries, key).and_then(|text| text.parse::<u32>().ok()).filter(|one| *one > 0);
    let width = number("moe_ffn_hidden_size").or_else(|| number("ffn_hidden_size"));
    if value(entries, "moe_shared_expert_intermediate_size").is_some() {
        match number("moe_shared_expert_intermediate_size").zip(width) {
            Some((all, each)) if all.is_multiple_of(each) => {
                asked.workload.model.shared_experts = Some((all / each).into());
            }
            _ => asked.leave_unread_after_all("moe_shared_expert_intermediate_size"),
        }
    }
    if let Some(frequency) = value(entries, "moe_layer_freq").filter(|text| *text != "1") {
        match dense_layers(frequency) {
            Some(dense) => asked.workload.model.dense_layers = Some(dense.into()),
            None => asked.leave_unread_after_all("moe_layer_freq"),
        }
    }
}

/// `([0]*3+[1]*58)`: three layers without experts come first. `None`: they are spread in another way.
fn dense_layers(frequency: &str) -> Option<u32> {
    let inner = frequency.trim().trim_start_matches('(').trim_end_matches(')').replace(' ', "");
    let times = |part: &str, kind: &str| match part.strip_prefix(kind)? {
        "" => Some(1),
        rest => rest.strip_prefix('*')?.parse::<u32>().ok(),
    };
    match inner.split_once('+') {
        Some((dense, sparse)) => times(sparse, "[1]").and_then(|_| times(dense, "[0]")),
        None => times(&inner, "[1]").map(|_| 0),
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
