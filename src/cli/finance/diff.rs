//! `diff`: compares two plans, two budgets or two price lists, and holds the change to the guardrails of the house.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::arguments::global::OutputFormat;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_budget::diff::{Diff, DiffError, diff};
use gpuplan_budget::guardrail::{self, Broken, Guardrail};
use gpuplan_plan::Policy;
use gpuplan_report::catalog::prices;
use gpuplan_report::finance::diff_text;

#[derive(Debug, Args)]
pub struct DiffArguments {
    /// Read the earlier plan, budget or price list (JSON, as `--output json` writes it), or a catalog folder
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Read the later one, of the same kind
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Check against the rules and guardrails in this file; exit with code 4 if one is broken
    #[arg(long, value_name = "FILE", env = "GPUPLAN_POLICY")]
    pub policy: Option<PathBuf>,
    /// Show at most this many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_results: usize,
}

pub fn run(arguments: &DiffArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if session.output == OutputFormat::Csv {
        return Err(Diagnostic::usage("diff prints a table, JSON or Markdown").hint("--output json"));
    }
    // A budget of hundreds of runs is a megabyte, and parsing it most of the work.
    let (before, after) = rayon::join(|| read(&arguments.before, session), || read(&arguments.after, session));
    let diff = diff(&before?, &after?)?;
    let broken = match &arguments.policy {
        Some(path) => broken(path, &diff, session)?,
        None => Vec::new(),
    };
    let (before, after) = (arguments.before.display().to_string(), arguments.after.display().to_string());
    let policy = arguments
        .policy
        .as_deref()
        .and_then(Path::file_name)
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let context = diff_text::Context { before: &before, after: &after, broken: &broken, policy: &policy };
    match session.output {
        OutputFormat::Json => session.printer.data(&diff_text::json(&diff, &context))?,
        _ if session.markdown => session.printer.data(&diff_text::markdown(&diff, &context, arguments.max_results))?,
        _ => session.printer.data(&diff_text::text(&diff, &context, session.width, arguments.max_results))?,
    };
    let Some(first) = broken.first() else { return Ok(Exit::Done) };
    let more = if broken.len() > 1 { format!(", and {} more", broken.len() - 1) } else { String::new() };
    let path = arguments.policy.as_deref().unwrap_or(Path::new("policy.toml"));
    Err(Diagnostic::new(Exit::OverBudget, format!("{} line {}: {}{more}", path.display(), first.line, first.detail))
        .hint("change the plan, or have whoever owns the rules change that line"))
}

/// JSON of this program, or the prices of a catalog folder as `prices --output json` has them.
fn read(path: &Path, session: &Session) -> Result<Value, Diagnostic> {
    let text = if path.is_dir() {
        let catalogs = session.of_catalog(path).snapshot()?;
        let offers: Vec<_> = catalogs.market.offers().iter().collect();
        prices::json(&offers, &catalogs.hardware)
    } else {
        fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?
    };
    serde_json::from_str(&text).map_err(|error| not_an_answer(path, &text, &error))
}

/// A question in place of its answer is what people try first.
fn not_an_answer(path: &Path, text: &str, error: &serde_json::Error) -> Diagnostic {
    let shown = path.display();
    let asks = |what: &str, command: &str| {
        Diagnostic::usage(format!("{shown} is {what}, and answers are compared"))
            .hint(format!("gpuplan {command} {shown} --output json >{}", path.with_extension("json").display()))
            .hint(format!("gpuplan diff {} ...", path.with_extension("json").display()))
    };
    match text.parse::<toml::Table>() {
        Ok(table) if table.contains_key("run") => asks("a portfolio", "budget"),
        Ok(table) if ["model", "phase", "processing"].iter().any(|key| table.contains_key(*key)) => {
            asks("a workload", "plan")
        }
        _ => Diagnostic::usage(format!("{shown} is not valid JSON: {error}"))
            .hint("gpuplan plan FILE --output json >before.json"),
    }
}

fn broken(path: &Path, diff: &Diff, session: &Session) -> Result<Vec<Broken>, Diagnostic> {
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    // Rules say `policy.toml`, as they are mostly called.
    let refused = |error: &dyn std::error::Error| {
        let said = error.to_string();
        let said =
            said.strip_prefix("policy.toml").map_or_else(|| said.clone(), |rest| format!("{}{rest}", path.display()));
        Diagnostic::usage(said).hint("max_increase_usd = \"5,000\"")
    };
    let hardware = session.hardware()?;
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
