//! `Scalar`: a number or text, as a workload file and a flag state the same thing, and the checks of its value.

use std::fmt;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::file::error::WorkloadFileError;
use gpuplan_units::names::did_you_mean;
use gpuplan_units::quantity::parse_count;
use gpuplan_units::{Bytes, nearest};

/// No data set or checkpoint of a run is near an exabyte.
const LARGEST_BYTES: f64 = 1e18;

/// `128`, `1.5e9` or `"300B"`. Whether it is a possible value is checked with the name of its key, on resolving.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    Whole(i64),
    Real(f64),
    Text(String),
}

impl From<&str> for Scalar {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Scalar {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u32> for Scalar {
    fn from(number: u32) -> Self {
        Self::Whole(i64::from(number))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::Integer(number) => Ok(Self::Whole(number)),
            toml::Value::Float(number) => Ok(Self::Real(number)),
            toml::Value::String(text) => Ok(Self::Text(text)),
            toml::Value::Datetime(time) => Ok(Self::Text(time.to_string())),
            other => Err(D::Error::custom(format!(
                "expected a number or text, found {} {}",
                article(&other),
                other.type_str()
            ))),
        }
    }
}

fn article(value: &toml::Value) -> &'static str {
    if value.is_array() { "an" } else { "a" }
}

/// Text that may be written as a number, such as a budget. JSON says `null` where TOML says nothing.
pub(super) fn plain_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Scalar>::deserialize(deserializer)?.map(|scalar| scalar.to_string()))
}

/// A list of names, or one text with commas.
pub(super) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(optional_names(deserializer)?.unwrap_or_default())
}

/// Names as a file may write them.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a list of names, such as [\"aws\", \"gcp\"]")]
pub(super) enum Names {
    /// One text, with commas between the names.
    One(String),
    Many(Vec<String>),
}

pub(super) fn optional_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    Ok(Option::<Names>::deserialize(deserializer)?.map(|words| match words {
        Names::One(text) => {
            text.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
        }
        Names::Many(words) => words,
    }))
}

/// `true`, `false` or the rate, as frameworks state dropout.
pub(super) fn switch_or_rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let Some(value) = Option::<toml::Value>::deserialize(deserializer)? else { return Ok(None) };
    match value {
        toml::Value::Boolean(on) => Ok(Some(on)),
        toml::Value::Integer(0) => Ok(Some(false)),
        toml::Value::Float(rate) if (0.0..1.0).contains(&rate) => Ok(Some(rate > 0.0)),
        other => Err(D::Error::custom(format!("expected true, false or a rate from 0 to 1, found {other}"))),
    }
}

/// What `switch_or_rate` accepts.
pub(super) fn switch_or_rate_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["boolean", "number", "null"], "minimum": 0, "exclusiveMaximum": 1 })
}

/// At most 60 characters of what the user wrote.
pub(super) fn shown(value: impl fmt::Display) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// A name of the Hub in full, since it stands in a command: owner and repository have 96 letters each at most
/// (huggingface_hub, `validate_repo_id`).
pub(super) fn shown_name(name: &str) -> String {
    if name.chars().count() <= 2 * 96 + 1 { name.to_owned() } else { shown(name) }
}

pub(super) fn invalid(key: &str, detail: impl Into<String>) -> WorkloadFileError {
    invalid_near(key, detail, Vec::new())
}

/// The same, with values that are probably meant.
pub(super) fn invalid_near(
    key: &str,
    detail: impl Into<String>,
    nearest: impl IntoIterator<Item = String>,
) -> WorkloadFileError {
    WorkloadFileError::Invalid { key: key.to_owned(), detail: detail.into(), nearest: nearest.into_iter().collect() }
}

pub(super) fn missing(key: &str, detail: impl Into<String>) -> WorkloadFileError {
    WorkloadFileError::Missing { key: key.to_owned(), detail: detail.into() }
}

pub(super) fn conflict(first: &str, second: &str) -> WorkloadFileError {
    WorkloadFileError::Conflict { first: first.to_owned(), second: second.to_owned() }
}

/// A positive count that need not be whole, such as `300B` tokens or `0.5` epochs.
pub(super) fn count(key: &str, scalar: Option<&Scalar>) -> Result<Option<f64>, WorkloadFileError> {
    scalar.map(|scalar| stated_count(key, scalar)).transpose()
}

/// The same of what is stated.
pub(super) fn stated_count(key: &str, scalar: &Scalar) -> Result<f64, WorkloadFileError> {
    let text = scalar.to_string();
    parse_count(&text).map(settled).map_err(|_| {
        let detail = format!("`{}` is not a valid count above zero; try 1T, 300B, 15M or 8.03e9", shown(&text));
        invalid_near(key, detail, nearest::count(&text))
    })
}

/// `1.1k` is 1100, whatever binary floating point makes of the product.
fn settled(count: f64) -> f64 {
    let whole = count.round();
    if (count - whole).abs() <= 1e-12 * count { whole } else { count }
}

/// A whole number in `range`.
pub(super) fn whole<N>(
    key: &str,
    scalar: Option<&Scalar>,
    range: RangeInclusive<N>,
) -> Result<Option<N>, WorkloadFileError>
where
    N: Copy + PartialOrd + fmt::Display + TryFrom<u64>,
{
    let Some(scalar) = scalar else { return Ok(None) };
    let text = scalar.to_string();
    let number = match text.trim() {
        "0" => Some(0.0),
        text => parse_count(text).ok().map(settled).filter(|number| number.fract() == 0.0 && *number < 9e15),
    };
    let number = number.and_then(|number| N::try_from(number as u64).ok()).filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| {
        let detail = format!("`{}` is not a whole number from {} to {}", shown(&text), range.start(), range.end());
        let is_in = |near: &String| whole(key, Some(&near.as_str().into()), range.clone()).is_ok();
        invalid_near(key, detail, nearest::count(&text).filter(|near| *near != text && is_in(near)))
    })
}

/// An amount of data with its unit.
pub(super) fn bytes(key: &str, text: &str) -> Result<Bytes, WorkloadFileError> {
    let bytes = Bytes::parse(text).map_err(|_| {
        let detail = format!("`{}` is not a valid amount of data; try 500GB or 1.5TiB", shown(text));
        invalid_near(key, detail, nearest::data(text))
    })?;
    if bytes.0 > 0.0 && bytes.0 <= LARGEST_BYTES {
        Ok(bytes)
    } else {
        Err(invalid(key, format!("`{}` is out of range; give more than zero and less than an exabyte", shown(text))))
    }
}

/// One of the words of an enumeration; `_` stands for `-`.
pub(super) fn choice<T: DeserializeOwned>(key: &str, text: Option<&str>) -> Result<Option<T>, WorkloadFileError> {
    let Some(text) = text else { return Ok(None) };
    let word = text.trim().to_ascii_lowercase().replace('_', "-");
    let deserializer: StrDeserializer<'_, Refused> = word.as_str().into_deserializer();
    T::deserialize(deserializer).map(Some).map_err(|refused| not_among(key, text, refused.0))
}

pub(super) fn not_among(key: &str, text: &str, known: &[&str]) -> WorkloadFileError {
    let text = shown(text);
    let near = did_you_mean(&text, known.iter().copied());
    let meant = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let detail = format!("`{text}` is not known; choose one of {}{meant}", known.join(", "));
    invalid_near(key, detail, near.map(str::to_owned))
}

/// Keeps the words that an enumeration knows.
#[derive(Debug)]
struct Refused(&'static [&'static str]);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not among {}", self.0.join(", "))
    }
}

impl std::error::Error for Refused {}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::precision::Precision;
    use proptest::prelude::*;

    #[test]
    fn a_word_outside_the_list_is_answered_with_the_list() {
        assert_eq!(choice::<Precision>("p", Some(" Pure_BF16")).unwrap(), Some(Precision::PureBf16));
        let error = choice::<Precision>("training.precision", Some("fp-8")).unwrap_err().to_string();
        assert_eq!(
            error,
            "`training.precision`: `fp-8` is not known; choose one of fp32, tf32, fp16, amp-fp16, bf16, pure-bf16, fp8, mxfp8, nvfp4; \
             did you mean `fp8`?"
        );
    }

    #[test]
    fn whole_numbers_keep_their_limits() {
        assert_eq!(whole("k", Some(&"4k".into()), 1..=16_777_216_u32).unwrap(), Some(4000));
        assert_eq!(whole("k", Some(&"1.1k".into()), 1..=9999_u32).unwrap(), Some(1100));
        assert_eq!(whole("k", Some(&Scalar::Whole(0)), 0..=9_u32).unwrap(), Some(0));
        for scalar in [
            Scalar::Whole(0),
            Scalar::Whole(-3),
            Scalar::Real(2.5),
            Scalar::Real(f64::NAN),
            Scalar::Real(1e30),
            "many".into(),
        ] {
            assert!(whole("k", Some(&scalar), 1..=100_u32).is_err(), "{scalar}");
        }
        for scalar in [Scalar::Whole(0), Scalar::Whole(i64::MIN), Scalar::Real(f64::INFINITY), "".into()] {
            assert!(count("k", Some(&scalar)).is_err(), "{scalar}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_count_or_refused(text in prop_oneof![".{0,80}", "[0-9]{0,5}[.]?[0-9]{0,3}[kMBT]?"]) {
            let scalar = Scalar::Text(text);
            match (count("k", Some(&scalar)), whole("k", Some(&scalar), 1..=u64::MAX)) {
                (Ok(Some(count)), whole) => {
                    prop_assert!(count.is_finite() && count > 0.0);
                    prop_assert!(whole.map_or(count.fract() != 0.0 || count >= 9e15, |whole| whole == Some(count as u64)));
                }
                (Ok(None), _) => prop_assert!(false, "stated and not read"),
                (Err(why), whole) => {
                    prop_assert!(why.to_string().contains("`k`") && why.to_string().contains(&shown(&scalar)), "{why}");
                    prop_assert!(whole.is_err());
                }
            }
            prop_assert!(shown(&scalar).chars().count() <= 63);
        }
    }
}
