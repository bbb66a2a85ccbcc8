//! `export`: writes a plan as a file for an engine that people already run.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::arguments::question::QuestionArguments;
use crate::question::answer::{compute, context};
use crate::question::fitting::refused;
use crate::question::{plan_file, workload};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_export::assumed::left_to_program;
use gpuplan_export::{ExportError, ExportOptions, Job, Service, Target, export, export_service};
use gpuplan_hardware::{CloudId, Hardware, InstanceType};
use gpuplan_plan::document::{AnyPlan, DocumentError, PhaseRecord, PlanDocument, PlanRecord};

#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Write for this target, such as slurm, kubernetes, skypilot, axolotl or vllm (all: --help)
    ///
    /// torchrun, accelerate, deepspeed, slurm, kubernetes, jobset, kueue, skypilot, dstack, ray, terraform, axolotl, llama-factory or trl;
    /// for a model that answers, vllm, sglang, kubernetes, leaderworkerset, kserve, llm-d or dynamo.
    #[arg(long, value_name = "TARGET")]
    pub to: Target,
    /// Export the plan with this id [default: the recommended one]
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// Keep checkpoints here, such as s3://bucket/prefix
    #[arg(long, value_name = "URI")]
    pub store: Option<String>,
    /// Name the run; a run of the same name resumes from its checkpoints [default: the workload's name]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Run in this container image, which has the program, its framework and gpuplan
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Start with at least this many machines, where the engine can (slurm, torchrun)
    #[arg(long, value_name = "N")]
    pub min_nodes: Option<u32>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Run this command; for a served model: its weights, then flags of the engine
    ///
    /// Without the launcher and flags of the framework, which the target writes; of a served model, where its weights are first.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn run(arguments: &ExportArguments, session: &Session) -> Result<Exit, Diagnostic> {
    let wishes = ExportOptions {
        run: arguments.run.clone(),
        store: arguments.store.clone(),
        framework: arguments.question.workload.flags.get("training.framework").map(str::to_owned),
        image: arguments.image.clone(),
        nodes_at_least: arguments.min_nodes,
        command: arguments.command.clone(),
    };
    let picked = Picked::new(&arguments.question, arguments.plan.as_deref(), session)?;
    let text = if picked.plan.serving.is_some() {
        let service = picked.service(wishes)?;
        let text = export_service(arguments.to, &service)?;
        note_open(&service.to_edit, &service.left_open(), session);
        text
    } else {
        let job = picked.job(wishes)?;
        let text = export(arguments.to, &job)?;
        if arguments.to.is_job() {
            note_open(&job.to_edit, &left_to_program(&job), session);
        }
        text
    };
    match &arguments.out {
        Some(path) => {
            fs::write(path, text).map_err(|error| Diagnostic::unwritten(path, &error))?;
            Ok(Exit::Done)
        }
        None => session.printer.data(&text),
    }
}

/// What is left to whoever exports.
fn note_open(to_edit: &[String], left: &[String], session: &Session) {
    for what in to_edit {
        session.printer.note(&format!("note: edit {what}"));
    }
    if !left.is_empty() {
        session.printer.note(&format!("note: the price assumes what your program has to set: {}", left.join("; ")));
    }
}

/// The plan, recorded or made now, as a job that an engine's client submits.
pub fn job_of(
    question: &QuestionArguments,
    plan: Option<&str>,
    wishes: ExportOptions,
    session: &Session,
) -> Result<Job, Diagnostic> {
    let job = Picked::new(question, plan, session)?.job(wishes)?;
    // An engine's client is asked about one job; the jobs of a sweep are not followed.
    match &job.sweep {
        Some(sweep) => Err(ExportError::Sweep { runs: sweep.runs }.into()),
        None => Ok(job),
    }
}

/// A plan, the document that it stands in, and its machine.
struct Picked {
    document: PlanDocument,
    plan: PlanRecord,
    hardware: Hardware,
    instance: InstanceType,
}

impl Picked {
    fn new(question: &QuestionArguments, plan: Option<&str>, session: &Session) -> Result<Self, Diagnostic> {
        let (document, hardware) = match recorded(question)? {
            // A plan is exported as it was recorded: nothing is priced again.
            Some(plans) => (plans, session.catalogs()?.hardware),
            None => fresh(question, session)?,
        };
        let plan =
            document.pick(plan).map_err(|error| Diagnostic::usage(error.to_string()).hint(error.hint()))?.clone();
        let (cloud, kind) = (CloudId::new(&plan.machines.cloud), plan.machines.instance_type.as_str());
        let instance =
            hardware.find_instance(&cloud, kind).map(|id| hardware.instance(id).clone()).ok_or_else(|| {
                Diagnostic::new(
                    Exit::StalePrice,
                    format!("the catalog knows no machine type `{kind}` of {cloud}, which the plan takes"),
                )
                .hint("gpuplan plan FILE --output json >plan.json")
            })?;
        Ok(Self { document, plan, hardware, instance })
    }

    fn job(&self, wishes: ExportOptions) -> Result<Job, Diagnostic> {
        let gpu = self.hardware.gpu(self.instance.node.gpu);
        Ok(Job::new(&self.document, &self.plan, gpu, &self.instance, wishes)?)
    }

    fn service(&self, wishes: ExportOptions) -> Result<Service, Diagnostic> {
        let gpu = self.hardware.gpu(self.instance.node.gpu);
        Ok(Service::new(&self.document, &self.plan, gpu, &self.instance, wishes)?)
    }
}

/// `None` for a file that is not JSON: a workload. Of the flags of a question, a recorded plan takes `--framework` alone.
fn recorded(question: &QuestionArguments) -> Result<Option<PlanDocument>, Diagnostic> {
    let path = question.workload.file.as_deref();
    let Some((path, text)) = path.zip(plan_file::json_text(path)?) else { return Ok(None) };
    let refused = |error: DocumentError| plan_file::refused(path, &error);
    let plans = PlanDocument::read(&text).map_err(refused)?;
    if let Some(record) = &plans.phases {
        let trains = |phase: &&PhaseRecord| matches!(&phase.recommendation, Some(AnyPlan::Gpu(plan)) if plan.checkpoint.is_some() && plan.sweep.is_none());
        let first = record.phases.iter().find(trains).map_or("PHASE", |phase| phase.name.as_str());
        let names: Vec<&str> = record.phases.iter().map(|phase| phase.name.as_str()).collect();
        let message = format!("{} has phases ({}), each a job of its own", path.display(), names.join(", "));
        return Err(Diagnostic::usage(message)
            .hint(format!("gpuplan export WORKLOAD.toml --phase {first} --to slurm, from the workload of this plan")));
    }
    let stated = plans.workload.workload_file().map_err(refused)?;
    let mut asked = workload::read(&question.workload)?;
    asked.training.framework.clone_from(&stated.training.framework);
    plan_file::is_unchanged(path, &stated, &asked, &workload::limits(&question.limits))?;
    Ok(Some(plans))
}

/// The plans of a workload, as `plan --output json` has them.
fn fresh(question: &QuestionArguments, session: &Session) -> Result<(PlanDocument, Hardware), Diagnostic> {
    let file = workload::with_limits(&question.workload, &question.limits)?;
    let answered = compute(&file, &question.prices, &question.measured, session)?;
    if answered.set.recommendation.is_none() {
        return Err(refused(&answered, &file, session));
    }
    let plans = PlanDocument::new(&answered.set, &context(&answered, &file, session)?);
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
            ExportError::Sweep { .. } | ExportError::SharedCard { .. } => {
                diagnostic.hint("gpuplan launch FILE -- COMMAND")
            }
            // The stack's own limits are limits of the search.
            ExportError::Layout { framework, .. } => {
                diagnostic.hint(format!("gpuplan plan WORKLOAD.toml --framework {framework} --output json >plan.json"))
            }
            ExportError::Elastic { .. } | ExportError::Unfit { .. } | ExportError::Service => diagnostic,
        }
    }
}
