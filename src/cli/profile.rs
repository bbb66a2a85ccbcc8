//! `profile`: measures a run as it is, or reads a profiler's trace; tells step time, what the GPU waits for and what to mend.

mod exports;
mod run;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::OutputFormat;
use crate::calibrations::Measurements;
use crate::diagnostic::{Diagnostic, Exit};
use crate::estimate::{chip, shape};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::workload;
use gpuplan_estimate::{Correction, Machine, Setting, Subject};
use gpuplan_hardware::{GpuId, GpuLink, Hardware};
use gpuplan_plan::training::profile::{UnusableProfile, catalog_gpu, correction_from};
use gpuplan_report::profile_text;
use gpuplan_report::sentences::{self, rejection::unusable_profile};
use gpuplan_telemetry::gpus::NVIDIA_SMI;
use gpuplan_telemetry::{Facts, find};
use gpuplan_units::{Hours, Seconds};
use gpuplan_workload::file::{Resolved, WorkloadFile};
use gpuplan_workload::profile::{Profile, ProfiledGpu};
use gpuplan_workload::trace::{self, SQLITE, nsight};
use gpuplan_workload::{Layout, Recompute};

/// A profile larger than this is none.
const LARGEST_PROFILE: u64 = 64 << 20;

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Run a training command unchanged, sample GPUs and host beside it, and find its steps in its log
    Run(Box<RunArguments>),
    /// Read a trace of PyTorch's, TensorFlow's or JAX's profiler (JSON, plain or gzip) or of Nsight Systems (SQLite)
    Trace(TraceArguments),
}

#[derive(Debug, Args)]
pub struct RunArguments {
    /// Between two looks at the counters
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// How a step looks in the log, as a regular expression with a group named step, seconds, milliseconds or rate
    #[arg(long, value_name = "PATTERN")]
    pub steps: Option<String>,
    /// The workload that the command is, for measured MFU and for `plan --profile`
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Where the profile is written
    #[arg(long, value_name = "FILE", default_value = "gpuplan-profile.json")]
    pub out: PathBuf,
    /// Also write every sample as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// Also keep the last sample in a file for Prometheus (node_exporter's textfile collector)
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
    /// Also write an event file for TensorBoard
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Also write a run into MLflow's file store
    #[arg(long, value_name = "DIR")]
    pub mlflow: Option<PathBuf>,
    /// The program that tells of NVIDIA GPUs
    #[arg(long, value_name = "PROGRAM", hide = true, default_value = NVIDIA_SMI)]
    pub nvidia_smi: String,
    /// The training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct TraceArguments {
    /// The trace
    pub file: PathBuf,
    /// The workload that was traced, for measured MFU and for `plan --profile`
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// GPU and count of the run, such as H100:8, where the trace does not say
    #[arg(short, long = "gpus", visible_alias = "gpu", value_name = "GPUS")]
    pub gpus: Option<String>,
    /// Also write the profile to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The exit code of `profile run` is that of the command.
pub fn run(what: &ProfileCommand, settings: &Settings, printer: &Printer) -> Result<ExitCode, Diagnostic> {
    match what {
        ProfileCommand::Run(arguments) => run::run(arguments, settings, printer),
        ProfileCommand::Trace(arguments) => trace(arguments, settings, printer).map(ExitCode::from),
    }
}

/// At least a tenth of a second: `nvidia-smi` itself needs some of it.
fn interval(text: &str) -> Result<Duration, String> {
    let hours = Hours::parse(text).map_err(|error| error.to_string())?;
    let seconds = Seconds::from(hours).0;
    if text.trim().parse::<f64>().is_ok() || !(0.1..=3600.0).contains(&seconds) {
        return Err("say a time from 0.1s to 1h, with its unit".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn trace(arguments: &TraceArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    let path = &arguments.file;
    let found = read_trace(path)?;
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut profile = Profile {
        gpu: found.gpu,
        step: found.counted.step,
        operators: Some(found.counted.operators),
        notes: found.counted.notes,
        ..Profile::new(&name)
    };
    let hardware = settings.hardware()?;
    if let Some(text) = &arguments.gpus {
        let (id, count) = chip(text, &hardware)?;
        profile.gpu = Some(ProfiledGpu { name: hardware.gpu(id).name.clone(), count, memory_bytes: None });
    }
    complete(&mut profile, arguments.workload.as_deref(), &hardware, settings)?;
    if let Some(out) = &arguments.out {
        write(&profile, out)?;
    }
    match settings.output {
        OutputFormat::Json => printer.data(&json(&profile)?),
        OutputFormat::Csv => printer.data(&profile_text::csv(&profile)),
        OutputFormat::Table => printer.data(&profile_text::text(&profile, settings.width)),
    }
}

/// By its first bytes, whatever it is called.
fn read_trace(path: &Path) -> Result<trace::ChromeTrace, Diagnostic> {
    let unreadable = |error: std::io::Error| Diagnostic::file(path, &error);
    let mut reader = BufReader::with_capacity(1 << 18, fs::File::open(path).map_err(unreadable)?);
    let is_database = reader.fill_buf().map_err(unreadable)?.starts_with(SQLITE);
    let broken = |detail: String| {
        Diagnostic::new(Exit::Usage, format!("{}: {detail}", path.display()))
            .hint("a trace is what `torch.profiler` exports, JAX's and TensorFlow's *.trace.json.gz, or `nsys export --type sqlite`")
    };
    if is_database {
        return nsight::read(path).map_err(|error| broken(error.to_string()));
    }
    trace::read(reader).map_err(|error| broken(error.to_string()))
}

/// What follows from what was measured: utilisation where the workload is known, and the findings.
fn complete(
    profile: &mut Profile,
    workload: Option<&Path>,
    hardware: &Hardware,
    settings: &Settings,
) -> Result<(), Diagnostic> {
    let gpu = profile.gpu.as_ref().and_then(|gpu| catalog_gpu(&gpu.name, gpu.memory_bytes, hardware));
    if let Some(path) = workload {
        let text = fs::read_to_string(path).map_err(|error| Diagnostic::file(path, &error))?;
        let file = WorkloadFile::parse(&text)?;
        let resolved = workload::resolve(&file, &settings.models()?)?;
        profile.workload = Some(file);
        profile.model_flops_utilization = utilization(profile, &resolved, gpu, hardware)?;
    }
    profile.findings = find(profile, &facts(gpu, hardware));
    Ok(())
}

/// Arithmetic of the model's own mathematics in a step over what the GPUs could do in that time.
fn utilization(
    profile: &Profile,
    resolved: &Resolved,
    gpu: Option<GpuId>,
    hardware: &Hardware,
) -> Result<Option<f64>, Diagnostic> {
    let (Some(step), Some(id), Some(known)) = (&profile.step, gpu, &profile.gpu) else { return Ok(None) };
    let (shape, _) = shape(id, hardware.gpu(id), known.count, hardware)?;
    let job = &resolved.workload;
    let subject = Subject::new(&job.model, &job.training, Machine::new(hardware.gpu(id), &shape));
    let batch = job.training.global_batch.unwrap_or(1) as f64;
    // The model's own mathematics do not depend on how it is spread or what is computed again.
    let setting =
        Setting { layout: Layout::default(), micro_batch: 1, global_batch: batch, recompute: Recompute::None };
    let flops = subject.model_flops_per_step(&setting);
    Ok(Some(flops / step.median_seconds / f64::from(known.count) / subject.rates.peak))
}

fn facts(gpu: Option<GpuId>, hardware: &Hardware) -> Facts {
    let Some(gpu) = gpu.map(|id| hardware.gpu(id)) else { return Facts::default() };
    let link = hardware.gpu_link(gpu, &gpu.link, 2).ok();
    Facts {
        has_tensor_cores: Some(gpu.architecture.has_tensor_cores()),
        has_bf16: Some(gpu.peak_tflops.bf16.is_some()),
        has_fast_link: link.map(GpuLink::is_fast),
    }
}

fn json(profile: &Profile) -> Result<String, Diagnostic> {
    profile.to_json().map_err(|error| Diagnostic::unexpected(&error))
}

fn write(profile: &Profile, path: &Path) -> Result<(), Diagnostic> {
    let refuse =
        |error: std::io::Error| Diagnostic::new(Exit::Usage, format!("cannot write {}: {error}", path.display()));
    fs::write(path, json(profile)?).map_err(refuse)
}

/// Reads a profile file.
pub fn read(path: &Path) -> Result<(String, Profile), Diagnostic> {
    let mut text = String::new();
    let opened = fs::File::open(path).and_then(|file| file.take(LARGEST_PROFILE).read_to_string(&mut text));
    let hint = "make one with `gpuplan profile run -- COMMAND` or `gpuplan profile trace FILE --out PROFILE.json`";
    opened.map_err(|error| Diagnostic::file(path, &error).hint(hint))?;
    let profile = Profile::parse(&text)
        .map_err(|error| Diagnostic::new(Exit::Usage, format!("{}: {error}", path.display())).hint(hint))?;
    Ok((text, profile))
}

/// Everything measured as one correction: the profile of the run itself before what benchmarks say of the same GPU, and what the
/// user's own finished runs say.
pub fn correction(
    found: &Measurements,
    resolved: &Resolved,
    hardware: &Hardware,
    settings: &Settings,
    printer: &Printer,
) -> Result<Correction, Diagnostic> {
    let measured = measured_in(found, resolved, hardware, settings, printer)?;
    Ok(measured.with_own_runs(found.own_runs(printer)))
}

fn measured_in(
    found: &Measurements,
    resolved: &Resolved,
    hardware: &Hardware,
    settings: &Settings,
    printer: &Printer,
) -> Result<Correction, Diagnostic> {
    let calibrated = found.correction(resolved.workload.training.precision, hardware, printer)?;
    let Some(profile) = found.profile() else { return Ok(calibrated) };
    match of_profile(profile, resolved, hardware, settings)? {
        Ok(measured) => {
            let mut correction = Correction::new(vec![measured]);
            calibrated.measured().iter().for_each(|each| correction.push(each.clone()));
            Ok(correction)
        }
        Err(why) => {
            let why = unusable_profile(&why);
            printer.warning(&format!("the profile changes no estimate: {why}"));
            Ok(calibrated)
        }
    }
}

fn of_profile(
    profile: &Profile,
    resolved: &Resolved,
    hardware: &Hardware,
    settings: &Settings,
) -> Result<Result<gpuplan_estimate::MeasuredGpu, UnusableProfile>, Diagnostic> {
    let Some(gpu) = &profile.gpu else { return Ok(Err(UnusableProfile::NoGpu)) };
    let Some(id) = catalog_gpu(&gpu.name, gpu.memory_bytes, hardware) else {
        return Ok(Err(UnusableProfile::UnknownGpu(gpu.name.clone())));
    };
    let (shape, nodes) = shape(id, hardware.gpu(id), gpu.count, hardware)?;
    // A profile that names its workload is compared with that, whatever is planned now.
    let own = profile.workload.as_ref().map(|file| workload::resolve(file, &settings.models()?)).transpose()?;
    let compared = &own.as_ref().unwrap_or(resolved).workload;
    Ok(correction_from(profile, compared, hardware, &shape, nodes).map(|found| {
        let mut measured = found.gpu;
        measured.reasons.extend(found.notes.iter().map(sentences::profile::note));
        if own.is_none() {
            measured.reasons.push(
                "the profile names no workload (`--workload FILE`): it is taken to be of the one that is planned"
                    .to_owned(),
            );
        }
        measured
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_unit_and_a_sane_length() {
        assert_eq!(
            [interval("500ms"), interval("0.5s")],
            [Ok(Duration::from_millis(500)), Ok(Duration::from_millis(500))]
        );
        for text in ["1", "0.01s", "2h", "", "soon"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }
}
