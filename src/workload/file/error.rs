//! `WorkloadFileError`: why a workload file cannot be used.

use crate::file::foreign::ForeignFormat;
use gpuplan_units::names::did_you_mean;

/// Why a workload file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadFileError {
    #[error("line {line}, column {column}: {detail}")]
    Syntax { line: usize, column: usize, detail: String, suggestion: Option<String> },
    /// A file of another kind.
    #[error("{format}, and a workload is written in TOML")]
    Foreign { format: ForeignFormat },
    /// `members` are the models among which the name leaves the choice.
    #[error("{}", unknown_model(name, members))]
    UnknownModel { name: String, suggestion: Option<String>, members: Vec<String> },
    /// `nearest` has values of this key that are probably meant.
    #[error("`{key}`: {detail}")]
    Invalid { key: String, detail: String, nearest: Vec<String> },
    #[error("`{first}` and `{second}` exclude each other")]
    Conflict { first: String, second: String },
    #[error("`{key}` is missing: {detail}")]
    Missing { key: String, detail: String },
}

fn unknown_model(name: &str, members: &[String]) -> String {
    if members.is_empty() {
        format!("no model is called `{name}`")
    } else {
        format!("`{name}` leaves open which of {} models is meant", members.len())
    }
}

/// The key that serde's message says is unknown, and the known one that was probably meant.
pub(super) fn unknown_key(message: &str) -> Option<(&str, Option<&str>)> {
    // `unknown field `a`, expected one of `b`, `c``: the known keys stand in the message.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown field"))?;
    Some((unknown, did_you_mean(unknown, quoted)))
}
