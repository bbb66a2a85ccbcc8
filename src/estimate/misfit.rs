//! `Infeasible`: why a setting cannot run.

use schemars::JsonSchema;
use serde::Serialize;

use gpuplan_units::{Bytes, Seconds};

/// Why a setting cannot run. A value, since most settings of a search cannot.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Infeasible {
    NeedsMemory {
        need: Bytes,
        have: Bytes,
    },
    Indivisible {
        what: &'static str,
        by: u32,
    },
    Unsupported {
        detail: String,
    },
    /// A served model cannot answer as soon as is asked, however little it has to do.
    Slow {
        what: &'static str,
        least: Seconds,
        target: Seconds,
    },
}
