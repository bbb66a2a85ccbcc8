//! `export`: writes a plan as a file for an engine that people already run.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::args::{LimitsArguments, PriceArguments, WorkloadArguments};
use crate::calibrations::MeasuredArguments;
use crate::diagnostic::{Diagnostic, Exit};
use crate::plan::{compute, context, nothing_fits};
use crate::plan_file;
use crate::printer::Printer;
use crate::settings::Settings;
use crate::workload;
use gpuplan_export::{ExportError, Job, Target, Wishes, export};
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_plan::document::{DocumentError, PlanDocument};
use gpuplan_workload::file::WorkloadFile;

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
    let plan = plans.pick(question.plan).map_err(|error| {
        Diagnostic::new(Exit::Usage, error.to_string()).hint("gpuplan plan FILE --output json >plan.json")
    })?;
    let (cloud, kind) = (CloudId::new(&plan.machines.cloud), plan.machines.instance_type.as_str());
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
fn recorded(question: &Question) -> Result<Option<PlanDocument>, Diagnostic> {
    let path = question.workload.file.as_deref();
    let Some((path, text)) = path.zip(plan_file::json_text(path)?) else { return Ok(None) };
    let refused = |error: DocumentError| plan_file::refused(path, &error);
    let plans = PlanDocument::read(&text).map_err(refused)?;
    let stated = plans.workload.workload_file().map_err(refused)?;
    let mut asked = workload::read(question.workload)?;
    asked.training.framework.clone_from(&stated.training.framework);
    plan_file::is_unchanged(path, &stated, &asked, &workload::limits(question.limits))?;
    Ok(Some(plans))
}

/// The plans of a workload, as `plan --output json` has them.
fn fresh(question: &Question, settings: &Settings, printer: &Printer) -> Result<(PlanDocument, Hardware), Diagnostic> {
    let limits = workload::limits(question.limits);
    let file = workload::read(question.workload)?.overlay(WorkloadFile { limits, ..WorkloadFile::default() });
    let answered = compute(&file, question.prices, question.measured, settings, printer)?;
    if answered.set.recommendation.is_none() {
        return Err(nothing_fits(&answered.set));
    }
    let plans = PlanDocument::new(&answered.set, &context(&answered, &file, settings)?);
    Ok((plans, answered.catalogs.hardware))
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
            ExportError::Layout { .. } | ExportError::Unfit { .. } | ExportError::Service => diagnostic,
        }
    }
}
