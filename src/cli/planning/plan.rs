//! `plan`: reads a workload, makes the plan set, prints it, and turns an empty answer into an exit code with advice.

use std::fs;
use std::path::Path;

use crate::arguments::global::OutputFormat;
use crate::planning::arguments::PlanArguments;
use crate::planning::screen::shown;
use crate::planning::{from, phases, processing};
use crate::question::answer::{compute_with, context};
use crate::question::fitting::refused;
use crate::question::measurements::Measurements;
use crate::question::{plan_file, workload};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_plan::document::{AnyDocument, DocumentError, PlanDocument};
use gpuplan_report::plan::plan_csv;
use gpuplan_report::text::json::pretty;
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
    let context = context(&answered, file, session)?;
    match (session.output, &answered.set.recommendation) {
        (OutputFormat::Json, _) => session.printer.data(&pretty(&PlanDocument::new(&answered.set, &context)))?,
        (OutputFormat::Csv, _) => session.printer.data(&plan_csv::text(&answered.set, &context))?,
        (OutputFormat::Table, Some(best)) => {
            session.printer.data(&shown(&answered, best, &context, arguments, session))?
        }
        (OutputFormat::Table, None) => Exit::Done,
    };
    if answered.set.recommendation.is_some() { Ok(Exit::Done) } else { Err(refused(&answered, file, session)) }
}

/// The same question, asked of the same catalog at the same moment, gives the same bytes.
fn locked(path: &Path, arguments: &PlanArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    let refused = |error: DocumentError| plan_file::refused(path, &error);
    let recorded = AnyDocument::read(&text).map_err(refused)?;
    let file = recorded.workload_file().map_err(refused)?;
    let inputs = recorded.inputs();
    let mut session = session.clone();
    (session.now, session.seed, session.output) = (recorded.generated_at(), inputs.seed, OutputFormat::Json);
    session.quotas = Some(inputs.quotas.clone());
    let (catalog, offers) = session.catalog_sha256(&session.catalogs()?)?;
    let version = gpuplan_estimate::constants::Fitted::embedded().version.clone();
    let mut gone = Vec::new();
    for (what, then, now) in [
        ("catalog", &inputs.catalog_sha256, catalog),
        ("offers", &inputs.offers_sha256, offers),
        ("estimate constants", &inputs.constants_version, version),
    ] {
        if *then != now {
            gone.push(format!("the {what} of then ({}) are gone; this program has {}", short(then), short(&now)));
        }
    }
    // The runs stand in the plan: today's ledger may have more.
    let measured = Measurements::find(&arguments.question.measured, &session)?
        .recorded(inputs.own_runs.clone(), inputs.own_pools.clone());
    if inputs.measured_sha256 != measured.sha256() {
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
