//! `accuracy --refit`, all or in part, and `--leave-out`: refits the constants and estimates the error on workloads never seen.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::arguments::global::OutputFormat;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_accuracy::band_fit;
use gpuplan_accuracy::fit::{Fit, FitRun, fit};
use gpuplan_accuracy::held_out::{self, HeldOut};
use gpuplan_accuracy::memory_band_fit::{self, Peak};
use gpuplan_accuracy::memory_fit::{self, MemoryRun};
use gpuplan_accuracy::{Published, Run, unfitted};
use gpuplan_estimate::band::FittedBands;
use gpuplan_estimate::constants::{Constants, Fitted, HeldOutError, HeldOutInference};
use gpuplan_estimate::memory_constants::FittedMemory;
use gpuplan_hardware::Hardware;
use gpuplan_report::measure::{accuracy as report, accuracy_json};
use gpuplan_units::names::did_you_mean;
use gpuplan_workload::Models;

/// Fits on every group but one and shows the errors of that one.
pub fn leave_out(group: &str, session: &Session) -> Result<Exit, Diagnostic> {
    let (published, hardware, models) = inputs(session)?;
    let runs = FitRun::all(&published.runs, &hardware, &models);
    let groups: Vec<&str> = published.runs.iter().map(Run::group).collect();
    if !groups.contains(&group) {
        let near = did_you_mean(group, groups.iter().copied()).unwrap_or("llm-foundry");
        return Err(Diagnostic::usage(format!("no published group is called `{group}`"))
            .hint(format!("gpuplan accuracy --refit --leave-out {near}")));
    }
    let held = held_out::without(&runs, held_out::by_group, group);
    let (errors, _) = held_out::errors(&held, held_out::by_group);
    session.printer.data(&report::errors_without(&errors, session.width))
}

/// Fits without each GPU that inference was measured on and shows the errors there.
pub fn inference(session: &Session) -> Result<Exit, Diagnostic> {
    let (published, hardware, models) = inputs(session)?;
    let runs = FitRun::all(&published.runs, &hardware, &models);
    let held = held_out_inference(&runs, &held_out::inference(&runs, held_out::by_gpu));
    match session.output {
        OutputFormat::Json => session.printer.data(&accuracy_json::held_out_inference(&held)),
        OutputFormat::Table | OutputFormat::Csv => session.printer.data(&report::inference(&held, session.width)),
    }
}

/// Fits the bands alone, with the constants of the time as they are: every code base is left out of a fit that is not written.
pub fn bands(path: &Path, residuals: Option<&Path>, session: &Session) -> Result<Exit, Diagnostic> {
    let (published, hardware, models) = inputs(session)?;
    let runs = FitRun::all(&published.runs, &hardware, &models);
    session.printer.note(&format!("holding every code base out of {} runs", runs.len()));
    let held = held_out::leave_one_out(&runs, held_out::by_group);
    write_residuals(residuals, &[("group", &held)])?;
    let open = held_out::left_open(&runs, Constants::embedded());
    let bands = write_bands(path, &held, &open, Constants::embedded(), session)?;
    session.printer.data(&report::bands(&bands, session.width))
}

/// Leaves each generation of GPUs out of a fit that is not written, and records the errors beside the constants as they are.
pub fn generations(path: &Path, residuals: Option<&Path>, session: &Session) -> Result<Exit, Diagnostic> {
    let (published, hardware, models) = inputs(session)?;
    let runs = FitRun::all(&published.runs, &hardware, &models);
    session.printer.note(&format!("holding every generation of GPUs out of {} runs", runs.len()));
    let held = held_out::leave_one_out(&runs, held_out::by_generation);
    write_residuals(residuals, &[("generation", &held)])?;
    let (errors, _) = held_out::errors(&held, held_out::by_generation);
    let held_out_generations = recorded(errors);
    let fitted = Fitted { held_out_generations, ..Fitted::embedded().clone() };
    write(path, "time model", "src/estimate/constants.rs", &fitted)?;
    session.printer.data(&report::generations(&fitted.held_out_generations, session.width))
}

/// Fits the constants of memory alone.
pub fn memory(path: &Path, session: &Session) -> Result<Exit, Diagnostic> {
    let (published, hardware, models) = inputs(session)?;
    let memory = write_memory(path, &published, &hardware, &models)?;
    session.printer.data(&report::memory(&memory, session.width))
}

/// Writes the constants of memory beside those of the time.
fn write_memory(
    path: &Path,
    published: &Published,
    hardware: &Hardware,
    models: &Models,
) -> Result<FittedMemory, Diagnostic> {
    let folder = path.parent().and_then(Path::parent).unwrap_or(Path::new("")).join("unfitted");
    let strangers = unfitted_runs(&folder)?;
    let predictions = gpuplan_accuracy::predict(&strangers, hardware, models);
    let fitted = memory_fit::refit(&MemoryRun::all(&published.runs, hardware, models));
    let memory = memory_band_fit::with_bands(fitted, &Peak::all(&strangers.runs, &predictions));
    let memory_path = path.with_file_name("memory_constants.toml");
    write(&memory_path, "memory model", "src/estimate/memory/constants.rs", &memory)?;
    Ok(memory)
}

/// The runs that no constant is fitted on, by file and line.
fn unfitted_runs(folder: &Path) -> Result<Published, Diagnostic> {
    if !folder.is_dir() {
        return Err(Diagnostic::usage(format!("no folder {}", folder.display()))
            .hint("constants are written into benchmarks/results of the repository, beside benchmarks/unfitted"));
    }
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| Diagnostic::file(&path, &error)
    };
    let listed = fs::read_dir(folder).map_err(at(folder))?;
    let mut paths: Vec<_> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    paths.retain(|path| path.file_stem().is_some_and(|look| unfitted::LAST_LOOKS.iter().all(|last| look != *last)));
    paths.sort();
    let text = |path: &Path| fs::read_to_string(path).map_err(at(path));
    let files: Result<Vec<_>, _> =
        paths.iter().map(|path| Ok((path.display().to_string(), text(path)?))).collect::<Result<_, Diagnostic>>();
    let left_out = text(&folder.join(unfitted::PROJECTS))? + &text(&folder.join(unfitted::WRONG))?;
    unfitted::read(&files?, &left_out).map_err(Diagnostic::unexpected)
}

/// Writes the bands beside the constants of the time.
fn write_bands(
    path: &Path,
    held: &[HeldOut],
    open: &[HeldOut],
    constants: &Constants,
    session: &Session,
) -> Result<FittedBands, Diagnostic> {
    // Beside `results`, where the constants are.
    let folder = path.parent().and_then(Path::parent).unwrap_or(Path::new("")).join("unfitted");
    let unfitted = unfitted_runs(&folder)?;
    let strangers = FitRun::all(&unfitted.runs, &session.hardware()?, &session.models()?);
    let bands = band_fit::fit(held, open, &held_out::unfitted(&strangers, constants));
    write(&path.with_file_name("band_constants.toml"), "bands of the step time", "src/estimate/band.rs", &bands)?;
    Ok(bands)
}

fn write_residuals(path: Option<&Path>, held: &[(&str, &[HeldOut])]) -> Result<(), Diagnostic> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, report::residuals(held)).map_err(|error| Diagnostic::file(path, &error))
}

/// Fits on everything, holds every group out for the bands, and writes the constants file.
pub fn refit(path: &Path, residuals: Option<&Path>, session: &Session) -> Result<Exit, Diagnostic> {
    let (published, hardware, models) = inputs(session)?;
    let runs = FitRun::all(&published.runs, &hardware, &models);
    session.printer.note(&format!("fitting {} runs", runs.len()));
    let all: Vec<&FitRun> = runs.iter().collect();
    let best = fit(&all);
    session
        .printer
        .note(&format!("{:.2} % after {} iterations; holding every group out", best.error_percent, best.iterations));
    let by_group = held_out::leave_one_out(&runs, held_out::by_group);
    session.printer.note("holding every GPU out of the families that are no decoders");
    let by_gpu = held_out::leave_one_out(&runs, held_out::by_gpu_of_other_families);
    session.printer.note("holding every generation of GPUs out");
    let by_generation = held_out::leave_one_out(&runs, held_out::by_generation);
    session.printer.note("holding every GPU out of inference");
    let inference = held_out::inference(&runs, held_out::by_gpu);
    write_residuals(
        residuals,
        &[("group", &by_group), ("gpu", &by_gpu), ("generation", &by_generation), ("inference-gpu", &inference)],
    )?;
    let fitted = Fitted {
        held_out_inference: held_out_inference(&runs, &inference),
        held_out_generations: recorded(held_out::errors(&by_generation, held_out::by_generation).0),
        ..fitted(best, &runs, &by_group, &by_gpu, session)
    };
    write(path, "time model", "src/estimate/constants.rs", &fitted)?;
    let open = held_out::left_open(&runs, &fitted.values);
    write_bands(path, &by_group, &open, &fitted.values, session)?;
    let memory = write_memory(path, &published, &hardware, &models)?;
    session.printer.note(&format!("wrote {}, and those of memory and bands beside it", path.display()));
    session.printer.data(&report::held_out(&fitted, &memory, session.width))
}

fn inputs(session: &Session) -> Result<(Published, Hardware, Models), Diagnostic> {
    let published = Published::embedded().map_err(Diagnostic::unexpected)?;
    Ok((published, session.hardware()?, session.models()?))
}

fn fitted(best: Fit, runs: &[FitRun], by_group: &[HeldOut], by_gpu: &[HeldOut], session: &Session) -> Fitted {
    let in_sample: Vec<HeldOut> = runs
        .iter()
        .filter_map(|run| {
            let made = run.predict(&best.constants)?;
            Some(HeldOut { run, log_error: run.log_error(&best.constants), regime: made.regime, doubts: made.doubts })
        })
        .collect();
    let (_, macro_error_percent) = held_out::errors(&in_sample, held_out::by_group);
    let (groups, held_out_macro_percent) = held_out::errors(by_group, held_out::by_group);
    let (gpus, _) = held_out::errors(by_gpu, held_out::by_gpu_of_other_families);
    Fitted {
        version: format!("{}", session.now.strftime("%Y-%m-%dT%H:%MZ")),
        runs: best.runs,
        error_percent: rounded(best.error_percent),
        macro_error_percent: rounded(macro_error_percent),
        held_out_macro_percent: rounded(held_out_macro_percent),
        held_out_gpu_percent: rounded(held_out::mape_percent(by_gpu)),
        values: best.constants,
        held_out_groups: recorded(groups),
        held_out_gpus: recorded(gpus),
        held_out_generations: Vec::new(),
        held_out_inference: Vec::new(),
    }
}

fn recorded(errors: Vec<held_out::GroupError>) -> Vec<HeldOutError> {
    let one = |error: held_out::GroupError| HeldOutError {
        name: error.group,
        runs: error.runs,
        mape_percent: rounded(error.mape_percent),
    };
    errors.into_iter().map(one).collect()
}

/// Errors by kind of inference and GPU, without the GPU (`held`) and without its family.
fn held_out_inference(runs: &[FitRun], held: &[HeldOut]) -> Vec<HeldOutInference> {
    let of = |run: &FitRun| Some((held_out::by_inference(run)?, run.gpu().id.clone()));
    let joined = |run: &FitRun| of(run).map(|(what, gpu)| format!("{what} {gpu}"));
    let without_family = held_out::inference(runs, held_out::by_gpu_family);
    let (by_gpu, by_family) = (held_out::errors(held, joined).0, held_out::errors(&without_family, joined).0);
    let record = |(gpu, family): (held_out::GroupError, held_out::GroupError)| {
        let (what, id) = gpu.group.split_once(' ')?;
        Some(HeldOutInference {
            what: what.to_owned(),
            gpu: id.to_owned(),
            runs: gpu.runs,
            mape_percent: rounded(gpu.mape_percent),
            family_mape_percent: rounded(family.mape_percent),
        })
    };
    by_gpu.into_iter().zip(by_family).filter_map(record).collect()
}

fn rounded(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}

fn write(path: &Path, model: &str, names: &str, fitted: &impl Serialize) -> Result<(), Diagnostic> {
    let text = toml::to_string(fitted).map_err(Diagnostic::unexpected)?;
    let header = format!(
        "# Constants of the {model}, written by `gpuplan accuracy --refit`. Names, units and reasons: {names}.\n"
    );
    fs::write(path, header + &text).map_err(|error| Diagnostic::file(path, &error))
}
