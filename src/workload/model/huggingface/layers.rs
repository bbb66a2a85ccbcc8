//! Layers that differ from each other: mixtures by whichever keys say so, recurrences, windows, and the tower of an image model.

use serde_json::{Map, Value};

use crate::model::deviations::{Deviations, Hybrid, SlidingWindow};
use crate::model::huggingface::error::ConfigError;
use crate::model::huggingface::families::Family;
use crate::model::huggingface::fields::{CONTEXT, EXPERTS, Fields, HEADS, LAYERS, VOCABULARY, WIDTH};
use crate::model::{Experts, Model};

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
    if fields.whole(&["moe_latent_size"], WIDTH)?.is_some() {
        let why = "experts that work in a narrower space are not modelled; name the model instead";
        return Err(fields.impossible("moe_latent_size", "stated", why));
    }
    let ffn_hidden =
        fields.whole(&["moe_intermediate_size", "expert_ffn_hidden_size"], WIDTH)?.unwrap_or(model.ffn_hidden);
    let widths =
        &["shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size"];
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
            fields.whole(keys, 0..=*EXPERTS.end())?.unwrap_or(0)
        }
    };
    Ok(Experts { experts, experts_per_token, shared_experts, ffn_hidden, dense_layers: dense(fields, model.layers)? })
}

/// Layers without a mixture, by a list of all layers, a list of the dense ones, or the number of leading ones.
fn dense(fields: &Fields, layers: u32) -> Result<u32, ConfigError> {
    let listed = fields.words("mlp_layer_types").iter().filter(|word| **word == "dense").count();
    let frequencies = fields.map.get("moe_layer_freq").and_then(Value::as_array);
    let first = ["first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"];
    let dense = match frequencies {
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

/// Layers with a recurrence: linear attention (Qwen3-Next, Qwen3.5) or Mamba-2 (Nemotron-H).
pub(super) fn hybrid(fields: &Fields, model: &mut Model) -> Result<Option<Hybrid>, ConfigError> {
    if let Some(blocks) = blocks(fields, model.layers)? {
        let count = |wanted: &[char]| blocks.iter().filter(|block| wanted.contains(block)).count() as u32;
        return Ok(Some(Hybrid {
            attention_layers: count(&['*']),
            recurrent_layers: count(&['M']),
            recurrent_parameters: mamba_2(fields, model)?,
            feed_forward_layers: count(&['-', 'E']),
        }));
    }
    let known = ["full_attention", "sliding_attention", "chunked_attention", "deepseek_sparse_attention"];
    let is_linear = fields.is_present("linear_num_value_heads");
    let types = fields.words("layer_types");
    if let Some(word) = types.iter().find(|word| !(known.contains(word) || is_linear && **word == "linear_attention")) {
        let why = "layers of this type are not modelled; name the model, or give its sizes under [model]";
        return Err(fields.impossible("layer_types", *word, why));
    }
    if !fields.is_present("linear_num_value_heads") {
        return Ok(None);
    }
    let size = |key: &'static str| fields.required(&[key], HEADS).map(f64::from);
    let keys = size("linear_num_key_heads")? * size("linear_key_head_dim")?;
    let values = size("linear_num_value_heads")? * size("linear_value_head_dim")?;
    let listed = fields.words("layer_types").iter().filter(|word| **word == "linear_attention").count() as u32;
    let recurrent_layers = match (listed, fields.whole(&["full_attention_interval"], LAYERS)?) {
        (0, interval) => model.layers - model.layers / interval.unwrap_or(4),
        (listed, _) => listed.min(model.layers),
    };
    let attention_layers = model.layers - recurrent_layers;
    let hidden = f64::from(model.hidden);
    // Gated delta net: queries, keys, values and gate in, values out, two rates a head; Yang et al., arXiv 2412.06464.
    let one = hidden * (2.0 * keys + 3.0 * values + 2.0 * size("linear_num_value_heads")?);
    // The attention of the other layers has a gate as wide as its queries, counted here so that the sum is right.
    let gates = hidden * model.query_width() * f64::from(attention_layers) / f64::from(recurrent_layers.max(1));
    let recurrent_parameters = one + gates;
    Ok(Some(Hybrid { attention_layers, recurrent_layers, recurrent_parameters, feed_forward_layers: model.layers }))
}

/// The parts of Nemotron-H's blocks, one each: M Mamba, * attention, - feed-forward, E experts.
fn blocks(fields: &Fields, layers: u32) -> Result<Option<Vec<char>>, ConfigError> {
    const KEY: &str = "hybrid_override_pattern";
    let listed = fields.words("layers_block_type");
    let part = |word: &str| match word {
        "mamba" => 'M',
        "attention" => '*',
        "mlp" => '-',
        "moe" => 'E',
        _ => '?',
    };
    let blocks: Vec<char> = match fields.string(KEY)? {
        Some(pattern) => pattern.chars().collect(),
        None if !listed.is_empty() => listed.iter().map(|word| part(word)).collect(),
        None if fields.is_present("mamba_num_heads") => return Err(fields.missing(KEY)),
        None => return Ok(None),
    };
    let is_known = blocks.iter().all(|block| "M*-E".contains(*block));
    if is_known && blocks.len() == layers as usize {
        return Ok(Some(blocks));
    }
    let why = format!(
        "it does not name Mamba (M), attention (*), feed-forward (-) or experts (E) for each of {layers} layers"
    );
    Err(fields.impossible(KEY, blocks.into_iter().collect::<String>(), why))
}

/// Weights of a Mamba-2 block (Dao and Gu 2024, arXiv 2405.21060): in, convolution, out.
fn mamba_2(fields: &Fields, model: &Model) -> Result<f64, ConfigError> {
    let heads = f64::from(fields.required(&["mamba_num_heads"], HEADS)?);
    let inner = heads * f64::from(fields.required(&["mamba_head_dim"], WIDTH)?);
    let states = f64::from(fields.required(&["ssm_state_size", "mamba_state_dim"], WIDTH)?)
        * f64::from(fields.whole(&["n_groups", "mamba_num_groups"], HEADS)?.unwrap_or(8));
    Ok(f64::from(model.hidden) * (3.0 * inner + 2.0 * states + heads) + 5.0 * (inner + 2.0 * states))
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
    let steps = fields.map.get("time_step_rank").and_then(Value::as_f64).unwrap_or((wide / 16.0).ceil());
    let recurrent_parameters = 3.0 * wide * inner + inner * (2.0 * steps + 3.0 * states + 7.0);
    if !recurrent_parameters.is_finite() || recurrent_parameters <= 0.0 {
        return Err(fields.impossible("time_step_rank", steps, "it must be the width of the step's projection"));
    }
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
