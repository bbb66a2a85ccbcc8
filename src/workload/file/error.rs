//! `WorkloadFileError`: why a workload file cannot be used.

/// Why a workload file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadFileError {
    #[error("line {line}, column {column}: {detail}")]
    Syntax { line: usize, column: usize, detail: String, suggestion: Option<String> },
    #[error("no model is called `{name}`")]
    UnknownModel { name: String, suggestion: Option<String> },
    #[error("`{key}`: {detail}")]
    Invalid { key: String, detail: String },
    #[error("`{first}` and `{second}` exclude each other")]
    Conflict { first: String, second: String },
    #[error("`{key}` is missing: {detail}")]
    Missing { key: String, detail: String },
}
