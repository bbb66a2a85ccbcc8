//! `Seconds` and `Hours`, and reading durations such as `36h`, `2d` or `90m`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::decimal;

/// A length of time. Predictions use it, so it is floating point.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seconds(pub f64);

/// A length of time in hours, the unit that machines are sold by.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Hours(pub f64);

impl From<Seconds> for Hours {
    fn from(seconds: Seconds) -> Self {
        Self(seconds.0 / 3600.0)
    }
}

impl From<Hours> for Seconds {
    fn from(hours: Hours) -> Self {
        Self(hours.0 * 3600.0)
    }
}

/// Why text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid duration; try 36h, 2d, 90m or 1d12h")]
pub struct DurationError(String);

impl Hours {
    /// Reads `36h`, `2d`, `90m`, `45s`, `300ms`, `1w` and sums of them. A number needs its unit, since `12` may be hours or days;
    /// zero needs none.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let refuse = || DurationError(text.to_owned());
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self(0.0));
        }
        let mut rest = trimmed;
        let mut hours = 0.0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
            let amount: f64 = rest[..digits].parse().map_err(|_| refuse())?;
            rest = rest[digits..].trim_start();
            let unit = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            hours += amount
                * match &rest[..unit] {
                    "ms" => 1.0 / 3_600_000.0,
                    "s" | "sec" | "seconds" => 1.0 / 3600.0,
                    "m" | "min" | "minutes" => 1.0 / 60.0,
                    "h" | "hour" | "hours" => 1.0,
                    "d" | "day" | "days" => 24.0,
                    "w" | "week" | "weeks" => 168.0,
                    _ => return Err(refuse()),
                };
            rest = rest[unit..].trim_start();
        }
        if trimmed.is_empty() || !hours.is_finite() { Err(refuse()) } else { Ok(Self(hours)) }
    }
}

impl fmt::Display for Hours {
    /// The largest fitting unit with three figures: `41.7 h`, `12.4 d`, `35 min`, `4.5 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            hours if hours < 1.0 / 60.0 => (hours * 3600.0, "s"),
            hours if hours < 1.0 => (hours * 60.0, "min"),
            hours if hours < 96.0 => (hours, "h"),
            hours if hours < 24_000.0 => (hours / 24.0, "d"),
            hours => (hours / 8766.0, "years"),
        };
        let digits = if value >= 99.95 {
            0
        } else if value >= 9.995 {
            1
        } else {
            2
        };
        write!(f, "{} {unit}", decimal(value, digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_with_three_figures() {
        for (hours, text) in
            [(720.0, "30 d"), (41.66, "41.7 h"), (0.00125, "4.5 s"), (0.6, "36 min"), (1.0, "1 h"), (9.999, "10 h")]
        {
            assert_eq!(Hours(hours).to_string(), text);
        }
    }

    #[test]
    fn durations_read_as_people_write_them() {
        for (text, hours) in [
            ("36h", 36.0),
            ("2d", 48.0),
            ("1d12h", 36.0),
            ("90m", 1.5),
            ("0", 0.0),
            ("1.5 h", 1.5),
            ("30s", 1.0 / 120.0),
            ("300ms", 1.0 / 12_000.0),
        ] {
            assert!((Hours::parse(text).unwrap().0 - hours).abs() < 1e-12, "{text}");
        }
        for text in ["", "h", "12x", "-3h", "nan", "inf", "1..2h", "soon", "7", "1.5", "1d12"] {
            assert!(Hours::parse(text).is_err(), "{text}");
        }
    }
}
