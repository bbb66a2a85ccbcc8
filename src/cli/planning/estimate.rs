//! `estimate`: one workload on given GPUs in full, or many cases one a line.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;

use crate::arguments::global::OutputFormat;
use crate::arguments::measured::MeasuredArguments;
use crate::arguments::workload::WorkloadArguments;
use crate::question::cases::read;
use crate::question::gpus::{chip, part, shape};
use crate::question::measurements::{self, Measurements};
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_accuracy::Published;
use gpuplan_accuracy::nearest::PublishedRuns;
use gpuplan_estimate::answer::{CaseAnswer, answer};
use gpuplan_estimate::likeness::Likeness;
use gpuplan_estimate::{Infeasible, Machine, StepEstimate, Subject};
use gpuplan_hardware::{Gpu, GpuSelector};
use gpuplan_plan::training::search::best_setting;
use gpuplan_plan::{Rejection, Warning};
use gpuplan_report::measure::estimate as report;
use gpuplan_report::measure::nearest::{self, AnswerLine, NearestReport};
use gpuplan_report::plan::plan_text;
use gpuplan_report::sentences::{assumption, rejection, warning};
use gpuplan_report::text::format;
use gpuplan_report::text::wrap::wrap;
use gpuplan_units::Bytes;
use gpuplan_workload::Precision;

#[derive(Debug, Args)]
pub struct EstimateArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// Estimate on these GPUs, such as H100:8
    #[arg(short, long = "gpus", visible_alias = "gpu", value_name = "GPUS")]
    pub gpus: Option<String>,
    /// Read cases from this file, one JSON object per line (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "gpus"])]
    pub cases: Option<PathBuf>,
}

/// Times as many of the same GPUs that are tried where too few were named. Judgement.
const MORE: [u32; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

/// Work shorter than this needs no progress bar.
const PATIENCE: Duration = Duration::from_secs(1);

pub fn run(arguments: &EstimateArguments, session: &Session) -> Result<Exit, Diagnostic> {
    match &arguments.cases {
        Some(path) => cases(path, session),
        None => one(arguments, session),
    }
}

/// One answer a line, in the order of the cases.
fn cases(path: &Path, session: &Session) -> Result<Exit, Diagnostic> {
    if session.output == OutputFormat::Csv {
        return Err(Diagnostic::usage("answers to cases are printed as JSON lines, not as CSV")
            .hint("gpuplan estimate --cases FILE --output json"));
    }
    let text = read(path)?;
    let (hardware, models) = (session.hardware()?, session.models()?);
    let published = Published::embedded().map_err(Diagnostic::unexpected)?;
    let known = PublishedRuns::new(&published, &hardware, &models);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let bar = ProgressBar::with_draw_target(Some(lines.len() as u64), ProgressDrawTarget::hidden());
    let started = std::time::Instant::now();
    let answers: Vec<String> = lines
        .par_iter()
        .map(|line| {
            let answer = answer(line, &hardware, &models);
            let nearest = match &answer {
                CaseAnswer::Estimate(made) => Some(NearestReport::new(&known.nearest(&made.likeness))),
                CaseAnswer::Unsupported { .. } => None,
            };
            let text = serde_json::to_string(&AnswerLine { answer, nearest }).expect("an answer has text keys");
            if bar.is_hidden() && session.printer.stderr_is_terminal() && started.elapsed() > PATIENCE {
                bar.set_style(ProgressStyle::default_bar());
                bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            bar.inc(1);
            text
        })
        .collect();
    bar.finish_and_clear();
    let mut out = String::with_capacity(answers.iter().map(|line| line.len() + 1).sum());
    for line in &answers {
        out.push_str(line);
        out.push('\n');
    }
    session.printer.data(&out)
}

fn one(arguments: &EstimateArguments, session: &Session) -> Result<Exit, Diagnostic> {
    workload::is_no_service(&arguments.workload, "estimate")?;
    let hardware = session.hardware()?;
    let mut file = workload::read(&arguments.workload)?;
    workload::take_one_step(&mut file);
    let resolved = workload::resolve(&file, &session.models()?)?;
    // A limit such as `24GB+` names no chip to estimate.
    let limit = file.limits.gpus.as_deref();
    let named = limit.filter(|text| GpuSelector::parse(text, &hardware).is_ok_and(|gpus| gpus.names_chips()));
    let wanted = arguments.gpus.as_deref().or(named);
    let wanted = wanted.ok_or_else(|| {
        Diagnostic::usage("no GPUs given").hint("name them, as in `gpuplan estimate FILE --gpus H100:8`")
    })?;
    let (id, asked) = chip(wanted, &hardware)?;
    let gpu = hardware.gpu(id);
    let (node, nodes) = match part(wanted, id, &hardware)? {
        Some(part) => (part, 1),
        None => shape(id, gpu, asked, &hardware)?,
    };
    let count = if node.gpus.is_slice() { node.gpus.to_string() } else { asked.to_string() };
    let job = &resolved.workload;
    let global_batch = job.training.global_batch.unwrap_or(1);
    let measured = Measurements::find(&arguments.measured, session)?;
    let correction = measurements::correction(&measured, &resolved, &hardware, session)?;
    let subject = Subject::new(&job.model, &job.training, Machine::new(gpu, &node)).corrected(&correction);
    let (outcome, _) = best_setting(&subject, global_batch, nodes);
    let fits = |gpus: u32| {
        shape(id, gpu, gpus, &hardware).is_ok_and(|(shape, nodes)| {
            let subject = Subject::new(&job.model, &job.training, Machine::new(gpu, &shape)).corrected(&correction);
            best_setting(&subject, global_batch, nodes).0.is_ok()
        })
    };
    let more = || MORE.iter().map(|factor| factor * asked).find(|gpus| fits(*gpus));
    let made = outcome.map_err(|misfit| no_setting(misfit, gpu, &count, more))?;
    let published = Published::embedded().map_err(Diagnostic::unexpected)?;
    if let Some(warning) = counted_as_fp16(job.training.precision, gpu) {
        session.printer.warning(&warning);
    }
    let known = PublishedRuns::new(&published, &hardware, &session.models()?);
    let likeness = Likeness::new(&job.model, &job.training, gpu, &made.setting);
    let nearest = known.nearest(&likeness);
    match session.output {
        OutputFormat::Json => session.printer.data(&report::json(&subject, &made, &resolved.assumed, &nearest)),
        OutputFormat::Csv => session.printer.data(&csv(&made)),
        OutputFormat::Table => {
            let mut text = format!("{}\n", wrap(&plan_text::workload_line(job), session.width, "  "));
            let _ = writeln!(
                text,
                "{}\n",
                wrap(&format!("Assumed: {}", assumption::sentences(&resolved.assumed).join("; ")), session.width, "  ")
            );
            let _ = writeln!(
                text,
                "{count} x {}: {}, micro batch {}",
                gpu.name, made.setting.layout, made.setting.micro_batch
            );
            let _ = writeln!(
                text,
                "step {}, {} of {} a GPU",
                format::step_band(made.step_seconds()),
                Bytes(made.memory.required),
                node.gpu_memory
            );
            let _ = writeln!(text, "{}\n", wrap(&nearest::sentence(&nearest), session.width, "  "));
            text.push_str(&report::breakdown(&made, node.gpu_memory, session.width));
            session.printer.data(&text)
        }
    }
}

/// That the work cannot be run as it stands, where nobody stated another precision.
fn counted_as_fp16(precision: Precision, gpu: &Gpu) -> Option<String> {
    let is_bf16 = matches!(precision, Precision::Bf16 | Precision::PureBf16);
    Warning::counted_as_fp16(gpu, is_bf16).map(|warning| warning::sentence(&warning))
}

/// What each part of a step takes.
fn csv(made: &StepEstimate) -> String {
    let mut text = "part,seconds\n".to_owned();
    for (name, seconds) in gpuplan_plan::document::time_parts(&made.time) {
        let _ = writeln!(text, "{name},{seconds}");
    }
    text
}

/// `more`: a larger number of the same GPUs that carries the work as it is.
fn no_setting(misfit: Infeasible, gpu: &Gpu, count: &str, more: impl Fn() -> Option<u32>) -> Diagnostic {
    let why = Rejection::from(misfit);
    let message = format!("{count} x {}: {}", gpu.name, rejection::sentence(&why));
    let larger = if matches!(why, Rejection::OutOfMemory { .. }) { more() } else { None };
    let hint = larger.map_or_else(|| rejection::fix(&why), |gpus| format!("--gpus {}:{gpus}", gpu.id));
    Diagnostic::new(Exit::NoPlanFits, message).hint(hint)
}
