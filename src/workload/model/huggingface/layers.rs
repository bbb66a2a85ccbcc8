//! Layers that differ from each other: mixtures by whichever keys say so, recurrences, windows, and the tower of an image model.

use serde_json::{Map, Value};

use crate::model::deviations::{Deviations, Hybrid, SlidingWindow};
use crate::model::huggingface::error::ConfigError;
use crate::model::huggingface::families::Family;
use crate::model::huggingface::fields::{CONTEXT, EXPERTS, Fields, HEADS, LAYERS, VOCABULARY, WIDTH};
use crate::model::huggingface::hybrids::mamba_2;
use crate::model::{Experts, Model, QueryKeyNorm};

const COUNTS: [&str; 5] =
    ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts"];

/// More than one expert a layer.
pub(super) fn has_experts(fields: &Fields) -> Result<bool, ConfigError> {
    Ok(fields.whole(&COUNTS, 0..=*EXPERTS.end())?.is_some_and(|experts| experts > 1))
}

pub(super) fn any_experts(fields: &Fields, model: &Model) -> Result<Experts, ConfigError> {
    let experts = fields.required(&COUNTS, EXPERTS)?;
    let each = &["num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts", "moe_topk"];
    let experts_per_token = fields.required(each, EXPERTS)?;
    if experts_per_token > experts {
        let why = format!("a token is sent to {experts_per_token} of them");
        return Err(fields.impossible("num_experts", experts, why));
    }
    let stated = match fields.whole(&["moe_intermediate_size", "expert_ffn_hidden_size"], WIDTH)? {
        Some(width) => width,
        // Where dense blocks have a width of their own, the plain key is that of an expert.
        None if fields.is_present("dense_intermediate_size") => fields.required(&["intermediate_size"], WIDTH)?,
        None => model.ffn_hidden,
    };
    let ffn_hidden = full_width(fields, stated, model.hidden)?;
    let widths = &[
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "share_expert_dim",
    ];
    let shared_experts = match fields.whole(widths, 0..=*WIDTH.end())? {
        Some(width) if width > 0 => {
            if !width.is_multiple_of(ffn_hidden) {
                let why = format!("it is not a multiple of the {ffn_hidden} of an expert");
                return Err(fields.impossible("shared_expert_intermediate_size", width, why));
            }
            width / ffn_hidden
        }
        // A dense block beside the experts of every layer, as in Gemma 4.
        _ if fields.flag("enable_moe_block", false)? => model.ffn_hidden / ffn_hidden,
        _ => {
            let keys = &["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"];
            // Shared experts work in the full width where the others do not.
            fields.whole(keys, 0..=*EXPERTS.end())?.unwrap_or(0).saturating_mul(stated / ffn_hidden.max(1))
        }
    };
    Ok(Experts { experts, experts_per_token, shared_experts, ffn_hidden, dense_layers: dense(fields, model.layers)? })
}

/// Width of an expert that works in the full width of the layers and has as many weights and operations as one that works in a
/// narrower space (Nemotron 3 Super, Kimi K3). What brings a token into that space and back is left out.
fn full_width(fields: &Fields, width: u32, hidden: u32) -> Result<u32, ConfigError> {
    const KEYS: [&str; 2] = ["moe_latent_size", "routed_expert_hidden_size"];
    let Some(space) = fields.whole(&KEYS, WIDTH)? else { return Ok(width) };
    let weights = u64::from(space) * u64::from(width);
    if !weights.is_multiple_of(u64::from(hidden)) {
        return Err(fields.impossible(KEYS[0], space, format!("{weights} weights are no whole width of {hidden}")));
    }
    Ok((weights / u64::from(hidden)) as u32)
}

/// Norms of queries and keys: by keys that say so, else by the classes that always have them.
pub(super) fn query_key_norm(fields: &Fields) -> Result<Option<QueryKeyNorm>, ConfigError> {
    const OF_A_HEAD: [&str; 4] = ["qwen3", "gemma3", "exaone4", "apertus"];
    const OF_A_LAYER: [&str; 4] = ["olmo2", "olmo3", "olmoe", "flex_olmo"];
    let model_type = fields.string("model_type")?.unwrap_or_default();
    let is_one_of = |types: [&str; 4]| types.iter().any(|one| model_type.starts_with(one));
    let spans_heads = fields.string("qk_norm_type")? == Some("per_layer") || is_one_of(OF_A_LAYER);
    let has_them = fields.flag("use_qk_norm", spans_heads || is_one_of(OF_A_HEAD))?;
    Ok(has_them.then_some(if spans_heads { QueryKeyNorm::Layer } else { QueryKeyNorm::Head }))
}

/// Weights of embeddings that every layer has of its own, and what brings them in (Gemma 3n, Gemma 4).
pub(super) fn embeddings_of_layers(fields: &Fields, model: &Model) -> Result<f64, ConfigError> {
    let width = fields.whole(&["hidden_size_per_layer_input"], 0..=*WIDTH.end())?.unwrap_or(0);
    let vocab = fields.whole(&["vocab_size_per_layer_input"], VOCABULARY)?.unwrap_or(model.vocab);
    let all = f64::from(model.layers) * f64::from(width);
    // A table of all layers, one projection for all of them, and a gate in and out of each.
    Ok(all * (f64::from(vocab) + 3.0 * f64::from(model.hidden)))
}

/// Layers without a mixture, by a list of all layers, a list of the dense ones, or the number of leading ones.
fn dense(fields: &Fields, layers: u32) -> Result<u32, ConfigError> {
    let listed = fields.words("mlp_layer_types").iter().filter(|word| **word == "dense").count();
    let frequencies = fields.map.get("moe_layer_freq").and_then(Value::as_array);
    let first = ["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"];
    let period = fields.whole(&["expert_layer_period"], LAYERS)?;
    let dense = match frequencies {
        // Jamba has experts in every other layer.
        None if let Some(period) = period => layers - layers / period,
        Some(list) => list.iter().filter(|layer| layer.as_u64() == Some(0)).count() as u32,
        None if listed > 0 => listed as u32,
        None if fields.is_present("mlp_only_layers") => fields.list("mlp_only_layers")?.len() as u32,
        None => fields.whole(&first, 0..=*LAYERS.end())?.unwrap_or(0),
    };
    if dense > layers {
        return Err(fields.impossible("first_k_dense_replace", dense, format!("there are {layers} layers")));
    }
    Ok(dense)
}

/// Mamba alone (Gu and Dao 2023, arXiv 2312.00752): no layer has attention or a feed-forward block.
pub(super) fn mamba(fields: &Fields, family: &Family, name: &str) -> Result<Model, ConfigError> {
    let hidden = fields.required(family.hidden, WIDTH)?;
    let layers = fields.required(family.layers, LAYERS)?;
    let vocab = fields.required(&["vocab_size"], VOCABULARY)?;
    let wide = f64::from(hidden);
    let inner = match fields.whole(&["intermediate_size", "d_inner"], WIDTH)? {
        Some(inner) => f64::from(inner),
        None => wide * f64::from(fields.whole(&["expand"], 1..=64)?.unwrap_or(2)),
    };
    let states = f64::from(fields.whole(&["state_size"], WIDTH)?.unwrap_or(16));
    let recurrent_parameters = if family.model_type == "mamba2" {
        let heads = f64::from(fields.required(&["num_heads"], HEADS)?);
        let groups = f64::from(fields.whole(&["n_groups"], HEADS)?.unwrap_or(8));
        mamba_2(wide, inner, states * groups, heads)
    } else {
        let steps = fields.map.get("time_step_rank").and_then(Value::as_f64).unwrap_or((wide / 16.0).ceil());
        let weights = 3.0 * wide * inner + inner * (2.0 * steps + 3.0 * states + 7.0);
        if !weights.is_finite() || weights <= 0.0 {
            return Err(fields.impossible("time_step_rank", steps, "it must be the width of the step's projection"));
        }
        weights
    };
    let hybrid = Hybrid { attention_layers: 0, recurrent_layers: layers, recurrent_parameters, feed_forward_layers: 0 };
    let tied = fields.flag("tie_word_embeddings", family.tied)?;
    let mut model = Model {
        name: name.to_owned(),
        layers,
        hidden,
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        ffn_hidden: hidden,
        vocab,
        deviations: Deviations { hybrid: Some(hybrid), ..Deviations::default() },
        ..Model::blank(family.kind, crate::model::MlpKind::Glu, family.norm, tied)
    };
    model.parameters = model.counted_parameters();
    Ok(model)
}

/// Layers that attend to the nearest tokens only.
pub(super) fn window(fields: &Fields, family: &Family, layers: u32) -> Result<Option<SlidingWindow>, ConfigError> {
    // Sparse attention (DeepSeek-V3.2) looks at the tokens that an index picks.
    if let Some(tokens) = fields.whole(&["index_topk"], CONTEXT)? {
        return Ok(Some(SlidingWindow { layers, tokens }));
    }
    let Some(tokens) = fields.whole(&["sliding_window"], 0..=*CONTEXT.end())?.filter(|tokens| *tokens > 0) else {
        return Ok(None);
    };
    if !fields.flag("use_sliding_window", true)? {
        return Ok(None);
    }
    let types = fields.words("layer_types");
    let listed = types.iter().filter(|word| **word == "sliding_attention").count() as u32;
    let layers = match fields.whole(&["sliding_window_pattern"], LAYERS)? {
        _ if !types.is_empty() => listed.min(layers),
        Some(pattern) => layers - layers / pattern,
        // Every other layer, every sixth one, as their classes have it.
        None if matches!(family.model_type, "gemma2" | "gpt_oss") => layers / 2,
        None if family.model_type == "gemma3_text" => layers - layers / 6,
        None => layers,
    };
    Ok((layers > 0).then_some(SlidingWindow { layers, tokens }))
}

/// Weights of the layers of the towers for images and sound; zero where there is none or its sizes are not stated.
pub(super) fn towers(outer: &Map<String, Value>) -> f64 {
    ["vision_config", "audio_config"].iter().filter_map(|key| Some(tower(outer.get(*key)?.as_object()?))).sum()
}

fn tower(part: &Map<String, Value>) -> f64 {
    let size = |keys: &[&str]| {
        let stated = keys.iter().find_map(|key| part.get(*key)?.as_u64());
        stated.filter(|size| *size <= u64::from(*WIDTH.end())).map(|size| size as f64)
    };
    let hidden = size(&["embed_dim", "hidden_size", "vt_hidden_size", "width", "d_model"]);
    let layers = size(&["depth", "num_hidden_layers", "vt_num_hidden_layers", "layers", "encoder_layers"]);
    let (Some(hidden), Some(layers)) = (hidden, layers) else { return 0.0 };
    let width = size(&["intermediate_size", "vt_intermediate_size", "encoder_ffn_dim"]).unwrap_or(4.0 * hidden);
    layers * (4.0 * hidden * hidden + 2.0 * hidden * width) + mergers(part, hidden)
}

/// Weights that join the patches of a square and bring them to the width of the text, once and for every layer that is looked into
/// (Qwen2-VL, Qwen3-VL).
fn mergers(part: &Map<String, Value>, hidden: f64) -> f64 {
    let size = |key: &str| part.get(key).and_then(Value::as_u64).filter(|size| *size <= u64::from(*WIDTH.end()));
    let (Some(patches), Some(out)) = (size("spatial_merge_size"), size("out_hidden_size")) else { return 0.0 };
    let looked_into = part.get("deepstack_visual_indexes").and_then(Value::as_array).map_or(0, Vec::len);
    let joined = hidden * (patches * patches) as f64;
    (1 + looked_into) as f64 * joined * (joined + out as f64)
}
