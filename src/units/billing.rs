//! What a cloud charges for a started machine: every started second, and a minute at least.

use serde::{Deserialize, Deserializer};

/// AWS and Google Cloud bill accelerated Linux machines by the second with a minimum of a minute.
pub const MINIMUM_BILLED_SECONDS: u32 = 60;

/// Seconds on the invoice for a machine that ran for `seconds` and is charged for `minimum_seconds` at least.
pub fn billed_seconds(seconds: f64, minimum_seconds: u32) -> f64 {
    seconds.max(f64::from(minimum_seconds)).ceil()
}

/// [`MINIMUM_BILLED_SECONDS`], as the default of a field that records leave out.
pub fn minimum_billed_seconds() -> u32 {
    MINIMUM_BILLED_SECONDS
}

/// Reads a minimum in seconds, or the billing rule of which earlier versions made it a part.
pub fn read_minimum<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Seconds(u32),
        Rule { minimum_seconds: u32 },
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Seconds(seconds) | Written::Rule { minimum_seconds: seconds } => seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_earlier_versions_are_read() {
        let read = |json: serde_json::Value| read_minimum(json).ok();
        assert_eq!(read(serde_json::json!(60)), Some(60));
        assert_eq!(read(serde_json::json!({"step_seconds": 1, "minimum_seconds": 86_400})), Some(86_400));
        assert_eq!(read(serde_json::json!("60")), None);
    }

    #[test]
    fn a_started_second_is_a_paid_second_and_a_minute_the_least() {
        assert_eq!(billed_seconds(3.2, MINIMUM_BILLED_SECONDS), 60.0);
        assert_eq!(billed_seconds(61.2, MINIMUM_BILLED_SECONDS), 62.0);
        assert_eq!(billed_seconds(61.2, 3600), 3600.0);
    }
}
