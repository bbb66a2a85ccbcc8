//! `GpuCount`: whole cards or an exact fraction of one, since clouds sell slices of 1/8 to 1/2.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Number of GPUs as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuCount {
    numerator: u16,
    denominator: u16,
}

/// Why text is not a number of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid number of GPUs; try 8 or 1/4")]
pub struct GpuCountError(String);

impl GpuCount {
    pub const fn whole(count: u16) -> Self {
        Self { numerator: count, denominator: 1 }
    }

    /// Reads `8`, `1/4` or `0.125`.
    pub fn parse(text: &str) -> Result<Self, GpuCountError> {
        let refuse = || GpuCountError(text.to_owned());
        let (top, bottom) = match text.split_once('/') {
            Some((top, bottom)) => {
                (top.trim().parse().map_err(|_| refuse())?, bottom.trim().parse().map_err(|_| refuse())?)
            }
            None => match text.trim().parse::<u16>() {
                Ok(whole) => (whole, 1),
                Err(_) => {
                    let share: f64 = text.trim().parse().map_err(|_| refuse())?;
                    let eighths = share * 8.0;
                    if !(1.0..=1024.0).contains(&eighths) || eighths.fract() != 0.0 {
                        return Err(refuse());
                    }
                    (eighths as u16, 8)
                }
            },
        };
        if top == 0 || bottom == 0 {
            return Err(refuse());
        }
        let divisor = greatest_common_divisor(top, bottom);
        Ok(Self { numerator: top / divisor, denominator: bottom / divisor })
    }

    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }

    /// Devices that software sees: a slice of a card is one device.
    pub fn devices(self) -> u32 {
        u32::from(self.numerator.div_ceil(self.denominator))
    }

    pub fn is_slice(self) -> bool {
        self.numerator < self.denominator
    }
}

fn greatest_common_divisor(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

impl fmt::Display for GpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            _ => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

impl Serialize for GpuCount {
    /// A number, so that scripts can compare: `8` or `0.125`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.denominator {
            1 => serializer.serialize_u16(self.numerator),
            _ => serializer.serialize_f64(self.as_f64()),
        }
    }
}

impl JsonSchema for GpuCount {
    fn schema_name() -> Cow<'static, str> {
        "GpuCount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0, "description": "GPUs; a slice of one is below 1" })
    }
}

impl<'de> Deserialize<'de> for GpuCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if number.fract() == 0.0 && (1.0..=f64::from(u16::MAX)).contains(&number) {
            return Ok(Self::whole(number as u16));
        }
        (2..=24)
            .map(|bottom| (number * f64::from(bottom), bottom))
            .find(|(top, _)| (top - top.round()).abs() < 1e-9 && *top >= 1.0 && *top < 1e4)
            .map(|(top, bottom)| Self { numerator: top.round() as u16, denominator: bottom })
            .ok_or_else(|| D::Error::custom(format!("{number} is not a valid number of GPUs")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_exact_and_one_device() {
        assert_eq!(GpuCount::parse("2/16").unwrap(), GpuCount::parse("0.125").unwrap());
        assert_eq!(GpuCount::parse("1/6").unwrap().devices(), 1);
        assert_eq!(GpuCount::whole(8).devices(), 8);
        assert!(GpuCount::parse("1/4").unwrap().is_slice());
        for text in ["0", "1/0", "-1", "0.3", "nan", ""] {
            assert!(GpuCount::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_keeps_the_fraction() {
        for text in ["1/6", "1/3", "1/8", "16"] {
            let count = GpuCount::parse(text).unwrap();
            let json = serde_json::to_string(&count).unwrap();
            assert_eq!(serde_json::from_str::<GpuCount>(&json).unwrap(), count, "{json}");
        }
    }
}
