//! Models whose layers were pruned apart from each other (Puzzle, arXiv 2411.19146): attention left out, blocks of many widths.

use serde_json::{Map, Value};

use crate::model::deviations::Hybrid;
use crate::model::huggingface::error::ConfigError;
use crate::model::huggingface::families::{Family, LLAMA_TYPE};
use crate::model::huggingface::fields::{Fields, HEADS, WIDTH};

pub(super) const BLOCKS: &str = "block_configs";

/// The width of a block is rounded up to a multiple of this (`modeling_decilm.py` of the published models).
const ROUNDED_TO: f64 = 256.0;

/// The configuration of a model of equal layers with as many weights, its blocks of mean width, and which layers have attention.
pub(super) fn equal_layers(fields: &Fields, family: &Family) -> Result<(Map<String, Value>, Hybrid), ConfigError> {
    let empty = Vec::new();
    let blocks = fields.map.get(BLOCKS).and_then(Value::as_array).unwrap_or(&empty);
    let has = |part: Option<&Value>| {
        let is_set = |key: &str| part.and_then(|part| part.get(key)) == Some(&Value::Bool(true));
        part.is_some() && !is_set("no_op") && !is_set("replace_with_linear")
    };
    let attention: Vec<&Value> =
        blocks.iter().filter_map(|block| block.get("attention")).filter(|part| has(Some(part))).collect();
    let hidden = f64::from(fields.required(family.hidden, WIDTH)?);
    let width = |part: &Value| {
        let times = part.get("ffn_mult")?.as_f64().filter(|times| (0.0..=64.0).contains(times))?;
        Some(((2.0 * times * hidden / 3.0).floor() / ROUNDED_TO).ceil() * ROUNDED_TO)
    };
    let widths: Vec<f64> =
        blocks.iter().filter_map(|block| block.get("ffn")).filter(|part| has(Some(part))).filter_map(width).collect();
    let share = attention.iter().find_map(|part| part.get("n_heads_in_group")?.as_u64());
    let heads = fields.required(family.heads, HEADS)?;
    let (Some(share), false) = (share.and_then(|share| u32::try_from(share).ok()), widths.is_empty()) else {
        return Err(fields.missing("block_configs.attention.n_heads_in_group"));
    };
    let mean = widths.iter().sum::<f64>() / widths.len() as f64;
    let mut equal: Map<String, Value> = fields.map.clone();
    equal.remove(BLOCKS);
    equal.insert("model_type".to_owned(), LLAMA_TYPE.into());
    equal.insert("num_hidden_layers".to_owned(), blocks.len().into());
    equal.insert("intermediate_size".to_owned(), (mean.round() as u64).into());
    equal.insert("num_key_value_heads".to_owned(), (heads / share.clamp(1, heads)).into());
    let hybrid = Hybrid {
        attention_layers: attention.len() as u32,
        recurrent_layers: 0,
        recurrent_parameters: 0.0,
        feed_forward_layers: widths.len() as u32,
    };
    Ok((equal, hybrid))
}
