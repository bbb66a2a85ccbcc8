//! Values of an object: words, counts, times, and what a tool has yet to fill in.

use serde_json::Value;

use crate::error::invalid;
use crate::{ImportError, JobRequest};
use gpuplan_units::Hours;

/// What the plugins of vendors call a GPU; the last is the name before Kubernetes 1.8.
pub const GPU_RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "alpha.kubernetes.io/nvidia-gpu"];

/// A text that a template or a tool fills in before the object is applied.
pub fn is_placeholder(text: &str) -> bool {
    text.contains('$') || text.starts_with('<') || text.starts_with("PLACEHOLDER")
}

/// What is said of a count that a tool has yet to fill in.
const OPEN: &str = "a placeholder; 1 is taken";

/// Whether a tool has yet to fill in how many pods there are.
pub fn has_open_count(asked: &JobRequest) -> bool {
    asked.unread.iter().any(|one| one.value.ends_with(&format!("({OPEN})")))
}

/// A count that is 1 where it is not given.
pub fn count(object: &Value, key: &str, asked: &mut JobRequest) -> Result<u32, ImportError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(1),
        Some(Value::String(text)) if is_placeholder(text) => {
            asked.leave_unread(key, format!("{text} ({OPEN})"));
            Ok(1)
        }
        // Something else starts and ends them.
        Some(value) if value.as_u64() == Some(0) => {
            asked.leave_unread(key, "0 (scaled from outside; 1 is taken)");
            Ok(1)
        }
        Some(value) => value
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .filter(|number| *number > 0 && *number < 1_000_000)
            .ok_or_else(|| invalid(key, format!("`{value}` is not a number of pods"))),
    }
}

pub fn deadline(spec: &Value) -> Result<Option<Hours>, ImportError> {
    let key = "activeDeadlineSeconds";
    let Some(value) = spec.get(key).filter(|value| !value.is_null()) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| *seconds > 0.0);
    seconds
        .map(|seconds| Some(Hours(seconds / 3600.0)))
        .ok_or_else(|| invalid(key, format!("`{value}` is not a number of seconds")))
}

/// A text; empty where there is none.
pub fn word<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}
