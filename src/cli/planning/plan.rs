//! `plan`: reads a workload, makes the plan set, prints it, and turns an empty answer into an exit code with advice.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::arguments::global::OutputFormat;
use crate::planning::arguments::PlanArguments;
use crate::planning::{from, phases, processing};
use crate::question::answer::{compute_with, context, nothing_fits};
use crate::question::measurements::Measurements;
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_estimate::OwnRun;
use gpuplan_plan::document::PlanDocument;
use gpuplan_report::json::pretty;
use gpuplan_report::{plan_csv, plan_text};
use gpuplan_workload::file::WorkloadFile;

pub fn run(arguments: &PlanArguments, session: &Session) -> Result<Exit, Diagnostic> {
    match (&arguments.locked, &arguments.from) {
        (Some(path), _) => locked(path, arguments, session),
        (None, Some(path)) => from::run(path, arguments, session),
        (None, None) => {
            let file = workload::with_limits(&arguments.question.workload, &arguments.question.limits)?;
            let measured = Measurements::find(&arguments.question.measured, session)?;
            answer_all(&file, &measured, arguments, session)
        }
    }
}

/// Of one workload, or of its phases.
fn answer_all(
    file: &WorkloadFile,
    measured: &Measurements,
    arguments: &PlanArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    if file.processing.is_some() && file.phase.is_empty() {
        processing::run(file, arguments, session)
    } else if file.phase.is_empty() {
        answer(file, measured, arguments, session)
    } else {
        phases::run(file, measured, arguments, session)
    }
}

fn answer(
    file: &WorkloadFile,
    measured: &Measurements,
    arguments: &PlanArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let answered = compute_with(file, &arguments.question.prices, measured, session)?;
    let headline = session.warn_about_age(&answered.catalogs.market);
    let context = context(&answered, file, session)?;
    match session.output {
        OutputFormat::Json => session.printer.data(&pretty(&PlanDocument::new(&answered.set, &context)))?,
        OutputFormat::Csv => session.printer.data(&plan_csv::text(&answered.set, &context))?,
        OutputFormat::Table if answered.set.recommendation.is_some() => session.printer.data(&plan_text::text(
            &answered.set,
            &context,
            headline.as_deref(),
            session.width,
            arguments.max_results,
        ))?,
        OutputFormat::Table => Exit::Done,
    };
    if answered.set.recommendation.is_some() { Ok(Exit::Done) } else { Err(nothing_fits(&answered.set)) }
}

/// The same question, asked of the same catalog at the same moment, gives the same bytes.
fn locked(path: &Path, arguments: &PlanArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    let broken =
        |detail: &str| Diagnostic::usage(format!("{} is not a plan of this program: {detail}", path.display()));
    let recorded: Value = serde_json::from_str(&text).map_err(|error| broken(&error.to_string()))?;
    let field = |pointer: &str| recorded.pointer(pointer).ok_or_else(|| broken(&format!("`{pointer}` is missing")));
    let file: WorkloadFile =
        serde_json::from_value(field("/workload/file")?.clone()).map_err(|error| broken(&error.to_string()))?;
    let made_at = field("/generated_at")?
        .as_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| broken("`generated_at` is not a valid time"))?;
    let seed = field("/inputs/seed")?.as_u64().ok_or_else(|| broken("`seed` is not a number"))?;
    let mut session = session.clone();
    (session.now, session.seed, session.output) = (made_at, seed, OutputFormat::Json);
    let (catalog, offers) = session.catalog_sha256(&session.catalogs()?)?;
    let now = [("catalog", "/inputs/catalog_sha256", catalog), ("offers", "/inputs/offers_sha256", offers)];
    let version = gpuplan_estimate::constants::Fitted::embedded().version.clone();
    let mut gone = Vec::new();
    for (what, pointer, current) in
        now.into_iter().chain([("estimate constants", "/inputs/constants_version", version)])
    {
        let then = field(pointer)?.as_str().ok_or_else(|| broken(&format!("`{pointer}` is not a text")))?;
        if then != current {
            gone.push(format!("the {what} of then ({}) are gone; this program has {}", short(then), short(&current)));
        }
    }
    let own_runs: Vec<OwnRun> = match recorded.pointer("/inputs/own_runs") {
        Some(runs) => serde_json::from_value(runs.clone()).map_err(|error| broken(&error.to_string()))?,
        None => Vec::new(),
    };
    // The runs stand in the plan: today's ledger may have more.
    let measured = Measurements::find(&arguments.question.measured, &session)?.with_own_runs(own_runs);
    if recorded.pointer("/inputs/measured_sha256").and_then(Value::as_str) != measured.sha256().as_deref() {
        gone.push(
            "it rested on other measurements than today's: give the same with --calibration and --profile".to_owned(),
        );
    }
    if !gone.is_empty() {
        return Err(Diagnostic::new(Exit::StalePrice, gone.join("\n  "))
            .hint("run the program version that made the plan, or give its catalog with `--catalog-dir DIR`"));
    }
    answer_all(&file, &measured, arguments, &session)
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
