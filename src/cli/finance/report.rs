//! `report`: a plan, a budget or a run as one page to hand on, with everything that stands behind its figures.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::arguments::global::OutputFormat;
use crate::arguments::question::QuestionArguments;
use crate::finance::run_page;
use crate::finance::watch::{self, WatchArguments};
use crate::question::answer::{compute, context};
use crate::question::fitting::refused;
use crate::question::{plan_file, workload};
use crate::runs::journal::{journal_if_any, unknown_run};
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::input::read_text;
use crate::session::{Catalogs, Session};
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_launch::journal::RunRecord;
use gpuplan_market::{PricePoint, Purchase, trend};
use gpuplan_plan::document::{DocumentError, PlanDocument, PlanRecord, PurchaseTerms};
use gpuplan_report::page::budget::{Budget, is_budget};
use gpuplan_report::page::document::Report;
use gpuplan_report::page::plan::ReportContext;
use gpuplan_report::page::status::{Status, is_status};
use gpuplan_report::page::{self, csv, html, markdown};
use gpuplan_workload::file::LimitsSection;

/// What a report is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Html,
    Md,
    Csv,
}

#[derive(Debug, Args)]
pub struct ReportArguments {
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Report on the plan with this id [default: the recommended one]
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// Write one page that opens in any browser, Markdown for a review, or rows for a spreadsheet [default: html]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub watched: WatchArguments,
}

/// What the text is to be.
#[derive(Clone, Copy)]
enum Written {
    As(ReportFormat),
    Json,
}

pub fn run(arguments: &ReportArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if let Some(folder) = &arguments.watched.watch {
        has_no_question("--watch shows runs", "gpuplan report --watch DIR", arguments)?;
        let run = arguments.question.workload.file.as_deref();
        return watch::run(folder, run, &arguments.watched, session);
    }
    let written = written(arguments.format, session.output)?;
    let report = match run_named(arguments, session)? {
        Some(kept) => {
            let run = &kept.spec.run;
            has_no_question(&format!("`{run}` is a run"), &format!("gpuplan report {run}"), arguments)?;
            run_page::report(&kept, session)?
        }
        None => match recorded(arguments)? {
            Some((path, status)) if is_status(&status) => {
                let status = Status::read(status).map_err(|error| {
                    Diagnostic::usage(format!("{}: {error}", path.display()))
                        .hint("gpuplan budget FILE --actual --output json >status.json")
                })?;
                page::status::report(&status, session.now)
            }
            Some((path, budget)) if is_budget(&budget) => {
                page::budget::report(&read_budget(path, budget)?, session.now)
            }
            recorded => of_plan(recorded, arguments, session)?,
        },
    };
    let text = match written {
        Written::As(ReportFormat::Html) => html::html(&report),
        Written::As(ReportFormat::Md) => markdown::markdown(&report),
        Written::As(ReportFormat::Csv) => csv::csv(&report),
        Written::Json => page::json::json(&report),
    };
    let Some(path) = &arguments.out else { return session.printer.data(&text) };
    fs::write(path, &text).map_err(|error| Diagnostic::unwritten(path, &error))?;
    session.printer.note(&format!("wrote {} ({} kB)", path.display(), text.len().div_ceil(1000)));
    Ok(Exit::Done)
}

/// `--output` and `--format` may both say it, and must not differ.
fn written(format: Option<ReportFormat>, output: OutputFormat) -> Result<Written, Diagnostic> {
    match (format, output) {
        (None | Some(ReportFormat::Csv), OutputFormat::Csv) => Ok(Written::As(ReportFormat::Csv)),
        (None, OutputFormat::Json) => Ok(Written::Json),
        (format, OutputFormat::Table) => Ok(Written::As(format.unwrap_or(ReportFormat::Html))),
        (Some(_), _) => {
            Err(Diagnostic::usage("--format and --output name two formats").hint("gpuplan report FILE --format md"))
        }
    }
}

/// A file of that name comes first; `None` also where no name was given.
fn run_named(arguments: &ReportArguments, session: &Session) -> Result<Option<RunRecord>, Diagnostic> {
    let Some(path) = arguments.question.workload.file.as_deref().filter(|path| !path.exists()) else { return Ok(None) };
    let kept = match (path.to_str(), journal_if_any(session)?) {
        (Some(name), Some(journal)) => journal.run(name)?,
        _ => None,
    };
    match kept {
        Some(kept) => Ok(Some(kept)),
        None => Err(neither(path)),
    }
}

/// A run is shown as it went: flags of a question change nothing of it.
fn has_no_question(shown: &str, hint: &str, arguments: &ReportArguments) -> Result<(), Diagnostic> {
    if workload::limits(&arguments.question.limits) == LimitsSection::default() && arguments.plan.is_none() {
        return Ok(());
    }
    Err(Diagnostic::usage(format!("{shown}, which flags of a question do not change")).hint(hint))
}

fn neither(path: &Path) -> Diagnostic {
    let message =
        format!("there is no file {}, and {}", path.display(), unknown_run(&path.display().to_string()).message);
    Diagnostic::usage(message)
        .hint("gpuplan report examples/llama-7b-pretrain.toml --out report.html")
        .hint("gpuplan status")
}

fn of_plan(
    recorded: Option<(&Path, Value)>,
    arguments: &ReportArguments,
    session: &Session,
) -> Result<Report, Diagnostic> {
    let (document, catalogs) = match recorded {
        Some((path, document)) => (read_plan(path, &document, arguments)?, session.catalogs()?),
        None => fresh(arguments, session)?,
    };
    let plan = document.pick(arguments.plan.as_deref()).map_err(|error| {
        let exit = if error == DocumentError::NoRecommendation { Exit::NoPlanFits } else { Exit::Usage };
        Diagnostic::new(exit, error.to_string()).hint(error.hint())
    })?;
    let history = history(plan, &catalogs.hardware, session)?;
    let around =
        ReportContext { hardware: &catalogs.hardware, market: &catalogs.market, now: session.now, history: &history };
    Ok(page::plan::report(&document, plan, &around))
}

/// A recorded plan or budget. `None`: no file was given, or it is a workload.
fn recorded(arguments: &ReportArguments) -> Result<Option<(&Path, Value)>, Diagnostic> {
    let path = arguments.question.workload.file.as_deref();
    let Some((path, text)) = path.zip(plan_file::json_text(path)?) else {
        return path.map_or(Ok(None), |path| is_no_portfolio(path).map(|()| None));
    };
    let value = serde_json::from_str(&text)
        .map_err(|error| plan_file::refused(path, &DocumentError::NotJson { detail: error.to_string() }))?;
    Ok(Some((path, value)))
}

/// The page of a portfolio is that of its budget.
fn is_no_portfolio(path: &Path) -> Result<(), Diagnostic> {
    if !read_text(path)?.parse::<toml::Table>().is_ok_and(|table| table.contains_key("run")) {
        return Ok(());
    }
    let shown = path.display();
    Err(Diagnostic::usage(format!("{shown} is a portfolio, and its budget is what is shown"))
        .hint(format!("gpuplan budget {shown} --output json >budget.json"))
        .hint("gpuplan report budget.json"))
}

fn read_budget(path: &Path, budget: Value) -> Result<Budget, Diagnostic> {
    Budget::read(budget).map_err(|error| {
        Diagnostic::usage(format!("{}: {error}", path.display())).hint("gpuplan budget FILE --output json >budget.json")
    })
}

fn read_plan(path: &Path, document: &Value, arguments: &ReportArguments) -> Result<PlanDocument, Diagnostic> {
    let refused = |error: DocumentError| plan_file::refused(path, &error);
    let document = PlanDocument::from_value(document).map_err(refused)?;
    if let Some(all) = &document.phases {
        let names: Vec<&str> = all.phases.iter().map(|phase| phase.name.as_str()).collect();
        let message =
            format!("{}: this plan has phases ({}), and a page of a plan shows one", path.display(), names.join(", "));
        return Err(Diagnostic::usage(message)
            .hint(format!("gpuplan budget {} --output json >budget.json", path.display()))
            .hint("gpuplan report budget.json   shows what all of them cost"));
    }
    let stated = document.workload.workload_file().map_err(refused)?;
    let asked = workload::read(&arguments.question.workload)?;
    plan_file::is_unchanged(path, &stated, &asked, &workload::limits(&arguments.question.limits))?;
    Ok(document)
}

/// The plans of a workload, as `plan --output json` has them.
fn fresh(arguments: &ReportArguments, session: &Session) -> Result<(PlanDocument, Catalogs), Diagnostic> {
    let file = workload::with_limits(&arguments.question.workload, &arguments.question.limits)?;
    let answered = compute(&file, &arguments.question.prices, &arguments.question.measured, session)?;
    if let Some(headline) = session.warn_about_age(&answered.catalogs.market) {
        session.printer.warning(&headline);
    }
    if answered.set.recommendation.is_none() {
        return Err(refused(&answered, &file, session));
    }
    let plans = PlanDocument::new(&answered.set, &context(&answered, &file, session)?);
    Ok((plans, answered.catalogs))
}

/// What the price of the plan's pool did, as far as the price cache knows.
fn history(plan: &PlanRecord, hardware: &Hardware, session: &Session) -> Result<Vec<PricePoint>, Diagnostic> {
    let machines = &plan.machines;
    let purchase = match machines.purchase {
        PurchaseTerms::Spot | PurchaseTerms::SpotWithFallback => Purchase::Spot,
        PurchaseTerms::OnDemand => Purchase::OnDemand,
        _ => return Ok(Vec::new()),
    };
    let instance = hardware.find_instance(&CloudId::new(&machines.cloud), &machines.instance_type);
    let (Some(instance), Some(cache)) = (instance, session.cache()) else { return Ok(Vec::new()) };
    let known = cache.history(instance, hardware, session.now - trend::WINDOW).map_err(Diagnostic::unexpected)?;
    let is_pool = |point: &PricePoint| {
        point.purchase == purchase
            && *point.place.region == *machines.region
            && point.place.zone_id.as_deref() == machines.zone_id.as_deref()
    };
    Ok(known.into_iter().filter(is_pool).collect())
}
