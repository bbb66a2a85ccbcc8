//! `diff`: compares two plans, two budgets or two price lists, and holds the change to the guardrails of the house.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::args::OutputFormat;
use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;
use crate::settings::Settings;
use gpuplan_budget::diff::{Diff, DiffError, diff};
use gpuplan_budget::guardrail::{self, Guardrail};
use gpuplan_plan::Policy;
use gpuplan_plan::limits::policy::Broken;
use gpuplan_report::{diff_text, prices};

#[derive(Debug, Args)]
#[command(after_help = "Example: gpuplan diff before.json after.json --policy policy.toml --output markdown")]
pub struct DiffArguments {
    /// Plan, budget or price list (JSON, as `--output json` writes it), or a catalog folder
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The same kind of thing, later
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Rules of the house and guardrails of a change; what breaks one ends with code 4
    #[arg(long, value_name = "FILE", env = "GPUPLAN_POLICY")]
    pub policy: Option<PathBuf>,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_results: usize,
}

pub fn run(arguments: &DiffArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if settings.output == OutputFormat::Csv {
        return Err(Diagnostic::new(Exit::Usage, "diff prints a table, JSON or Markdown").hint("--output json"));
    }
    // A budget of hundreds of runs is a megabyte, and parsing it most of the work.
    let (before, after) = rayon::join(|| read(&arguments.before, settings), || read(&arguments.after, settings));
    let diff = diff(&before?, &after?)?;
    let broken = match &arguments.policy {
        Some(path) => broken(path, &diff, settings)?,
        None => Vec::new(),
    };
    let (before, after) = (arguments.before.display().to_string(), arguments.after.display().to_string());
    let policy = arguments
        .policy
        .as_deref()
        .and_then(Path::file_name)
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let context = diff_text::Context { before: &before, after: &after, broken: &broken, policy: &policy };
    match settings.output {
        OutputFormat::Json => printer.data(&diff_text::json(&diff, &context))?,
        _ if settings.markdown => printer.data(&diff_text::markdown(&diff, &context, arguments.max_results))?,
        _ => printer.data(&diff_text::text(&diff, &context, settings.width, arguments.max_results))?,
    };
    let Some(first) = broken.first() else { return Ok(Exit::Done) };
    let more = if broken.len() > 1 { format!(", and {} more", broken.len() - 1) } else { String::new() };
    let path = arguments.policy.as_deref().unwrap_or(Path::new("policy.toml"));
    Err(Diagnostic::new(Exit::OnlyMoney, format!("{} line {}: {}{more}", path.display(), first.line, first.detail))
        .hint("change the plan, or have whoever owns the rules change that line"))
}

/// JSON of this program, or the prices of a catalog folder as `prices --output json` has them.
fn read(path: &Path, settings: &Settings) -> Result<Value, Diagnostic> {
    let text = if path.is_dir() {
        let catalogs = settings.of_catalog(path).snapshot()?;
        let offers: Vec<_> = catalogs.market.offers().iter().collect();
        prices::json(&offers, &catalogs.hardware).map_err(|error| Diagnostic::unexpected(&error))?
    } else {
        fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?
    };
    serde_json::from_str(&text).map_err(|error| {
        Diagnostic::new(Exit::Usage, format!("{} is no JSON: {error}", path.display()))
            .hint("gpuplan plan FILE --output json >before.json")
    })
}

fn broken(path: &Path, diff: &Diff, settings: &Settings) -> Result<Vec<Broken>, Diagnostic> {
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    // Rules say `policy.toml`, as they are mostly called.
    let refused = |error: &dyn std::error::Error| {
        let said = error.to_string();
        let said =
            said.strip_prefix("policy.toml").map_or_else(|| said.clone(), |rest| format!("{}{rest}", path.display()));
        Diagnostic::new(Exit::Usage, said).hint("max_increase_usd = \"5,000\"")
    };
    let hardware = settings.hardware()?;
    let policy = Policy::read(&text, &hardware).map_err(|error| refused(&error))?;
    let mut broken = Guardrail::read(&text).map_err(|error| refused(&error))?.breaks(diff);
    broken.extend(guardrail::breaks(&policy, &diff.rented, &hardware));
    broken.sort_by_key(|broken| broken.line);
    Ok(broken)
}

impl From<DiffError> for Diagnostic {
    fn from(error: DiffError) -> Self {
        let diagnostic = Self::new(Exit::Usage, error.to_string());
        match error {
            DiffError::Kinds(..) => diagnostic.hint("compare two files of the same command"),
            DiffError::Unknown { .. } => diagnostic.hint("gpuplan plan FILE --output json >before.json"),
        }
    }
}
