//! Layers with a recurrence in place of attention or beside it: which they are, and how many weights each has.

use serde_json::Value;

use crate::model::Model;
use crate::model::deviations::Hybrid;
use crate::model::huggingface::error::ConfigError;
use crate::model::huggingface::fields::{Fields, HEADS, LAYERS, WIDTH};

/// Words of `layer_types` for layers with attention, whatever it looks at.
const ATTENTION: [&str; 8] = [
    "full_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
    "sliding_attention",
    "chunked_attention",
    "deepseek_sparse_attention",
    "indexed_attention",
    "attention",
];
/// Words for layers with a recurrence or a convolution.
const RECURRENT: [&str; 4] = ["linear_attention", "mamba", "conv", "kda"];

/// `None` where every layer has attention and a feed-forward block.
pub(super) fn hybrid(fields: &Fields, model: &mut Model) -> Result<Option<Hybrid>, ConfigError> {
    if let Some(blocks) = blocks(fields, model.layers)? {
        let count = |wanted: &[char]| blocks.iter().filter(|block| wanted.contains(block)).count() as u32;
        return Ok(Some(Hybrid {
            attention_layers: count(&['*']),
            recurrent_layers: count(&['M']),
            recurrent_parameters: nemotron_h(fields, model)?,
            feed_forward_layers: count(&['-', 'E']),
        }));
    }
    let recurrence = recurrence(fields, model)?;
    let types = fields.words("layer_types");
    let is_known = |word: &&str| ATTENTION.contains(word) || recurrence.is_some() && RECURRENT.contains(word);
    if let Some(word) = types.iter().find(|word| !is_known(word)) {
        let why = "layers of this type are not modelled; name the model, or give its sizes under [model]";
        return Err(fields.impossible("layer_types", *word, why));
    }
    let Some(recurrent_parameters) = recurrence else { return Ok(None) };
    let (attention_layers, recurrent_layers) = counts(fields, model.layers)?;
    Ok(Some(Hybrid { attention_layers, recurrent_layers, recurrent_parameters, feed_forward_layers: model.layers }))
}

/// Layers with attention and with a recurrence.
fn counts(fields: &Fields, layers: u32) -> Result<(u32, u32), ConfigError> {
    // Falcon-H1 has both side by side in every layer.
    if fields.is_present("mamba_d_ssm") {
        return Ok((layers, layers));
    }
    let listed = fields.words("layer_types").iter().filter(|word| RECURRENT.contains(word)).count() as u32;
    let of_kimi = fields.map.get("linear_attn_config").and_then(|part| part.get("full_attn_layers"));
    let attention = ["full_attn_idxs", "attn_layer_indices"].iter().find_map(|key| fields.map.get(*key));
    let attention = of_kimi.or(attention).and_then(Value::as_array).map(|list| list.len() as u32);
    let period = fields.whole(&["full_attention_interval", "attn_layer_period"], LAYERS)?;
    let attention = match (listed, attention) {
        (0, Some(attention)) => attention.min(layers),
        (0, None) => layers / period.unwrap_or(4),
        (listed, _) => layers - listed.min(layers),
    };
    Ok((attention, layers - attention))
}

/// Weights of a layer's recurrence, by the keys that say which it is.
fn recurrence(fields: &Fields, model: &Model) -> Result<Option<f64>, ConfigError> {
    let hidden = f64::from(model.hidden);
    let size = |key: &'static str| fields.required(&[key], HEADS).map(f64::from);
    if fields.is_present("linear_num_value_heads") {
        let keys = size("linear_num_key_heads")? * size("linear_key_head_dim")?;
        let values = size("linear_num_value_heads")? * size("linear_value_head_dim")?;
        let (attention, recurrent) = counts(fields, model.layers)?;
        // Gated delta net: queries, keys, values and gate in, values out, two rates a head; Yang et al., arXiv 2412.06464.
        let one = hidden * (2.0 * keys + 3.0 * values + 2.0 * size("linear_num_value_heads")?);
        // The attention of the other layers has a gate as wide as its queries, counted here so that the sum is right.
        return Ok(Some(one + hidden * model.query_width() * f64::from(attention) / f64::from(recurrent.max(1))));
    }
    if let Some((heads, width)) = kimi_delta(fields) {
        // Queries, keys, values and output, a gate through the width of a head, a rate a head; Kimi Linear, arXiv 2510.26692.
        return Ok(Some(4.0 * hidden * heads * width + 2.0 * (hidden + heads * width) * width + hidden * heads));
    }
    if fields.is_present("mamba_n_heads") {
        let heads = size("mamba_n_heads")?;
        let inner = match fields.whole(&["mamba_d_ssm"], WIDTH)? {
            Some(inner) => f64::from(inner),
            None => hidden * f64::from(fields.whole(&["mamba_expand"], 1..=64)?.unwrap_or(2)),
        };
        let states = size("mamba_d_state")? * f64::from(fields.whole(&["mamba_n_groups"], HEADS)?.unwrap_or(1));
        return Ok(Some(mamba_2(hidden, inner, states, heads)));
    }
    if fields.is_present("conv_L_cache") {
        // A gated convolution: three streams in, one out; LFM2, arXiv 2511.23404.
        return Ok(Some(4.0 * hidden * hidden + hidden * size("conv_L_cache")?));
    }
    if fields.is_present("attn_layer_period") {
        // Mamba as in `layers::mamba`, with Jamba's names (arXiv 2403.19887).
        let inner = hidden * f64::from(fields.whole(&["mamba_expand"], 1..=64)?.unwrap_or(2));
        let steps = fields.whole(&["mamba_dt_rank"], WIDTH)?.map_or((hidden / 16.0).ceil(), f64::from);
        return Ok(Some(3.0 * hidden * inner + inner * (2.0 * steps + 3.0 * size("mamba_d_state")? + 7.0)));
    }
    Ok(None)
}

/// Heads of Kimi's delta attention and the width of each.
fn kimi_delta(fields: &Fields) -> Option<(f64, f64)> {
    let part = fields.map.get("linear_attn_config");
    let of = |keys: [&str; 2]| {
        let stated = part.and_then(|part| part.get(keys[0])).or_else(|| fields.map.get(keys[1]))?.as_u64()?;
        (1..=u64::from(*HEADS.end())).contains(&stated).then_some(stated as f64)
    };
    Some((of(["num_heads", "linear_num_heads"])?, of(["head_dim", "linear_head_dim"])?))
}

/// The parts of Nemotron-H's blocks, one each: M Mamba, * attention, - feed-forward, E experts.
fn blocks(fields: &Fields, layers: u32) -> Result<Option<Vec<char>>, ConfigError> {
    const KEY: &str = "hybrid_override_pattern";
    let listed = fields.words("layers_block_type");
    let part = |word: &str| match word {
        "mamba" | "linear_attention" => 'M',
        "attention" | "full_attention" => '*',
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

/// Mamba-2 with the names of Nemotron-H.
fn nemotron_h(fields: &Fields, model: &Model) -> Result<f64, ConfigError> {
    let heads = f64::from(fields.required(&["mamba_num_heads"], HEADS)?);
    let inner = heads * f64::from(fields.required(&["mamba_head_dim"], WIDTH)?);
    let states = f64::from(fields.required(&["ssm_state_size", "mamba_state_dim"], WIDTH)?)
        * f64::from(fields.whole(&["n_groups", "mamba_num_groups"], HEADS)?.unwrap_or(8));
    Ok(mamba_2(f64::from(model.hidden), inner, states, heads))
}

/// Weights of a Mamba-2 block (Dao and Gu 2024, arXiv 2405.21060): in, convolution, out.
pub(super) fn mamba_2(hidden: f64, inner: f64, states: f64, heads: f64) -> f64 {
    hidden * (3.0 * inner + 2.0 * states + heads) + 5.0 * (inner + 2.0 * states)
}
