//! Why limits make no sense.

use jiff::Timestamp;

use gpuplan_hardware::selector::SelectorError;

/// Why limits make no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LimitsError {
    #[error("limits.{key}: {detail}")]
    Invalid { key: &'static str, detail: String },
    #[error("the deadline {deadline} has passed; it is {now}")]
    DeadlinePassed { deadline: Timestamp, now: Timestamp },
    #[error("no cloud is called `{name}`")]
    UnknownCloud { name: String, known: Vec<String> },
    #[error("limits.gpus: {0}")]
    Gpus(#[from] SelectorError),
}
