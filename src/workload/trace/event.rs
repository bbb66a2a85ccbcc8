//! One event of a Chrome trace, as Kineto (PyTorch) and the profiler of TensorFlow and JAX write it.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de};

/// Only what is counted; all else is passed by.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Event<'a> {
    #[serde(borrow)]
    pub ph: Cow<'a, str>,
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub cat: Cow<'a, str>,
    pub pid: Number,
    /// A number, or `stream 7` in early versions of Kineto.
    pub tid: Number,
    /// Microseconds.
    pub ts: Number,
    pub dur: Number,
    #[serde(borrow)]
    pub args: Arguments<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Arguments<'a> {
    /// Of an event that names a process or thread.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(alias = "Device")]
    pub device: Number,
    #[serde(alias = "correlation_id")]
    pub correlation: Number,
    /// What joins a call to its kernel on AMD's chips, where nothing is called a correlation.
    #[serde(rename = "External id", alias = "external id")]
    pub external: Number,
    #[serde(alias = "Bytes", alias = "bytes_accessed")]
    pub bytes: Number,
    /// JAX marks its steps so.
    pub step_num: Number,
}

/// A number as it stands or as text; anything else is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Number(pub Option<f64>);

impl Number {
    pub fn whole(self) -> Option<i64> {
        self.0.filter(|number| number.abs() < 9e15).map(|number| number as i64)
    }

    /// Microseconds as nanoseconds.
    pub fn nanos(self) -> Option<i64> {
        self.0.map(|micros| micros * 1e3).filter(|nanos| nanos.abs() < 4e18).map(|nanos| nanos.round() as i64)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'de> de::Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
        Ok(Number(Some(value).filter(|value| value.is_finite())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
        Ok(Number(Some(value as f64)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Number, E> {
        let digits = text.strip_prefix("stream ").unwrap_or(text);
        Ok(Number(digits.trim().parse().ok().filter(|value: &f64| value.is_finite())))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number(None))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number(None))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Number, A::Error> {
        while list.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }
}

/// Sizes and types of an operator's arguments, where the profiler recorded shapes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Shaped {
    args: ShapedArguments,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ShapedArguments {
    #[serde(rename = "Input Dims", alias = "Input dims")]
    sizes: serde_json::Value,
    #[serde(rename = "Input type", alias = "Input Types")]
    types: serde_json::Value,
}

/// The two matrices of a product: rows, shared length, columns; and the number format in the profiler's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub rows: u64,
    pub shared: u64,
    pub columns: u64,
    pub format: String,
}

/// Operators that are one matrix product each, and where their two matrices stand among their arguments.
const PRODUCTS: [(&str, usize); 4] = [("aten::mm", 0), ("aten::bmm", 0), ("aten::addmm", 1), ("aten::baddbmm", 1)];

/// The product that this event is, if its shapes were recorded.
pub fn product(name: &str, json: &[u8]) -> Option<Product> {
    let (_, first) = PRODUCTS.iter().find(|(known, _)| *known == name)?;
    let arguments = serde_json::from_slice::<Shaped>(json).ok()?.args;
    let matrix = |at: usize| {
        let sizes = arguments.sizes.get(at)?.as_array()?;
        let last = sizes.len().checked_sub(2)?;
        Some((sizes[last].as_u64()?, sizes[last + 1].as_u64()?))
    };
    let ((rows, shared), (_, columns)) = (matrix(*first)?, matrix(first + 1)?);
    let format = arguments.types.get(first).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    Some(Product { rows, shared, columns, format })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_as_numbers_or_text() {
        let event: Event =
            serde_json::from_str(r#"{"ph": "X", "tid": "stream 7", "pid": 0, "ts": 1.5, "dur": null, "args": {"correlation": "446", "grid": [1, {}], "device": {}}}"#)
                .unwrap();
        assert_eq!((event.tid.whole(), event.ts.nanos(), event.dur.0), (Some(7), Some(1500), None));
        assert_eq!((event.args.correlation.whole(), event.args.device.0), (Some(446), None));
    }

    #[test]
    fn products_are_read_from_recorded_shapes() {
        let json = br#"{"name": "aten::addmm", "args": {"Input Dims": [[128], [8, 64], [64, 128], [], []], "Input type": ["float", "c10::Half", "c10::Half", "Scalar"]}}"#;
        assert_eq!(
            product("aten::addmm", json),
            Some(Product { rows: 8, shared: 64, columns: 128, format: "c10::Half".to_owned() })
        );
        assert_eq!(product("aten::mm", br#"{"args": {}}"#), None);
        assert_eq!(product("aten::add", json), None);
    }
}
