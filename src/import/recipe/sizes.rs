//! A language model that a program of one's own describes by its sizes and names by nothing.

use super::entry::Entry;
use super::words::pretrains;
use crate::{JobRequest, Names};
use gpuplan_workload::file::{ModelSection, Scalar};

const LAYERS: [&str; 5] = ["num_hidden_layers", "num_layers", "n_layers", "n_layer", "layers"];
const HIDDEN: [&str; 8] = ["hidden_size", "d_model", "n_embd", "n_embed", "emb_dim", "dim", "hidden_dim", "model_dim"];
const HEADS: [&str; 5] = ["num_attention_heads", "num_heads", "n_heads", "n_head", "n_q_heads"];
const HEADS_OF_KEYS: [&str; 4] = ["num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head"];
const FFN: [&str; 5] = ["intermediate_size", "d_ff", "ffn_dim", "ffn_hidden_size", "ff_dim"];
/// What only a model of texts has.
const OF_TEXTS: [&str; 8] = [
    "vocab_size",
    "context_length",
    "context_len",
    "block_size",
    "max_seq_len",
    "max_seq_length",
    "max_position_embeddings",
    "tokenizer",
];
/// What a model of pictures, sounds or measurements has.
const OF_OTHERS: [&str; 10] = [
    "patch_size",
    "image_size",
    "img_size",
    "in_channels",
    "num_classes",
    "e_layers",
    "d_layers",
    "n_mels",
    "resolution",
    "pred_len",
];
/// Words of keys and names that start from weights which are there.
const FROM_WEIGHTS: [&str; 7] =
    ["sft", "finetun", "fine_tun", "pretrained", "from_checkpoint", "base_checkpoint", "init_from"];

fn number(entries: &[Entry], keys: &[&str]) -> Option<u32> {
    let found = keys.iter().find_map(|key| entries.iter().find(|entry| entry.key == *key))?;
    found.value.as_deref()?.parse().ok().filter(|number| *number > 0)
}

/// Whether the keys are the sizes of a language model.
pub fn are_of_language_model(entries: &[Entry]) -> bool {
    let has = |keys: &[&str]| keys.iter().any(|key| entries.iter().any(|entry| entry.key == *key));
    let has_sizes = [LAYERS.as_slice(), &HIDDEN, &HEADS].iter().all(|keys| number(entries, keys).is_some());
    has_sizes && has(&OF_TEXTS) && !has(&OF_OTHERS)
}

/// Sets the model by its sizes, where nothing names one.
pub fn read(entries: &[Entry], asked: &mut JobRequest, names: Names) {
    if asked.model_name.is_some() || asked.workload.model != ModelSection::default() || !are_of_language_model(entries)
    {
        return;
    }
    let mut take = |keys: &[&str]| {
        let size = number(entries, keys)?;
        for key in keys {
            if let Some(entry) = entries.iter().find(|entry| entry.key == *key) {
                asked.understand_after_all(&entry.shown);
            }
        }
        Some(Scalar::from(size))
    };
    let sizes = ModelSection {
        layers: take(&LAYERS),
        hidden: take(&HIDDEN),
        heads: take(&HEADS),
        kv_heads: take(&HEADS_OF_KEYS),
        ffn_hidden: take(&FFN),
        vocab: take(&["vocab_size"]),
        head_dim: take(&["head_dim"]),
        ..ModelSection::default()
    };
    asked.workload.model = sizes;
    let says = |text: &str| FROM_WEIGHTS.iter().any(|word| text.to_ascii_lowercase().contains(word));
    let has_adapters = asked.workload.training.lora.rank.is_some() || names.path.to_ascii_lowercase().contains("lora");
    if !has_adapters && !says(names.path) && !entries.iter().any(|entry| says(&entry.shown)) {
        pretrains(asked);
    }
}
