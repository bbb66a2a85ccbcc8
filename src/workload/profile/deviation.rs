//! `Deviation`: a measured step beside what is estimated for the same run on the same GPUs, term by term.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A measured step beside the estimated one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deviation {
    /// GPUs and layout that were estimated.
    pub on: String,
    pub measured_seconds: f64,
    /// Without any correction by measurements.
    pub estimated_seconds: f64,
    /// The largest deviation first; none where no trace tells the terms apart.
    pub terms: Vec<TermDeviation>,
    /// How far the estimate is off on the published runs that are most like this one, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

/// One term of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TermDeviation {
    pub term: Term,
    pub measured_seconds: f64,
    pub estimated_seconds: f64,
    /// Rules whose findings are about this term.
    pub because: Vec<String>,
}

/// Parts of a step that a trace and the estimate both tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// Matrix products, convolutions and attention.
    Products,
    /// Kernels that move memory: norms, activations, loss, optimizer.
    Memory,
    /// Waiting for the host to launch something.
    Launches,
    /// Waiting for input.
    Input,
    /// Communication beside which nothing else runs.
    Communication,
}

impl Term {
    pub fn words(self) -> &'static str {
        match self {
            Self::Products => "matrix products",
            Self::Memory => "memory kernels",
            Self::Launches => "launches",
            Self::Input => "input",
            Self::Communication => "communication alone",
        }
    }
}
