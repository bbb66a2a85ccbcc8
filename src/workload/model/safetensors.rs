//! Exact sizes of a published checkpoint: the header of a safetensors file, or the index of several.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde_json::Value;

use gpuplan_units::Bytes;

/// Longest header that the format allows (huggingface/safetensors, `MAX_HEADER_SIZE`).
const LONGEST_HEADER: u64 = 100_000_000;

#[derive(Deserialize)]
struct Index {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    total_size: f64,
}

/// What a file of weights holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Census {
    /// Elements of all tensors, from a header that says their shapes.
    Parameters(f64),
    /// Bytes of all tensors, whatever their elements are: from an index, or where several weights are packed in one element.
    Size(Bytes),
}

/// Why a file of weights cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("not a safetensors index: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("`metadata.total_size` is {0}, which is not a size")]
    Impossible(f64),
    #[error("not a safetensors file: {0}")]
    Header(&'static str),
    #[error("the file ends in its header: {0}")]
    Torn(#[from] std::io::Error),
}

/// An index where the text begins as JSON does; else a file of tensors, of which the header alone is read.
pub fn census(mut reader: impl Read) -> Result<Census, IndexError> {
    let mut start = [0; 8];
    reader.read_exact(&mut start)?;
    // The first eight bytes of a header are its length, which has zeros where text has letters.
    if start.contains(&b'{') && !start.contains(&0) {
        return total_size(start.chain(reader)).map(Census::Size);
    }
    let length = u64::from_le_bytes(start);
    if !(2..=LONGEST_HEADER).contains(&length) {
        return Err(IndexError::Header("its first eight bytes are no length of a header"));
    }
    let mut header = Vec::new();
    reader.take(length).read_to_end(&mut header)?;
    if (header.len() as u64) < length {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    let header: BTreeMap<String, Value> =
        serde_json::from_slice(&header).map_err(|_| IndexError::Header("its header is not JSON"))?;
    counted(&header)
}

/// The numbers of all tensors. Weights of four bits are stored several in one integer: then only the bytes are known.
fn counted(header: &BTreeMap<String, Value>) -> Result<Census, IndexError> {
    let (mut parameters, mut bytes, mut is_packed) = (0.0, 0.0, false);
    for tensor in header.iter().filter(|(name, _)| *name != "__metadata__").map(|(_, tensor)| tensor) {
        let (Some(kind), Some(shape)) = (tensor["dtype"].as_str(), tensor["shape"].as_array()) else {
            return Err(IndexError::Header("a tensor has no `dtype` or no `shape`"));
        };
        let sides: Option<Vec<f64>> = shape.iter().map(Value::as_f64).collect();
        let elements: f64 = sides.ok_or(IndexError::Header("a side of a tensor is not a number"))?.iter().product();
        let each = match kind {
            "F64" | "I64" | "U64" => 8.0,
            "F32" | "I32" | "U32" => 4.0,
            "F16" | "BF16" | "I16" | "U16" => 2.0,
            _ => 1.0,
        };
        is_packed |= matches!(kind, "I32" | "U32" | "U8") && elements > 1e4;
        bytes += elements * each;
        parameters += elements;
    }
    match (is_packed, parameters) {
        (_, parameters) if !(1.0..1e16).contains(&parameters) => Err(IndexError::Header("it has no tensors")),
        (false, parameters) => Ok(Census::Parameters(parameters)),
        (true, _) => Ok(Census::Size(Bytes(bytes))),
    }
}

/// Bytes of all weights together, of an index.
fn total_size(reader: impl Read) -> Result<Bytes, IndexError> {
    let index: Index = serde_json::from_reader(reader)?;
    let size = index.metadata.total_size;
    if size.is_finite() && size > 0.0 && size < 1e18 { Ok(Bytes(size)) } else { Err(IndexError::Impossible(size)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes
    }

    #[test]
    fn the_total_of_an_index_is_read_and_nonsense_is_refused() {
        let text = br#"{"metadata":{"total_size":16060522496},"weight_map":{}}"#;
        assert_eq!(census(&text[..]).unwrap(), Census::Size(Bytes(16_060_522_496.0)));
        let indented = b"{\n  \"metadata\": {\"total_size\": 5}}";
        assert_eq!(census(&indented[..]).unwrap(), Census::Size(Bytes(5.0)));
        for text in [r#"{"metadata":{"total_size":-1}}"#, r#"{"metadata":{}}"#, "{", "", "{\"metadata\""] {
            assert!(census(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_header_counts_its_tensors() {
        let plain = r#"{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"BF16","shape":[1000,200],"data_offsets":[0,400000]},"b":{"dtype":"F32","shape":[7],"data_offsets":[400000,400028]}}"#;
        assert_eq!(census(&file(plain)[..]).unwrap(), Census::Parameters(200_007.0));
        // AWQ: eight weights in an integer.
        let packed = r#"{"q":{"dtype":"I32","shape":[4096,512],"data_offsets":[0,8388608]}}"#;
        assert_eq!(census(&file(packed)[..]).unwrap(), Census::Size(Bytes(8_388_608.0)));
        for header in ["{}", "{\"a\":3}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[\"x\"]}}", "nonsense"] {
            assert!(census(&file(header)[..]).is_err(), "{header}");
        }
        assert!(census(&file(plain)[..40]).is_err());
        assert!(census(&[255; 64][..]).is_err());
    }
}
