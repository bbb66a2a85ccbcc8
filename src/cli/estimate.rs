//! `estimate`: one workload on given GPUs in full, or many cases one a line.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;

use crate::args::{EstimateArguments, OutputFormat};
use crate::calibrations::Measurements;
use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;
use crate::profile;
use crate::settings::Settings;
use crate::workload;
use gpuplan_estimate::answer::answer;
use gpuplan_estimate::{Machine, Misfit, Subject};
use gpuplan_hardware::{Gpu, GpuId, GpuSelector, Hardware, NodeShape};
use gpuplan_plan::Rejection;
use gpuplan_plan::training::search::best_setting;
use gpuplan_report::sentences::{assumption, rejection};
use gpuplan_report::{estimate as report, format, plan_text};
use gpuplan_units::{Bytes, BytesPerSecond, GpuCount};

/// Work shorter than this needs no progress bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// A file of cases larger than this is no file of cases.
const LARGEST_FILE: u64 = 1 << 30;

pub fn run(arguments: &EstimateArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    match &arguments.cases {
        Some(path) => cases(path, settings, printer),
        None => one(arguments, settings, printer),
    }
}

/// One answer a line, in the order of the cases.
fn cases(path: &Path, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if settings.output == OutputFormat::Csv {
        return Err(Diagnostic::new(Exit::Usage, "answers to cases are JSON lines")
            .hint("gpuplan estimate --cases FILE --output json"));
    }
    let text = read(path)?;
    let (hardware, models) = (settings.hardware()?, settings.models()?);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let bar = ProgressBar::with_draw_target(Some(lines.len() as u64), ProgressDrawTarget::hidden());
    let started = std::time::Instant::now();
    let answers: Vec<String> = lines
        .par_iter()
        .map(|line| {
            let text = serde_json::to_string(&answer(line, &hardware, &models)).expect("an answer has text keys");
            if bar.is_hidden() && printer.stderr_is_terminal() && started.elapsed() > PATIENCE {
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
    printer.data(&out)
}

fn read(path: &Path) -> Result<String, Diagnostic> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(LARGEST_FILE).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(LARGEST_FILE).read_to_string(&mut text))
    };
    read.map_err(|error| Diagnostic::file(path, &error))?;
    Ok(text)
}

fn one(arguments: &EstimateArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    workload::is_no_service(&arguments.workload, "estimate")?;
    let hardware = settings.hardware()?;
    let file = workload::read(&arguments.workload)?;
    let resolved = workload::resolve(&file, &settings.models()?)?;
    let wanted = arguments.gpus.as_deref().or(file.limits.gpus.as_deref());
    let wanted = wanted.ok_or_else(|| {
        Diagnostic::new(Exit::Usage, "on which GPUs?").hint("name them, as in `gpuplan estimate FILE --gpus H100:8`")
    })?;
    let (id, count) = chip(wanted, &hardware)?;
    let gpu = hardware.gpu(id);
    let (shape, nodes) = shape(id, gpu, count, &hardware)?;
    let job = &resolved.workload;
    let global_batch = job.training.global_batch.unwrap_or(1);
    let measured = Measurements::find(&arguments.measured, settings)?;
    let correction = profile::correction(&measured, &resolved, &hardware, settings, printer)?;
    let subject = Subject::new(&job.model, &job.training, Machine::new(gpu, &shape)).corrected(&correction);
    let (outcome, _) = best_setting(&subject, global_batch, nodes);
    let made = outcome.map_err(|misfit| no_setting(misfit, gpu, count))?;
    match settings.output {
        OutputFormat::Json => {
            let json = report::json(&subject, &made, &resolved.assumed);
            printer.data(&json.map_err(|error| Diagnostic::unexpected(&error))?)
        }
        OutputFormat::Csv => {
            let mut text = "part,seconds\n".to_owned();
            for (name, seconds) in gpuplan_plan::document::time_parts(&made.time) {
                let _ = writeln!(text, "{name},{seconds}");
            }
            printer.data(&text)
        }
        OutputFormat::Table => {
            let mut text = format!("{}\n", plan_text::wrap(&plan_text::workload_line(job), settings.width, "  "));
            let _ = writeln!(
                text,
                "{}\n",
                plan_text::wrap(&format!("Assumed: {}", assumption::sentences(&resolved.assumed).join("; ")), settings.width, "  ")
            );
            let _ = writeln!(
                text,
                "{count} x {}: {}, micro batch {}",
                gpu.name, made.setting.layout, made.setting.micro_batch
            );
            let _ = writeln!(
                text,
                "step {}, {} of {} a GPU\n",
                format::step_band(made.step_seconds()),
                Bytes(made.memory.required),
                shape.gpu_memory
            );
            text.push_str(&report::breakdown(&made, shape.gpu_memory, settings.width));
            printer.data(&text)
        }
    }
}

/// The first chip that matches, and how many.
pub fn chip(text: &str, hardware: &Hardware) -> Result<(GpuId, u32), Diagnostic> {
    let selector = GpuSelector::parse(text, hardware)?;
    let matching =
        (0..hardware.gpus().len() as u16).map(GpuId).filter(|id| selector.matches_gpu(*id, hardware.gpu(*id)));
    let id = matching.into_iter().next().ok_or_else(|| {
        Diagnostic::new(Exit::Usage, format!("no GPU matches `{text}`")).hint("`gpuplan catalog gpus` lists them")
    })?;
    let count = selector.count().map_or(1, |range| *range.start());
    if count > 65_536 {
        return Err(Diagnostic::new(Exit::Usage, format!("{count} GPUs are more than any cluster has")));
    }
    Ok((id, count))
}

/// The GPU's usual machine: up to eight (four in a rack domain) with its own link, joined by its usual network.
pub fn shape(id: GpuId, gpu: &Gpu, count: u32, hardware: &Hardware) -> Result<(NodeShape, u32), Diagnostic> {
    let most = if gpu.form_factor == "nvl72" { 4 } else { 8 };
    let devices = (1..=most.min(count)).rev().find(|devices| count.is_multiple_of(*devices)).unwrap_or(1);
    let link =
        hardware.gpu_link(gpu, &gpu.link, devices).map_err(|detail| Diagnostic::new(Exit::Unexpected, detail))?;
    let network: BytesPerSecond = gpuplan_estimate::machine::usual_network(gpu);
    let fabric = (count > devices).then_some(gpuplan_hardware::Fabric { bandwidth: network, rdma: true });
    let shape = NodeShape { gpu: id, gpus: GpuCount::whole(devices as u16), gpu_memory: gpu.memory(), link, fabric };
    Ok((shape, count / devices))
}

fn no_setting(misfit: Misfit, gpu: &Gpu, count: u32) -> Diagnostic {
    let why = Rejection::from(misfit);
    let message = format!("{count} x {}: {}", gpu.name, rejection::sentence(&why));
    Diagnostic::new(Exit::NoPlanFits, message).hint(rejection::fix(&why))
}
