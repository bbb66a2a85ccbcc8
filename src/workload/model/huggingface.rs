//! Reads a Hugging Face `config.json`: the sizes of a published model, whatever its authors call them.

mod diffusers;
mod error;
mod families;
pub(crate) mod fields;
mod hybrids;
mod layers;
mod pruned;
mod published;
mod python;

use std::io::{BufRead, Read};

use serde_json::{Map, Value};

use crate::model::deviations::Deviations;
pub use crate::model::huggingface::error::ConfigError;
use crate::model::huggingface::error::LARGEST_BYTES;
use crate::model::huggingface::families::{
    ExpertKeys, Family, FeedForward, HeadDim, KvHeads, Mlp, Parallel, family_of,
};
use crate::model::huggingface::fields::{
    CONTEXT, EXPERTS, Fields, HEAD_DIM, HEADS, IMAGE_SIDE, LAYERS, VOCABULARY, WIDTH,
};
use crate::model::{ConvolutionNorm, Experts, LatentAttention, MlpKind, Model, ModelKind, NormKind};
use crate::serving::StoredFormat;
use gpuplan_units::names::did_you_mean;

/// Every `model_type` that can be read.
pub fn model_types() -> impl Iterator<Item = &'static str> {
    families::model_types()
}

/// Tokens of a second of sound: 100 frames, of which the second convolution of the stem takes every other (arXiv 2212.04356, section 2.2).
const WHISPER_TOKENS_PER_SECOND: f64 = 50.0;

/// Where a configuration of several parts has that of its language model.
const TEXT_PARTS: [(&str, &str); 4] = [
    ("text_config", "text_config."),
    ("llm_config", "llm_config."),
    ("language_config", "language_config."),
    ("thinker_config", "thinker_config."),
];

/// The model that a `config.json` describes, by its `text_config` where there is one; towers for images and sound count in the parameters.
/// Parameters are counted from the sizes; a safetensors index knows them exactly.
pub fn read_config(reader: impl BufRead, name: &str) -> Result<Model, ConfigError> {
    let mut bytes = Vec::new();
    reader
        .take(LARGEST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ConfigError::Malformed(error.to_string()))?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(ConfigError::TooLarge);
    }
    let outer: Value =
        serde_json::from_slice(&python::to_json(bytes)).map_err(|error| ConfigError::Malformed(error.to_string()))?;
    let outer = outer.as_object().ok_or_else(|| ConfigError::Malformed("it is not a JSON object".to_owned()))?;
    if let Some(class) = outer.get("_class_name").and_then(Value::as_str) {
        return match diffusers::part(outer) {
            Some(part) => Err(ConfigError::Pipeline { part }),
            None => diffusers::read(outer, class, name),
        };
    }
    let mut model = read_parts(outer, "", name)?;
    model.published = published::format(outer)?;
    Ok(model)
}

/// The language model of an object, or of the part of it that has one: `thinker_config` has a `text_config` of its own.
fn read_parts(map: &Map<String, Value>, prefix: &'static str, name: &str) -> Result<Model, ConfigError> {
    let nested = TEXT_PARTS.iter().find_map(|(key, inner)| Some((map.get(*key)?.as_object()?, *inner)));
    let Some((part, inner)) = nested else { return read_fields(map, prefix, name) };
    let (text, inner) = match part.get("text_config").and_then(Value::as_object) {
        Some(text) => (text, "text_config."),
        None => (part, inner),
    };
    let mut model = match (text.get("model_type"), map.get("model_type")) {
        // The part is of the type of the whole where it does not say its own.
        (None, Some(model_type)) => {
            let mut text = text.clone();
            text.insert("model_type".to_owned(), model_type.clone());
            read_fields(&text, inner, name)?
        }
        _ => read_fields(text, inner, name)?,
    };
    let towers = layers::towers(map) + layers::towers(part);
    model.deviations.other_parameters += towers;
    model.parameters += towers;
    Ok(model)
}

fn read_fields(map: &Map<String, Value>, prefix: &'static str, name: &str) -> Result<Model, ConfigError> {
    let mut fields = Fields { map, prefix, defaults: &[] };
    let model_type = fields.string("model_type")?.ok_or_else(|| fields.missing("model_type"))?.to_owned();
    let family = &family_of(&model_type).ok_or_else(|| {
        let shown: String = model_type.chars().take(60).collect();
        let suggestion = did_you_mean(&shown, model_types()).map(str::to_owned);
        ConfigError::UnknownModelType { model_type: shown, suggestion }
    })?;
    if !prefix.is_empty() {
        fields.defaults = family.nested_defaults;
    }
    if matches!(family.model_type, "mamba" | "mamba2" | "falcon_mamba") {
        return layers::mamba(&fields, family, name);
    }
    if fields.is_present(pruned::BLOCKS) {
        let (equal, hybrid) = pruned::equal_layers(&fields, family)?;
        let mut model = read_fields(&equal, prefix, name)?;
        let before = model.counted_parameters();
        model.deviations.hybrid = Some(hybrid);
        model.parameters += model.counted_parameters() - before;
        return Ok(model);
    }
    let mut model = transformer(&fields, family, name)?;
    let is_mixture = family.experts != ExpertKeys::Any || layers::has_experts(&fields)?;
    if family.experts != ExpertKeys::None && is_mixture {
        model.kind = ModelKind::Moe;
        model.experts = Some(experts(&fields, family.experts, &model)?);
    }
    if family.experts == ExpertKeys::Llama4 {
        model.ffn_hidden = fields.whole(&["intermediate_size_mlp"], WIDTH)?.unwrap_or(model.ffn_hidden);
    }
    let has_latent = ["kv_lora_rank", "o_lora_rank"].iter().any(|key| fields.is_present(key));
    if has_latent && family.kind == ModelKind::Decoder || family.experts == ExpertKeys::DeepSeek {
        let latent = latent_attention(&fields, &model)?;
        model.kv_heads = model.heads;
        model.head_dim = latent.nope_head + latent.rope_head;
        model.latent = Some(latent);
    }
    model.deviations.hybrid = hybrids::hybrid(&fields, &mut model)?;
    model.deviations.window = layers::window(&fields, family, model.layers)?;
    model.deviations.other_parameters = layers::embeddings_of_layers(&fields, &model)?;
    model.parameters = model.counted_parameters() + beside_layers(&fields, family, &mut model)?;
    Ok(model)
}

/// Everything that families share.
fn transformer(fields: &Fields, family: &Family, name: &str) -> Result<Model, ConfigError> {
    let hidden = fields.required(family.hidden, WIDTH)?;
    let layers = match fields.words("layers_block_type").len() {
        0 => fields.required(family.layers, LAYERS)?,
        blocks => u32::try_from(blocks).unwrap_or(u32::MAX).min(*LAYERS.end()),
    };
    let heads = fields.required(family.heads, HEADS)?;
    let kv_heads = kv_heads(fields, family, heads)?;
    if !heads.is_multiple_of(kv_heads) {
        return Err(fields.impossible(
            "num_key_value_heads",
            kv_heads,
            format!("it does not divide the {heads} attention heads"),
        ));
    }
    let head_dim = head_dim(fields, family, hidden, heads)?;
    if heads * head_dim > *WIDTH.end() {
        return Err(fields.impossible(
            "head_dim",
            head_dim,
            format!("with {heads} attention heads that is wider than {}", WIDTH.end()),
        ));
    }
    let is_image = family.kind == ModelKind::Vit;
    Ok(Model {
        name: name.to_owned(),
        kind: family.kind,
        parameters: 0.0,
        layers,
        hidden,
        heads,
        kv_heads,
        head_dim,
        ffn_hidden: feed_forward(fields, family, hidden)?,
        vocab: if is_image { 0 } else { fields.required(&["vocab_size"], VOCABULARY)? },
        mlp: match family.mlp {
            Mlp::Is(kind) => kind,
            Mlp::FeedForwardProj => match fields.string("feed_forward_proj")? {
                Some(shape) if shape.starts_with("gated-") => MlpKind::Glu,
                _ => MlpKind::Gelu,
            },
        },
        norm: family.norm,
        parallel_residual: match family.parallel {
            Parallel::Never => false,
            Parallel::Always => true,
            Parallel::Key(key, default) => fields.flag(key, default)?,
        },
        attention_softcap: fields.is_present("attn_logit_softcapping")
            || (family.softcap && !fields.is_null("attn_logit_softcapping")),
        tied_embeddings: fields.flag("tie_word_embeddings", family.tied)?,
        experts: None,
        latent: None,
        encoder_layers: match family.encoder_layers {
            [] => 0,
            keys => fields.required(keys, LAYERS)?,
        },
        encoder_tokens: 0,
        text_tower: None,
        stack: None,
        max_context: max_context(fields)?,
        sample_side: if is_image { fields.required(&["image_size"], IMAGE_SIDE)? } else { 0 },
        convolution_norm: ConvolutionNorm::default(),
        query_key_norm: layers::query_key_norm(fields)?,
        published: StoredFormat::Bf16,
        deviations: Deviations::default(),
        ..Model::blank(family.kind, MlpKind::Gelu, NormKind::Layer, false)
    })
}

fn kv_heads(fields: &Fields, family: &Family, heads: u32) -> Result<u32, ConfigError> {
    match family.kv {
        KvHeads::All => Ok(heads),
        KvHeads::KeyOrAll => Ok(fields.whole(&["num_key_value_heads"], HEADS)?.unwrap_or(heads)),
        KvHeads::Key => fields.required(&["num_key_value_heads"], HEADS),
        KvHeads::Falcon if fields.flag("new_decoder_architecture", false)? => {
            Ok(fields.whole(&["num_kv_heads"], HEADS)?.unwrap_or(heads))
        }
        KvHeads::Falcon => Ok(if fields.flag("multi_query", true)? { 1 } else { heads }),
    }
}

fn head_dim(fields: &Fields, family: &Family, hidden: u32, heads: u32) -> Result<u32, ConfigError> {
    if fields.is_present("kv_lora_rank") {
        // Latent attention states the widths of its heads by keys of its own.
        return Ok(1);
    }
    let stated = match family.head_dim {
        HeadDim::Dkv => return fields.required(&["d_kv"], HEAD_DIM),
        HeadDim::ClassDefault(width) => Some(fields.whole(&["head_dim"], HEAD_DIM)?.unwrap_or(width)),
        HeadDim::HiddenByHeads => fields.whole(&["head_dim"], HEAD_DIM)?,
    };
    match stated {
        Some(width) => Ok(width),
        None if !hidden.is_multiple_of(heads) => {
            let why = format!("it is not a multiple of the {heads} attention heads, and there is no `head_dim`");
            Err(fields.impossible(family.hidden[0], hidden, why))
        }
        None => Ok(hidden / heads),
    }
}

fn feed_forward(fields: &Fields, family: &Family, hidden: u32) -> Result<u32, ConfigError> {
    let four = 4 * hidden;
    match family.feed_forward {
        // A file of experts alone states only their width.
        FeedForward::Key(key) if family.experts == ExpertKeys::Any => {
            let width = fields.required(&["dense_intermediate_size", key, "moe_intermediate_size"], WIDTH)?;
            // LFM2 states the width of a block without a gate, of which one with a gate has two thirds.
            let is_adjusted = fields.flag("block_auto_adjust_ff_dim", false)?;
            Ok(if is_adjusted { (2 * width / 3).next_multiple_of(256) } else { width })
        }
        FeedForward::Key(key) => fields.whole(&[key], WIDTH)?.ok_or_else(|| fields.missing(key)),
        FeedForward::KeyOrFourHidden(key) => Ok(fields.whole(&[key], WIDTH)?.unwrap_or(four)),
        FeedForward::FourHidden => Ok(four),
        FeedForward::Expansion => Ok(hidden * fields.whole(&["expansion_ratio"], 1..=64)?.unwrap_or(4)),
    }
}

fn max_context(fields: &Fields) -> Result<u32, ConfigError> {
    let keys =
        &["max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions", "n_ctx"];
    Ok(fields.whole(keys, CONTEXT)?.unwrap_or(0))
}

fn experts(fields: &Fields, keys: ExpertKeys, model: &Model) -> Result<Experts, ConfigError> {
    if keys == ExpertKeys::Any {
        return layers::any_experts(fields, model);
    }
    let experts_per_token = fields.required(&["num_experts_per_tok"], EXPERTS)?;
    let (count_key, ffn_hidden): (&'static str, u32) = match keys {
        ExpertKeys::Mixtral | ExpertKeys::Llama4 => ("num_local_experts", model.ffn_hidden),
        ExpertKeys::Qwen => ("num_experts", fields.required(&["moe_intermediate_size"], WIDTH)?),
        _ => ("n_routed_experts", fields.required(&["moe_intermediate_size"], WIDTH)?),
    };
    let experts = match keys {
        ExpertKeys::Mixtral | ExpertKeys::Llama4 => fields.required(&["num_local_experts", "num_experts"], EXPERTS)?,
        ExpertKeys::Qwen => fields.required(&["num_experts", "num_local_experts"], EXPERTS)?,
        _ => fields.required(&["n_routed_experts", "num_experts"], EXPERTS)?,
    };
    if experts_per_token > experts {
        return Err(fields.impossible(count_key, experts, format!("a token is sent to {experts_per_token} of them")));
    }
    let shared_experts = match keys {
        ExpertKeys::Qwen => {
            let shared = fields.whole(&["shared_expert_intermediate_size"], 0..=*WIDTH.end())?.unwrap_or(0);
            if !shared.is_multiple_of(ffn_hidden) {
                let why = format!("it is not a multiple of `moe_intermediate_size` {ffn_hidden}");
                return Err(fields.impossible("shared_expert_intermediate_size", shared, why));
            }
            shared / ffn_hidden
        }
        ExpertKeys::Llama4 => 1,
        ExpertKeys::DeepSeek => fields.whole(&["n_shared_experts"], 0..=*EXPERTS.end())?.unwrap_or(0),
        _ => 0,
    };
    let dense_layers = dense_layers(fields, keys, model.layers)?;
    Ok(Experts { experts, experts_per_token, shared_experts, ffn_hidden, dense_layers })
}

/// Layers whose feed-forward block is one dense block.
fn dense_layers(fields: &Fields, keys: ExpertKeys, layers: u32) -> Result<u32, ConfigError> {
    match keys {
        ExpertKeys::Qwen => {
            let step = fields.whole(&["decoder_sparse_step"], LAYERS)?.unwrap_or(1);
            let dense = fields.list("mlp_only_layers")?;
            let is_dense = |layer: &u32| dense.contains(&u64::from(*layer)) || !(layer + 1).is_multiple_of(step);
            Ok((0..layers).filter(is_dense).count() as u32)
        }
        ExpertKeys::DeepSeek => {
            let first = fields.whole(&["first_k_dense_replace"], 0..=*LAYERS.end())?.unwrap_or(0);
            if first > layers {
                return Err(fields.impossible("first_k_dense_replace", first, format!("there are {layers} layers")));
            }
            let every = fields.whole(&["moe_layer_freq"], LAYERS)?.unwrap_or(1);
            Ok((0..layers).filter(|layer| *layer < first || !layer.is_multiple_of(every)).count() as u32)
        }
        ExpertKeys::Llama4 => {
            let step = fields.whole(&["interleave_moe_layer_step"], LAYERS)?.unwrap_or(1);
            Ok(layers - layers / step)
        }
        _ => Ok(0),
    }
}

fn latent_attention(fields: &Fields, model: &Model) -> Result<LatentAttention, ConfigError> {
    if fields.is_present("o_lora_rank") {
        return grouped_output(fields, model);
    }
    Ok(LatentAttention {
        kv_rank: fields.required(&["kv_lora_rank"], WIDTH)?,
        q_rank: fields.whole(&["q_lora_rank"], WIDTH)?.unwrap_or(0),
        rope_head: fields.required(&["qk_rope_head_dim"], HEAD_DIM)?,
        nope_head: fields.required(&["qk_nope_head_dim"], HEAD_DIM)?,
        value_head: fields.required(&["v_head_dim"], HEAD_DIM)?,
    })
}

/// DeepSeek-V4: keys and values are one vector, and the output goes through a low rank in groups of heads. As latent attention whose
/// values are so wide that it has as many weights.
fn grouped_output(fields: &Fields, model: &Model) -> Result<LatentAttention, ConfigError> {
    let rope_head = fields.required(&["qk_rope_head_dim"], HEAD_DIM)?;
    let nope_head = model.head_dim.saturating_sub(rope_head).max(1);
    let rank = f64::from(fields.required(&["o_lora_rank"], WIDTH)?);
    let groups = f64::from(fields.required(&["o_groups"], HEADS)?);
    let (hidden, kept) = (f64::from(model.hidden), f64::from(nope_head));
    let output = rank * (model.query_width() + groups * hidden) - kept * f64::from(model.heads) * kept;
    let value_head = (output / (f64::from(model.heads) * (hidden + kept))).round().max(1.0) as u32;
    let q_rank = fields.required(&["q_lora_rank"], WIDTH)?;
    Ok(LatentAttention { kv_rank: nope_head, q_rank, rope_head, nope_head, value_head })
}

/// Parameters beside layers and full-width embeddings: positions, the stem of an image or audio encoder, and the
/// difference that an embedding narrower than the layers makes. Gives an image model's tokens as its `max_context`.
fn beside_layers(fields: &Fields, family: &Family, model: &mut Model) -> Result<f64, ConfigError> {
    let hidden = f64::from(model.hidden);
    let mut parameters = 0.0;
    let mut embedding_width = hidden;
    if let Some(narrow) = fields.whole(family.narrow_embedding, WIDTH)?
        && narrow != model.hidden
    {
        embedding_width = f64::from(narrow);
        // A projection to the layers, and for a tied head one back.
        parameters += 2.0 * embedding_width * hidden - f64::from(model.vocab) * (hidden - embedding_width);
    }
    if family.kind == ModelKind::Vit {
        let patch = fields.required(&["patch_size"], 1..=model.sample_side)?;
        let channels = fields.whole(&["num_channels"], 1..=1024)?.unwrap_or(3);
        model.max_context = (model.sample_side / patch).pow(2) + 1;
        parameters += f64::from(patch).powi(2) * f64::from(channels) * hidden;
    }
    if family.learned_positions {
        parameters += f64::from(model.max_context) * embedding_width;
    }
    if family.model_type == "whisper" {
        // Two convolutions of width 3, and the encoder's position table.
        let bins = fields.whole(&["num_mel_bins"], WIDTH)?.unwrap_or(80);
        let positions = fields.whole(&["max_source_positions"], CONTEXT)?.unwrap_or(1500);
        parameters += 3.0 * f64::from(bins) * hidden + 3.0 * hidden * hidden + f64::from(positions) * hidden;
        model.encoder_tokens = positions;
        model.audio_tokens_per_second = WHISPER_TOKENS_PER_SECOND;
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests;
