//! `plan --from JOB`: prices what an existing job asks for; with a workload it plans that too and shows the difference.

use std::fs;
use std::path::Path;

use crate::arguments::global::OutputFormat;
use crate::planning::arguments::PlanArguments;
use crate::question::answer::{Answered, compute, context, gathered, nothing_fits};
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_hardware::Hardware;
use gpuplan_import::{ImportError, JobRequest, Names, chips};
use gpuplan_plan::World;
use gpuplan_plan::document::{Context, PlanDocument};
use gpuplan_plan::job::{baseline, narrowed, price};
use gpuplan_report::plan::job::{Named, asked_text, comparison_json, comparison_text, json, priced_text};
use gpuplan_report::plan::plan_text;
use gpuplan_report::sentences::rejection::sentence;
use gpuplan_report::text::json::pretty;
use gpuplan_report::text::wrap::wrap;
use gpuplan_workload::file::{LimitsSection, ModelSection, WorkloadFile};

pub fn run(path: &Path, arguments: &PlanArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if session.output == OutputFormat::Csv {
        return Err(Diagnostic::usage("a job and its prices cannot be printed as CSV")
            .hint("gpuplan plan --from JOB --output json"));
    }
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    let (hardware, models) = (session.hardware()?, session.models()?);
    let asked = gpuplan_import::read(&text, Names { hardware: &hardware, models: &models })
        .map_err(|error| of_file(path, &error))?;
    let mut limits = workload::limits(&arguments.question.limits);
    let asked = named(asked, &mut limits, &hardware).map_err(|error| of_file(path, &error))?;
    let is_given = arguments.question.workload.is_given();
    let stated = if is_given { workload::read(&arguments.question.workload)? } else { WorkloadFile::default() };
    // A workload file is complete; flags complete what the job's own command states.
    let base = if arguments.question.workload.file.is_some() { stated } else { asked.workload.clone().overlay(stated) };
    let file = base.overlay(WorkloadFile { limits, ..WorkloadFile::default() });
    if file.model == ModelSection::default() && !is_given {
        return priced(&asked, &file.limits, None, arguments, session);
    }
    match workload::resolve(&file, &models) {
        Ok(_) => compare(&asked, &file, arguments, session),
        Err(error) if !is_given => priced(&asked, &file.limits, Some(&error.message), arguments, session),
        Err(error) => Err(error),
    }
}

/// Where a job counts GPUs without naming a model, `--gpus` names it and limits nothing.
fn named(asked: JobRequest, limits: &mut LimitsSection, hardware: &Hardware) -> Result<JobRequest, ImportError> {
    let is_open = asked.choices.iter().any(|choice| choice.chips.is_none() && choice.instance_type.is_none());
    let name = if is_open { limits.gpus.take() } else { None };
    let found = name.as_ref().and_then(|name| chips::find(name, hardware));
    if let (Some(name), None) = (name, &found) {
        return Err(ImportError::Invalid {
            key: "--gpus".to_owned(),
            detail: format!("no GPU of the catalog is called `{name}`"),
        });
    }
    asked.named(found.as_ref())
}

fn of_file(path: &Path, error: &ImportError) -> Diagnostic {
    let diagnostic = Diagnostic::usage(format!("{}: {error}", path.display()));
    match error {
        ImportError::NoGpuName(_) => diagnostic.hint(format!("gpuplan plan --from {} --gpus a100", path.display())),
        ImportError::NoGpu => diagnostic.hint("for work without GPUs there is nothing to plan here"),
        ImportError::Invalid { .. } => diagnostic.hint("gpuplan catalog gpus"),
        ImportError::UnknownKind | ImportError::Yaml(_) | ImportError::Several(_) => diagnostic,
    }
}

/// The machines alone. `missing`: what the job's command does not say of its workload.
fn priced(
    asked: &JobRequest,
    limits: &LimitsSection,
    missing: Option<&str>,
    arguments: &PlanArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let (catalogs, limits) = gathered(limits, &arguments.question.prices, session)?;
    let priced = price(asked, &catalogs.market, &catalogs.hardware, &limits);
    let named = Named { hardware: &catalogs.hardware, market: &catalogs.market, now: session.now };
    let headline = session.warn_about_age(&catalogs.market);
    if priced.offers.is_empty() {
        let lines = asked.lines(&catalogs.hardware).join("\n  or ");
        let doubts = if priced.refused > 0 {
            format!("; {} offers of it are doubtful or refused", priced.refused)
        } else {
            String::new()
        };
        let diagnostic =
            Diagnostic::new(Exit::NoPlanFits, format!("no place offers what the job asks for{doubts}\n  {lines}"));
        let chip =
            asked.choices.iter().find_map(|choice| choice.chips.as_ref()).map_or("", |chips| chips.word.as_str());
        let hint = format!("gpuplan prices {chip}");
        return Err(diagnostic.hint(hint.trim_end()));
    }
    if session.output == OutputFormat::Json {
        return session.printer.data(&json(asked, &priced, named));
    }
    let mut text = headline.map_or_else(String::new, |line| format!("{line}\n\n"));
    text.push_str(&asked_text(asked, &catalogs.hardware, session.width));
    text.push('\n');
    text.push_str(&priced_text(asked, &priced, named, session.width, arguments.max_results));
    let why = missing.map_or_else(String::new, |missing| format!(" (its command is not enough: {missing})"));
    let hours = if asked.hours.is_some() { "for the time that it may take" } else { "by the hour" };
    let note = format!(
        "Note: without a workload only machines are priced, {hours}{why}. `gpuplan plan --from JOB WORKLOAD.toml` plans the work."
    );
    session.printer.data(&format!("{text}\n{}\n", wrap(&note, session.width, "  ")))
}

/// The workload on the job's own machines, and on the recommended ones.
fn compare(
    asked: &JobRequest,
    file: &WorkloadFile,
    arguments: &PlanArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let answered = compute(file, &arguments.question.prices, &arguments.question.measured, session)?;
    let Answered { catalogs, limits, .. } = &answered;
    let headline = session.warn_about_age(&catalogs.market);
    let whole = context(&answered, file, session)?;
    let offers = price(asked, &catalogs.market, &catalogs.hardware, limits).offers;
    let market = narrowed(asked, &catalogs.market, &catalogs.hardware);
    let own = baseline(asked, &offers, &catalogs.market, &catalogs.hardware, limits)?;
    let world = World { market: &market, ..whole.world };
    let set = gpuplan_plan::plan(world, &answered.resolved.workload, &own);
    let narrow = Context { world, ..whole.clone() };
    let (was, best) = (set.recommendation.as_ref().map(|plan| (plan, &narrow)), answered.set.recommendation.as_ref());
    if session.output == OutputFormat::Json {
        let mut all = PlanDocument::new(&answered.set, &whole);
        all.from = Some(comparison_json(asked, was, best, &catalogs.hardware));
        session.printer.data(&pretty(&all))?;
        return if best.is_some() { Ok(Exit::Done) } else { Err(nothing_fits(&answered.set)) };
    }
    let mut text = headline.map_or_else(String::new, |line| format!("{line}\n\n"));
    text.push_str(&asked_text(asked, &catalogs.hardware, session.width));
    text.push('\n');
    match (was, best) {
        (Some(was), Some(best)) => text.push_str(&comparison_text(asked, was, (best, &whole), session.width)),
        (None, _) if offers.is_empty() => {
            text.push_str("No place offers what the job asks for: there is nothing to compare with.\n");
        }
        (None, _) => {
            let why = set.nearest.first().map_or_else(String::new, |nearest| format!(": {}", sentence(&nearest.why)));
            let line = format!("The workload does not run on what the job asks for{why}");
            text.push_str(&wrap(&line, session.width, "  "));
            text.push('\n');
        }
        (Some(_), None) => {}
    }
    session.printer.data(&format!("{text}\n"))?;
    if best.is_none() {
        return Err(nothing_fits(&answered.set));
    }
    session.printer.data(&plan_text::text(&answered.set, &whole, None, session.width, arguments.max_results))
}
