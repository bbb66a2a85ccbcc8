//! How the published files store the weights, by `quantization_config`.

use serde_json::{Map, Value};

use crate::model::huggingface::error::ConfigError;
use crate::serving::StoredFormat;

const KEY: &str = "quantization_config";

/// 16 bits or more where nothing is quantised.
pub(super) fn format(outer: &Map<String, Value>) -> Result<StoredFormat, ConfigError> {
    let Some(part) = outer.get(KEY).or_else(|| outer.get("text_config")?.get(KEY)).filter(|part| !part.is_null())
    else {
        return Ok(StoredFormat::Bf16);
    };
    let text = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let number = |value: Option<&Value>| value.and_then(Value::as_u64);
    let (method, algorithm) = (text("quant_method"), text("quant_algo"));
    let format = match method.as_str() {
        "fp8" | "fbgemm_fp8" | "finegrained_fp8" => Some(StoredFormat::Fp8),
        "mxfp4" => Some(StoredFormat::Mxfp4),
        "awq" | "gptq" | "auto-round" | "intel/auto-round" => of_bits(number(part.get("bits").or(part.get("w_bit")))),
        "bitsandbytes" if part.get("load_in_4bit") == Some(&Value::Bool(true)) => Some(StoredFormat::Int4),
        "bitsandbytes" => Some(StoredFormat::Int8),
        "modelopt" | "" if algorithm.contains("fp4") => Some(StoredFormat::Nvfp4),
        "modelopt" | "" if algorithm.contains("fp8") => Some(StoredFormat::Fp8),
        // Parts of several formats, by the one that most of the weights have: the experts'.
        "modelopt" | "" if algorithm == "mixed_precision" => Some(StoredFormat::Nvfp4),
        "modelopt" | "compressed-tensors" | "compressed_tensors" => of_groups(part),
        _ => None,
    };
    format.ok_or_else(|| ConfigError::Impossible {
        key: format!("{KEY}.quant_method"),
        value: if method.is_empty() { algorithm } else { method }.chars().take(60).collect(),
        why: "this weight format is not known; take the key out, and state `serving.weights`".to_owned(),
    })
}

fn of_bits(bits: Option<u64>) -> Option<StoredFormat> {
    match bits? {
        2..=4 => Some(StoredFormat::Int4),
        5..=8 => Some(StoredFormat::Int8),
        16 => Some(StoredFormat::Bf16),
        _ => None,
    }
}

/// The first of `config_groups`, which states the bits and type of its weights.
fn of_groups(part: &Value) -> Option<StoredFormat> {
    let groups = part.get("config_groups")?.as_object()?;
    let weights = groups.values().find_map(|group| group.get("weights")?.as_object())?;
    let is_mxfp4 =
        |group: &Value| group.get("format").and_then(Value::as_str).is_some_and(|name| name.starts_with("mxfp4"));
    if groups.values().any(is_mxfp4) {
        return Some(StoredFormat::Mxfp4);
    }
    let is_float = weights.get("type").and_then(Value::as_str) == Some("float");
    match weights.get("num_bits").and_then(Value::as_u64) {
        Some(8) if is_float => Some(StoredFormat::Fp8),
        Some(4) if is_float => Some(StoredFormat::Nvfp4),
        bits => of_bits(bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(part: &str) -> Result<StoredFormat, ConfigError> {
        let text = format!(r#"{{"quantization_config":{part}}}"#);
        format(serde_json::from_str::<Value>(&text).unwrap().as_object().unwrap())
    }

    #[test]
    fn formats_are_those_that_organisations_write() {
        for (part, wanted) in [
            ("null", StoredFormat::Bf16),
            (r#"{"quant_method":"fp8","weight_block_size":[128,128]}"#, StoredFormat::Fp8),
            (r#"{"quant_method":"mxfp4"}"#, StoredFormat::Mxfp4),
            (r#"{"quant_method":"awq","bits":4}"#, StoredFormat::Int4),
            (r#"{"quant_method":"gptq","bits":8}"#, StoredFormat::Int8),
            (r#"{"quant_method":"bitsandbytes","load_in_4bit":true}"#, StoredFormat::Int4),
            (r#"{"quant_method":"modelopt","quant_algo":"NVFP4"}"#, StoredFormat::Nvfp4),
            (
                r#"{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}}"#,
                StoredFormat::Fp8,
            ),
            (
                r#"{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int"}}}}"#,
                StoredFormat::Int4,
            ),
        ] {
            assert_eq!(read(part), Ok(wanted), "{part}");
        }
        for part in ["{}", "3", r#"{"quant_method":"new"}"#, r#"{"quant_method":"gptq"}"#, r#"{"quant_method":7}"#] {
            assert!(read(part).unwrap_err().to_string().contains("state `serving.weights`"), "{part}");
        }
    }
}
