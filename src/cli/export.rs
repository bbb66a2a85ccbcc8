//! `export`: writes a plan as a file for an engine that people already run.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::args::{LimitsArguments, PriceArguments, WorkloadArguments};
use crate::calibrations::MeasuredArguments;
use crate::diagnostic::{Diagnostic, Exit};
use crate::plan::{compute, context, nothing_fits};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::workload;
use gpuplan_export::{ExportError, Job, Target, Wishes, export};
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_plan::document::PlanDocument;
use gpuplan_workload::file::{LimitsSection, WorkloadFile};

#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub limits: LimitsArguments,
    #[command(flatten)]
    pub prices: PriceArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// torchrun, accelerate, deepspeed, slurm, kubernetes, jobset, kueue, skypilot, dstack, ray or terraform
    #[arg(long, value_name = "TARGET")]
    pub to: Target,
    /// The plan to export, by its id [default: the recommended one]
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// Where checkpoints are kept, such as s3://bucket/prefix
    #[arg(long, value_name = "URI")]
    pub store: Option<String>,
    /// Name of the run: the same name goes on from its checkpoints [default: the workload's]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Container image with the program, its framework and gpuplan
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Start with so few machines too, where the engine can (slurm, torchrun)
    #[arg(long, value_name = "N")]
    pub min_nodes: Option<u32>,
    /// Write here instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The training command, without launcher and flags of the framework
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn run(arguments: &ExportArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    workload::is_no_service(&arguments.workload, "export")?;
    let question = Question {
        workload: &arguments.workload,
        limits: &arguments.limits,
        prices: &arguments.prices,
        measured: &arguments.measured,
        plan: arguments.plan.as_deref(),
    };
    let wishes = Wishes {
        run: arguments.run.clone(),
        store: arguments.store.clone(),
        framework: arguments.workload.framework.clone(),
        image: arguments.image.clone(),
        nodes_at_least: arguments.min_nodes,
        command: arguments.command.clone(),
    };
    let job = job_of(&question, wishes, settings, printer)?;
    let text = export(arguments.to, &job)?;
    if arguments.to.is_job() {
        for what in &job.to_edit {
            printer.note(&format!("note: edit {what}"));
        }
    }
    match &arguments.out {
        Some(path) => {
            fs::write(path, text)
                .map_err(|error| Diagnostic::new(Exit::Usage, format!("cannot write {}: {error}", path.display())))?;
            Ok(Exit::Done)
        }
        None => printer.data(&text),
    }
}

/// Which plan is to become a job.
pub struct Question<'a> {
    pub workload: &'a WorkloadArguments,
    pub limits: &'a LimitsArguments,
    pub prices: &'a PriceArguments,
    pub measured: &'a MeasuredArguments,
    pub plan: Option<&'a str>,
}

/// The plan, recorded or made now, as a job.
pub fn job_of(question: &Question, wishes: Wishes, settings: &Settings, printer: &Printer) -> Result<Job, Diagnostic> {
    let (plans, hardware) = match recorded(question)? {
        // A plan is exported as it was recorded: nothing is priced again.
        Some(plans) => (plans, settings.catalogs(printer)?.hardware),
        None => fresh(question, settings, printer)?,
    };
    let plan = chosen(&plans, question.plan)?;
    let text_of = |key: &str| {
        let missing = || {
            Diagnostic::new(Exit::Usage, format!("the plan has no `{key}`"))
                .hint("gpuplan plan FILE --output json >plan.json")
        };
        plan.get(key).and_then(Value::as_str).ok_or_else(missing)
    };
    let (cloud, kind) = (CloudId::new(text_of("cloud")?), text_of("instance_type")?);
    let instance = hardware.find_instance(&cloud, kind).map(|id| hardware.instance(id)).ok_or_else(|| {
        Diagnostic::new(
            Exit::StalePrices,
            format!("the catalog knows no machine type `{kind}` of {cloud}, which the plan takes"),
        )
        .hint("gpuplan plan FILE --output json >plan.json")
    })?;
    Ok(Job::new(&plans, plan, hardware.gpu(instance.node.gpu), instance, wishes)?)
}

/// `None` for a file that is no JSON: a workload. Of the flags of a question only `--framework` is answered by a recorded plan.
fn recorded(question: &Question) -> Result<Option<Value>, Diagnostic> {
    let Some(path) = &question.workload.file else { return Ok(None) };
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    if !text.trim_start().starts_with('{') {
        return Ok(None);
    }
    let no_plan = |why: &str| {
        Diagnostic::new(Exit::Usage, format!("{} is not a plan of this program: {why}", path.display()))
            .hint("gpuplan plan FILE --output json >plan.json")
    };
    let plans: Value = serde_json::from_str(&text).map_err(|error| no_plan(&error.to_string()))?;
    let mut asked = workload::read(question.workload)?;
    let stated = plans.pointer("/workload/file").ok_or_else(|| no_plan("`workload.file` is missing"))?;
    let stated = WorkloadFile::deserialize(stated).map_err(|error| no_plan(&error.to_string()))?;
    asked.training.framework.clone_from(&stated.training.framework);
    if asked != stated || workload::limits(question.limits) != LimitsSection::default() {
        let message = format!("{} is a recorded plan, which flags of a question do not change", path.display());
        return Err(Diagnostic::new(Exit::Usage, message)
            .hint("give the workload file instead, or plan again with these flags"));
    }
    Ok(Some(plans))
}

/// The plans of a workload, as `plan --output json` has them.
fn fresh(question: &Question, settings: &Settings, printer: &Printer) -> Result<(Value, Hardware), Diagnostic> {
    let limits = workload::limits(question.limits);
    let file = workload::read(question.workload)?.overlay(WorkloadFile { limits, ..WorkloadFile::default() });
    let answered = compute(&file, question.prices, question.measured, settings, printer)?;
    if answered.set.recommendation.is_none() {
        return Err(nothing_fits(&answered.set));
    }
    let plans = PlanDocument::new(&answered.set, &context(&answered, &file, settings)?).to_value();
    Ok((plans, answered.catalogs.hardware))
}

fn chosen<'a>(plans: &'a Value, wanted: Option<&str>) -> Result<&'a Value, Diagnostic> {
    let listed = ["frontier", "alternatives"].into_iter().filter_map(|key| plans.get(key)?.as_array()).flatten();
    let mut all = plans.get("recommendation").filter(|plan| plan.is_object()).into_iter().chain(listed);
    let found = all.find(|plan| wanted.is_none_or(|wanted| plan.get("id").and_then(Value::as_str) == Some(wanted)));
    found.ok_or_else(|| {
        let what = wanted.map_or_else(
            || "the file recommends no plan".to_owned(),
            |wanted| format!("no plan has the id `{wanted}`"),
        );
        Diagnostic::new(Exit::Usage, what).hint("gpuplan plan FILE --output json >plan.json")
    })
}

impl From<ExportError> for Diagnostic {
    fn from(error: ExportError) -> Self {
        let diagnostic = Self::new(Exit::Usage, error.to_string());
        match error {
            ExportError::UnknownTarget(_) => diagnostic.hint("gpuplan export FILE --to slurm"),
            ExportError::UnknownFramework(_) => {
                diagnostic.hint("gpuplan export FILE --to slurm --framework none -- COMMAND")
            }
            ExportError::Plan(_) => diagnostic.hint("gpuplan plan FILE --output json >plan.json"),
            ExportError::Name { target, .. } => {
                diagnostic.hint(format!("gpuplan export FILE --to {target} --run NAME"))
            }
            ExportError::Sweep { .. } => diagnostic.hint("gpuplan launch FILE -- COMMAND"),
            ExportError::Layout { .. } | ExportError::Unfit { .. } => diagnostic,
        }
    }
}
