//! `export`: writes a plan as a file for an engine that people already run.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::question::QuestionArguments;
use crate::question::answer::{compute, context, nothing_fits};
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_export::{ExportError, Job, Target, Wishes, export};
use gpuplan_hardware::{CloudId, Hardware};
use gpuplan_plan::document::PlanDocument;
use gpuplan_workload::file::{LimitsSection, WorkloadFile};

#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Write for this target: torchrun, accelerate, deepspeed, slurm, kubernetes, jobset, kueue, skypilot, dstack, ray or terraform
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
    /// Run this training command, without launcher and flags of the framework
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn run(arguments: &ExportArguments, session: &Session) -> Result<Exit, Diagnostic> {
    workload::is_no_service(&arguments.question.workload, "export")?;
    let wishes = Wishes {
        run: arguments.run.clone(),
        store: arguments.store.clone(),
        framework: arguments.question.workload.flags.get("training.framework").map(str::to_owned),
        image: arguments.image.clone(),
        nodes_at_least: arguments.min_nodes,
        command: arguments.command.clone(),
    };
    let job = job_of(&arguments.question, arguments.plan.as_deref(), wishes, session)?;
    let text = export(arguments.to, &job)?;
    if arguments.to.is_job() {
        for what in &job.to_edit {
            session.printer.note(&format!("note: edit {what}"));
        }
    }
    match &arguments.out {
        Some(path) => {
            fs::write(path, text)
                .map_err(|error| Diagnostic::usage(format!("cannot write {}: {error}", path.display())))?;
            Ok(Exit::Done)
        }
        None => session.printer.data(&text),
    }
}

/// The plan, recorded or made now, as a job.
pub fn job_of(
    question: &QuestionArguments,
    plan: Option<&str>,
    wishes: Wishes,
    session: &Session,
) -> Result<Job, Diagnostic> {
    let (plans, hardware) = match recorded(question)? {
        // A plan is exported as it was recorded: nothing is priced again.
        Some(plans) => (plans, session.catalogs()?.hardware),
        None => fresh(question, session)?,
    };
    let plan = chosen(&plans, plan)?;
    let text_of = |key: &str| {
        let missing =
            || Diagnostic::usage(format!("the plan has no `{key}`")).hint("gpuplan plan FILE --output json >plan.json");
        plan.get(key).and_then(Value::as_str).ok_or_else(missing)
    };
    let (cloud, kind) = (CloudId::new(text_of("cloud")?), text_of("instance_type")?);
    let instance = hardware.find_instance(&cloud, kind).map(|id| hardware.instance(id)).ok_or_else(|| {
        Diagnostic::new(
            Exit::StalePrice,
            format!("the catalog knows no machine type `{kind}` of {cloud}, which the plan takes"),
        )
        .hint("gpuplan plan FILE --output json >plan.json")
    })?;
    Ok(Job::new(&plans, plan, hardware.gpu(instance.node.gpu), instance, wishes)?)
}

/// `None` for a file that is not JSON: a workload. Of the flags of a question, a recorded plan takes `--framework` alone.
fn recorded(question: &QuestionArguments) -> Result<Option<Value>, Diagnostic> {
    let Some(path) = &question.workload.file else { return Ok(None) };
    let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
    if !text.trim_start().starts_with('{') {
        return Ok(None);
    }
    let no_plan = |why: &str| {
        Diagnostic::usage(format!("{} is not a plan of this program: {why}", path.display()))
            .hint("gpuplan plan FILE --output json >plan.json")
    };
    let plans: Value = serde_json::from_str(&text).map_err(|error| no_plan(&error.to_string()))?;
    let mut asked = workload::read(&question.workload)?;
    let stated = plans.pointer("/workload/file").ok_or_else(|| no_plan("`workload.file` is missing"))?;
    let stated = WorkloadFile::deserialize(stated).map_err(|error| no_plan(&error.to_string()))?;
    asked.training.framework.clone_from(&stated.training.framework);
    if asked != stated || workload::limits(&question.limits) != LimitsSection::default() {
        let message = format!("{} is a recorded plan, which flags of a question do not change", path.display());
        return Err(Diagnostic::usage(message).hint("give the workload file instead, or plan again with these flags"));
    }
    Ok(Some(plans))
}

/// The plans of a workload, as `plan --output json` has them.
fn fresh(question: &QuestionArguments, session: &Session) -> Result<(Value, Hardware), Diagnostic> {
    let file = workload::with_limits(&question.workload, &question.limits)?;
    let answered = compute(&file, &question.prices, &question.measured, session)?;
    if answered.set.recommendation.is_none() {
        return Err(nothing_fits(&answered.set));
    }
    let plans = PlanDocument::new(&answered.set, &context(&answered, &file, session)?).to_value();
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
        Diagnostic::usage(what).hint("gpuplan plan FILE --output json >plan.json")
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
