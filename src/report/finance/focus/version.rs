//! The versions of FOCUS that are written, and why charges cannot be.

use std::fmt;
use std::str::FromStr;

/// A version of the specification whose columns are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FocusVersion {
    /// Of 29 May 2025.
    V1_2,
    /// Of 4 December 2025.
    V1_3,
    /// Of 4 June 2026.
    V1_4,
}

impl FromStr for FocusVersion {
    type Err = FocusError;

    fn from_str(text: &str) -> Result<Self, FocusError> {
        match text {
            "1.2" => Ok(Self::V1_2),
            "1.3" => Ok(Self::V1_3),
            "1.4" => Ok(Self::V1_4),
            other => Err(FocusError::Version(other.to_owned())),
        }
    }
}

impl fmt::Display for FocusVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
            Self::V1_4 => "1.4",
        })
    }
}

/// Why charges cannot be written as FOCUS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FocusError {
    #[error("`{0}` is not a supported version of FOCUS; try 1.2, 1.3 or 1.4")]
    Version(String),
    #[error("charge {charge}: FOCUS has no word for the unit `{unit}`")]
    Unit { charge: String, unit: String },
    #[error("charge {charge}: its quantity is not a number")]
    Quantity { charge: String },
    #[error("charge {charge}: it ends before it begins")]
    Period { charge: String },
    #[error("charge {charge}: its tags cannot be written: {detail}")]
    Text { charge: String, detail: String },
}
