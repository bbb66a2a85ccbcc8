//! Plan files: what `plan --output json` wrote, as every command that takes one reads it.

use std::path::Path;

use crate::session::diagnostic::Diagnostic;
use crate::session::input::read_text;
use gpuplan_plan::document::DocumentError;
use gpuplan_workload::file::{LimitsSection, WorkloadFile};

/// The text of a recorded answer. `None`: there is no file, or it is a workload in TOML.
pub fn json_text(path: Option<&Path>) -> Result<Option<String>, Diagnostic> {
    let Some(path) = path else { return Ok(None) };
    let text = read_text(path)?;
    Ok(text.trim_start().starts_with('{').then_some(text))
}

/// Why a file is not the plan that a command needs, and what to type.
pub fn refused(path: &Path, error: &DocumentError) -> Diagnostic {
    Diagnostic::usage(format!("{}: {error}", path.display())).hint(error.hint())
}

/// A recorded answer is taken as it is: flags that ask something else are an error.
pub fn is_unchanged(
    path: &Path,
    stated: &WorkloadFile,
    asked: &WorkloadFile,
    limits: &LimitsSection,
) -> Result<(), Diagnostic> {
    if asked == stated && *limits == LimitsSection::default() {
        return Ok(());
    }
    let message = format!("{} is a recorded plan, which flags of a question do not change", path.display());
    Err(Diagnostic::usage(message).hint("give the workload file instead, or plan again with these flags"))
}
