//! `Bytes` and `BytesPerSecond`. GiB (2^30) and GB (10^9) are different constructors.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An amount of data. Memory needs are predictions, so it is floating point; whole bytes below 2^53 are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Bytes(pub f64);

/// A rate of moving data, one direction unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct BytesPerSecond(pub f64);

/// Why text is not an amount of data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid amount of data; try 500GB, 1.5TiB or 80MiB")]
pub struct BytesError(String);

impl Bytes {
    pub const fn from_gib(gib: f64) -> Self {
        Self(gib * (1_u64 << 30) as f64)
    }

    pub const fn from_mib(mib: f64) -> Self {
        Self(mib * (1_u64 << 20) as f64)
    }

    pub const fn from_gb(gb: f64) -> Self {
        Self(gb * 1e9)
    }

    pub fn gib(self) -> f64 {
        self.0 / (1_u64 << 30) as f64
    }

    pub fn gb(self) -> f64 {
        self.0 / 1e9
    }

    /// Reads `500GB`, `1.5TiB`, `80MiB`; a unit is required, because GB and GiB differ by 7 %.
    pub fn parse(text: &str) -> Result<Self, BytesError> {
        let refuse = || BytesError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
        let amount: f64 = trimmed[..digits].parse().map_err(|_| refuse())?;
        let unit = match trimmed[digits..].trim().to_ascii_lowercase().as_str() {
            "b" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            "pb" => 1e15,
            "kib" => 1024.0,
            "mib" => 1024.0_f64.powi(2),
            "gib" => 1024.0_f64.powi(3),
            "tib" => 1024.0_f64.powi(4),
            "pib" => 1024.0_f64.powi(5),
            _ => return Err(refuse()),
        };
        let bytes = amount * unit;
        if bytes.is_finite() { Ok(Self(bytes)) } else { Err(refuse()) }
    }
}

impl BytesPerSecond {
    pub const fn from_gb(gb: f64) -> Self {
        Self(gb * 1e9)
    }

    pub const fn from_gbit(gbit: f64) -> Self {
        Self(gbit * 1e9 / 8.0)
    }
}

impl fmt::Display for Bytes {
    /// Memory as software shows it, in binary units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b if b < 1024.0_f64.powi(2) => write!(f, "{:.0} KiB", b / 1024.0),
            b if b < 1024.0_f64.powi(3) => write!(f, "{:.0} MiB", b / 1024.0_f64.powi(2)),
            b if b < 1024.0_f64.powi(4) => write!(f, "{:.1} GiB", b / 1024.0_f64.powi(3)),
            b => write!(f, "{:.2} TiB", b / 1024.0_f64.powi(4)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gb_and_gib_are_kept_apart() {
        assert_eq!(Bytes::parse("80GB").unwrap().0, 80e9);
        assert_eq!(Bytes::parse("80 GiB").unwrap(), Bytes::from_gib(80.0));
        assert!(Bytes::parse("80").is_err(), "a unit is required");
        assert!(Bytes::parse("80XB").is_err());
        assert!(Bytes::parse("").is_err());
    }
}
