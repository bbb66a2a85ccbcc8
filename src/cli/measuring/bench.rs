//! `bench`: measures this machine's GPU with the shapes of a workload, or a simulated one, and keeps the calibration.

use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::global::OutputFormat;
use crate::arguments::workload::WorkloadArguments;
use crate::catalog::local_gpus::no_device;
use crate::question::gpus::{chip, shape};
use crate::question::measurements;
use crate::question::workload;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use crate::session::printer::Printer;
use gpuplan_calibration::device::Device;
use gpuplan_calibration::file::{self, MeasuredWorkload};
use gpuplan_calibration::statistics::six_figures;
use gpuplan_calibration::suite::{self, Shapes};
use gpuplan_calibration::{Calibration, SimulatedDevice, Suite, host, local_gpus, match_catalog, plausible};
use gpuplan_estimate::measured::{measured_gpu, roof};
use gpuplan_estimate::{Machine, Setting, Subject};
use gpuplan_hardware::{GpuId, Hardware};
use gpuplan_plan::training::search::best_setting;
use gpuplan_report::measure::bench_text;
use gpuplan_workload::{Layout, Precision, Recompute, Workload};

/// What `--simulate` without a name simulates: the GPU that most published runs of today used.
const USUAL: &str = "h100-sxm5-80";

/// Work of the host is measured this long, twice on its cores and once on the data folder, beside the suite's own time.
const HOST_SECONDS: f64 = 1.0;

#[derive(Debug, Args)]
pub struct BenchArguments {
    /// Simulate a GPU of the catalog instead of measuring one, such as --simulate=L40S or --simulate=H100:8
    #[arg(long, value_name = "GPU", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub simulate: Option<String>,
    /// Measure for twenty seconds (the default)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Measure for three minutes: more sizes, more samples
    #[arg(long)]
    pub full: bool,
    /// Measure for at most so many seconds instead, from 1 to 3600: what has no time left is left out, and said so
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: Option<u32>,
    /// Measure how fast the data set in this folder can be read
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub workload: WorkloadArguments,
}

/// What is measured and what the catalog knows of it.
struct Target {
    device: Box<dyn Device>,
    gpu: Option<GpuId>,
    simulated: bool,
}

pub fn run(arguments: &BenchArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if session.output == OutputFormat::Csv {
        return Err(Diagnostic::usage("a calibration cannot be printed as CSV").hint("gpuplan bench --output json"));
    }
    let hardware = session.hardware()?;
    let job = workload_of(arguments, session)?;
    let mut target = open(arguments, session, &hardware)?;
    let name = if arguments.full { "full" } else { "quick" };
    let mut suite = if arguments.full { Suite::full() } else { Suite::quick() }.map_err(Diagnostic::unexpected)?;
    suite.seconds = arguments.seconds.map_or(suite.seconds, f64::from);
    let setting = job
        .as_ref()
        .map(|job| setting(job, target.gpu, target.device.facts().gpus, &hardware, &session.printer))
        .transpose()?;
    let shapes = job.as_ref().zip(setting).map(|(job, setting)| Shapes {
        model: &job.model,
        task: job.training.task,
        precision: job.training.precision,
        layout: setting.layout,
        micro_batch: setting.micro_batch,
        sequence: job.training.sequence_length,
    });
    if shapes.is_some_and(|shapes| !shapes.model.kind.is_transformer()) {
        session.printer.note("only transformers are measured product by product: these are sizes for comparison alone");
    }
    let benchmarks = suite.benchmarks(shapes.as_ref(), target.device.facts());
    let bar = bar(&session.printer);
    let mut outcome = suite::run(&suite, benchmarks, &mut *target.device, &mut |share, what| {
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(what.to_owned());
    });
    bar.finish_and_clear();
    if let Some(id) = target.gpu {
        plausible::leave_out(&mut outcome, hardware.gpu(id));
    }
    if let Some(first) = outcome.waived.first().filter(|_| outcome.sampled.is_empty()) {
        // An empty calibration would take the place of a good one.
        let message = format!("nothing could be measured, and nothing is kept: {}", first.reason);
        return Err(Diagnostic::new(Exit::Unexpected, message).hint("nvidia-smi -q"));
    }
    let host = if target.simulated {
        host::HostRates::not_measured("a simulated GPU has no host")
    } else {
        host::measure(arguments.data.as_deref(), HOST_SECONDS)
    };
    let calibration = Calibration {
        version: file::VERSION,
        program: concat!("gpuplan ", env!("CARGO_PKG_VERSION")).to_owned(),
        measured_at: session.now,
        simulated: target.simulated,
        gpu: target.gpu.map(|id| hardware.gpu(id).id.clone()),
        device: target.device.facts().clone(),
        workload: shapes.filter(|shapes| shapes.model.kind.is_transformer()).map(|shapes| MeasuredWorkload {
            model: shapes.model.name.clone(),
            precision: shapes.precision,
            layout: shapes.layout.to_string(),
            micro_batch: shapes.micro_batch,
            sequence_length: shapes.sequence,
        }),
        suite: name.to_owned(),
        seconds: six_figures(target.device.elapsed()),
        readings: target.device.readings(),
        results: outcome.sampled,
        waived: outcome.waived,
        host,
    };
    show(&calibration, &hardware, session)?;
    finish(&calibration, session)
}

/// The calibration itself, or a table of it with what a plan makes of it.
fn show(calibration: &Calibration, hardware: &Hardware, session: &Session) -> Result<Exit, Diagnostic> {
    if session.output == OutputFormat::Json {
        return session.printer.data(&calibration.json());
    }
    let precision = calibration.workload.as_ref().map_or(Precision::Bf16, |workload| workload.precision);
    let found = measured_gpu(calibration, precision, hardware).map_err(|error| error.to_string());
    session.printer.data(&bench_text::text(calibration, &found, hardware, session.width))
}

/// A real calibration joins the user's set; a simulated one never does.
fn finish(calibration: &Calibration, session: &Session) -> Result<Exit, Diagnostic> {
    if calibration.simulated {
        session.printer
            .note("simulated, so nothing is stored: `gpuplan bench --simulate --output json > cal.json` and `plan --calibration cal.json`");
        return Ok(Exit::Done);
    }
    if calibration.gpu.is_none() {
        session.printer.note(&format!(
            "the catalog has no {}, so plans cannot use this and nothing is stored",
            calibration.device.name
        ));
        return Ok(Exit::Done);
    }
    match measurements::keep_calibration(calibration, session)? {
        Some(path) => session
            .printer
            .note(&format!("kept as {}: plans use it from now on (`--calibration none` goes without)", path.display())),
        None => session.printer.warning("there is no home folder, so the calibration is not stored"),
    }
    Ok(Exit::Done)
}

/// The workload, if one was given; how much is trained does not matter here.
fn workload_of(arguments: &BenchArguments, session: &Session) -> Result<Option<Workload>, Diagnostic> {
    if !arguments.workload.is_given() {
        return Ok(None);
    }
    let mut file = workload::read(&arguments.workload).map_err(|diagnostic| {
        match (&arguments.simulate, &arguments.workload.file) {
            (Some(_), Some(path)) if !path.is_file() => {
                diagnostic.hint(format!("to simulate a GPU write `--simulate={}`", path.display()))
            }
            _ => diagnostic,
        }
    })?;
    workload::take_one_step(&mut file);
    Ok(Some(workload::resolve(&file, &session.models()?)?.workload))
}

fn open(arguments: &BenchArguments, session: &Session, hardware: &Hardware) -> Result<Target, Diagnostic> {
    if let Some(name) = &arguments.simulate {
        let (id, gpus) = chip(if name.is_empty() { USUAL } else { name }, hardware)?;
        let gpu = hardware.gpu(id);
        let (machine, _) = shape(id, gpu, gpus, hardware)?;
        let device = SimulatedDevice::new(gpu, roof(gpu), machine.gpus.devices(), machine.link, session.seed);
        return Ok(Target { device: Box::new(device), gpu: Some(id), simulated: true });
    }
    let unable = |error| no_device(error).hint("`gpuplan bench --simulate` runs the same on a made-up GPU");
    let gpus = local_gpus().map_err(unable)?;
    let device = gpuplan_calibration::open_device().map_err(unable)?;
    Ok(Target { device, gpu: gpus.first().and_then(|local| match_catalog(local, hardware)), simulated: false })
}

/// What the planner would choose for this machine; for a model that is too large for it, the layers of one plain rank.
fn setting(
    job: &Workload,
    gpu: Option<GpuId>,
    gpus: u32,
    hardware: &Hardware,
    printer: &Printer,
) -> Result<Setting, Diagnostic> {
    let batch = job.training.global_batch.unwrap_or(1);
    let plain = Setting {
        layout: Layout::default(),
        micro_batch: job.training.micro_batch.unwrap_or(1),
        global_batch: batch as f64,
        recompute: Recompute::None,
    };
    let Some(id) = gpu else { return Ok(plain) };
    let (machine, nodes) = shape(id, hardware.gpu(id), gpus, hardware)?;
    let subject = Subject::new(&job.model, &job.training, Machine::new(hardware.gpu(id), &machine));
    Ok(match best_setting(&subject, batch, nodes).0 {
        Ok(made) => made.setting,
        Err(_) => {
            printer.note(&format!(
                "{} does not fit this machine: the layers of one plain rank are measured",
                job.model.name
            ));
            plain
        }
    })
}

/// On a terminal only.
fn bar(printer: &Printer) -> ProgressBar {
    let target = if printer.stderr_is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(1000), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar
}
