//! `plan --from JOB`: prices what an existing job asks for; with a workload it plans that too and shows the difference.

pub mod beside;
mod nearest;
mod summary;
mod work;

use std::fs;
use std::path::Path;

use crate::arguments::global::OutputFormat;
use crate::planning::arguments::PlanArguments;
use crate::planning::from::work::Work;
use crate::planning::screen::shown;
use crate::question::answer::{Answered, compute, context, gathered};
use crate::question::fitting::refused;
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_hardware::Hardware;
use gpuplan_import::{Choice, ImportError, JobKind, JobRequest, Names, StatedLayout, chips};
use gpuplan_plan::document::{Context, PlanDocument};
use gpuplan_plan::job::{baseline, narrowed, price};
use gpuplan_plan::{Limits, PlanSet, World};
use gpuplan_report::plan::job::{Named, asked_text, comparison, comparison_text, json, priced_text};
use gpuplan_report::sentences::rejection::sentence;
use gpuplan_report::text::json::pretty;
use gpuplan_report::text::wrap::wrap;
use gpuplan_workload::Workload;
use gpuplan_workload::file::{LimitsSection, ModelSection, WorkloadFile};

pub fn run(path: &Path, arguments: &PlanArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if session.output == OutputFormat::Csv {
        return Err(Diagnostic::usage("a job and its prices cannot be printed as CSV")
            .hint("gpuplan plan --from JOB --output json"));
    }
    if arguments.summary {
        return summary::run(path, session);
    }
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    let (hardware, models) = (session.hardware()?, session.models()?);
    let files = |name: &str| beside::read(path, name);
    let own = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut asked = gpuplan_import::read(&text, Names { files: &files, path: own, ..Names::new(&hardware, &models) })
        .map_err(|error| of_file(path, &error))?;
    if let Some(machines) = arguments.nodes {
        asked.take_machines_of_user(machines);
    }
    let mut limits = workload::limits(&arguments.question.limits);
    // A configuration says what is done and rarely where: without machines the work alone is planned.
    let (asked, has_machines) = match named(asked.clone(), &mut limits, &hardware) {
        Ok(asked) => (asked, true),
        // What is trained on cards that no catalog has is planned on others, and compared with nothing.
        Err(ImportError::UnknownGpu { .. }) if says_work(&asked) => (asked, false),
        Err(ImportError::NoGpu | ImportError::NoGpuName(_)) if is_work(&asked) || says_work(&asked) => (asked, false),
        // Cards that are counted and not named may be of any kind.
        Err(ImportError::NoGpuName(_)) => (asked.of_any_gpu(), true),
        Err(error) => return Err(of_file(path, &error)),
    };
    let question = &arguments.question.workload;
    let stated = if question.is_given() { workload::read(question)? } else { WorkloadFile::default() };
    // A workload file is complete; flags complete what the job's own command states.
    let has_file = question.file.is_some();
    let base = if has_file { stated } else { asked.workload.clone().overlay(stated) };
    let mut job = Work { asked, file: base.overlay(WorkloadFile { limits, ..WorkloadFile::default() }) };
    let resolved = if has_file { workload::resolve(&job.file, &models).map(|_| ()) } else { job.complete(&models) };
    let Work { asked, file } = job;
    match resolved {
        Ok(()) if has_machines => compare(&asked, &file, arguments, session),
        Ok(()) => alone(path, &asked, &file, arguments, session),
        Err(error) if question.is_given() => Err(error),
        Err(error) if !has_machines && asked.kind == JobKind::Recipe && asked.choices.is_empty() => {
            Err(Diagnostic::usage(format!("{}: {}", path.display(), error.message))
                .hint(format!("gpuplan plan --from {} --gpus h100:8", path.display()))
                .hint(format!("gpuplan plan --from {} WORKLOAD.toml", path.display())))
        }
        Err(error) => {
            let asked = if has_machines { asked } else { asked.of_any_gpu() };
            priced(&asked, &file.limits, &error.message, arguments, session)
        }
    }
}

fn is_work(asked: &JobRequest) -> bool {
    matches!(asked.kind, JobKind::Script | JobKind::Recipe)
}

/// Whether the command of an engine's job says which model it trains.
fn says_work(asked: &JobRequest) -> bool {
    asked.workload.model != ModelSection::default() && asked.not_planned.is_none()
}

/// The work of a job that names no machines.
fn alone(
    path: &Path,
    asked: &JobRequest,
    file: &WorkloadFile,
    arguments: &PlanArguments,
    session: &Session,
) -> Result<Exit, Diagnostic> {
    let answered = compute(file, &arguments.question.prices, &arguments.question.measured, session)
        .map_err(|error| Diagnostic { message: format!("{}: {}", path.display(), error.message), ..error })?;
    let whole = context(&answered, file, session)?;
    let best = answered.set.recommendation.as_ref();
    if session.output == OutputFormat::Json {
        let mut all = PlanDocument::new(&answered.set, &whole);
        all.from = Some(comparison(asked, None, best, &answered.catalogs.hardware));
        session.printer.data(&pretty(&all))?;
        return if best.is_some() { Ok(Exit::Done) } else { Err(refused(&answered, file, session)) };
    }
    session.printer.data(&format!("{}\n", asked_text(asked, &answered.catalogs.hardware, session.width)))?;
    let Some(best) = best else { return Err(refused(&answered, file, session)) };
    session.printer.data(&shown(&answered, best, &whole, arguments, session))
}

/// Where a job counts GPUs without naming a model, `--gpus` names it and limits nothing; `h100:8` counts them too, of each machine.
fn named(asked: JobRequest, limits: &mut LimitsSection, hardware: &Hardware) -> Result<JobRequest, ImportError> {
    let is_open = asked.choices.iter().any(Choice::is_unnamed);
    let is_open = is_open || asked.choices.is_empty();
    let stated = limits.gpus.clone().filter(|_| is_open);
    let (name, count) = match stated.as_deref().map(|text| text.split_once(':').unwrap_or((text, ""))) {
        Some((name, "")) => (Some(name.to_owned()), None),
        Some((name, count)) => (Some(name.to_owned()), count.parse().ok().filter(|count| *count > 0)),
        None => (None, None),
    };
    let found = name.as_ref().and_then(|name| chips::find(name, hardware));
    if let (Some(name), None) = (name, &found) {
        if is_work(&asked) {
            return Err(ImportError::NoGpu);
        }
        return Err(ImportError::Invalid {
            key: "--gpus".to_owned(),
            detail: format!("no GPU of the catalog is called `{name}`"),
        });
    }
    let asked = asked.named(found.as_ref(), count)?;
    if is_open {
        limits.gpus = None;
    }
    Ok(asked)
}

fn of_file(path: &Path, error: &ImportError) -> Diagnostic {
    let diagnostic = Diagnostic::usage(format!("{}: {error}", path.display()));
    match error {
        ImportError::NoGpuName(_) | ImportError::UnknownGpu { .. } => {
            diagnostic.hint(format!("gpuplan plan --from {} --gpus a100", path.display()))
        }
        ImportError::NoGpu => diagnostic.hint(format!("gpuplan plan --from {} --gpus h100:8", path.display())),
        ImportError::Invalid { .. } => diagnostic.hint("gpuplan catalog gpus"),
        ImportError::UnreadKind(_) => diagnostic
            .hint("Pod, Job, Deployment, JobSet, RayCluster, LeaderWorkerSet, PyTorchJob and their like are read"),
        ImportError::UnknownKind | ImportError::Yaml(_) | ImportError::Several(_) | ImportError::HelmTemplate => {
            diagnostic
        }
    }
}

/// The machines alone.
fn priced(
    asked: &JobRequest,
    limits: &LimitsSection,
    why: &str,
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
        let diagnostic = Diagnostic::new(
            Exit::NoPlanFits,
            format!(
                "no place offers what the job asks for{doubts}\n  {lines}{}",
                nearest::lines(asked, &catalogs, &limits)
            ),
        );
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
    let hours = if asked.hours.is_some() { "for the time that it may take" } else { "by the hour" };
    let note = format!(
        "Note: only machines are priced, {hours} ({why}). `gpuplan plan --from JOB WORKLOAD.toml` plans the work; flags such as `--model llama-3.1-8b` complete what the job says."
    );
    session.printer.data(&format!("{text}\n{}\n", wrap(&note, session.width, "  ")))
}

/// The workload on the job's own machines, split as the job states where that runs, and what to say of it.
fn as_asked(asked: &mut JobRequest, world: World, workload: &Workload, own: Limits) -> (PlanSet, Option<String>) {
    let stated = own.layout;
    let set = gpuplan_plan::plan(world, workload, &own);
    if stated.is_open() {
        return (set, None);
    }
    if set.recommendation.is_some() {
        asked.take_stated_layout();
        let line = format!("Layout: as asked keeps what the job states ({stated}); the recommended plan has its own");
        return (set, Some(line));
    }
    let why = set.nearest.first().map_or_else(String::new, |nearest| format!(": {}", sentence(&nearest.why)));
    let free = gpuplan_plan::plan(world, workload, &Limits { layout: StatedLayout::default(), ..own });
    let line =
        format!("Layout: as the job states it ({stated}) it is not known to run there{why}; both plans have their own");
    (free, Some(line))
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
    let mut asked = asked.clone();
    let offers = price(&asked, &catalogs.market, &catalogs.hardware, limits).offers;
    let market = narrowed(&asked, &catalogs.market, &catalogs.hardware);
    let own = baseline(&asked, &offers, &catalogs.market, &catalogs.hardware, limits)?;
    let world = World { market: &market, ..whole.world };
    let (set, layout) = as_asked(&mut asked, world, &answered.resolved.workload, own);
    let asked = &asked;
    let narrow = Context { world, ..whole.clone() };
    let (was, best) = (set.recommendation.as_ref().map(|plan| (plan, &narrow)), answered.set.recommendation.as_ref());
    if session.output == OutputFormat::Json {
        let mut all = PlanDocument::new(&answered.set, &whole);
        all.from = Some(comparison(asked, was, best, &catalogs.hardware));
        session.printer.data(&pretty(&all))?;
        return if best.is_some() { Ok(Exit::Done) } else { Err(refused(&answered, file, session)) };
    }
    let mut text = headline.map_or_else(String::new, |line| format!("{line}\n\n"));
    text.push_str(&asked_text(asked, &catalogs.hardware, session.width));
    text.push('\n');
    match (was, best) {
        (Some(was), Some(best)) => {
            text.push_str(&comparison_text(asked, was, (best, &whole), session.width));
            if let Some(layout) = layout {
                text.push_str(&wrap(&layout, session.width, "  "));
                text.push('\n');
            }
        }
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
    let Some(best) = best else { return Err(refused(&answered, file, session)) };
    session.printer.data(&shown(&answered, best, &whole, arguments, session))
}
