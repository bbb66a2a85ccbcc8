//! Samples as JSON lines.

use crate::samples::Sample;

/// One sample, one line.
pub fn line(sample: &Sample) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string(sample)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::metrics::example;

    #[test]
    fn a_sample_is_one_line() {
        let text = line(&example()).unwrap();
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((value["gpus"][1]["index"].as_u64(), value["host"]["cores_used"].as_f64()), (Some(1), Some(1.5)));
    }
}
