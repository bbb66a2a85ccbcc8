//! The files that samples are written to while a command runs.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::measuring::profile::arguments::RunArguments;
use crate::session::diagnostic::Diagnostic;
use gpuplan_runstore::sha256;
use gpuplan_telemetry::mlflow::{self, MlflowRun};
use gpuplan_telemetry::{Sample, event_file, jsonl, prometheus};

/// Open exports; none unless asked for.
#[derive(Default)]
pub struct Exports {
    jsonl: Option<(PathBuf, File)>,
    prometheus: Option<PathBuf>,
    tensorboard: Option<(PathBuf, File)>,
    mlflow: Option<(PathBuf, MlflowRun)>,
    samples: u64,
}

impl Exports {
    /// Everything is made before the command starts, so that a folder that cannot be written is reported in time.
    pub fn open(arguments: &RunArguments, now: Timestamp) -> Result<Self, Diagnostic> {
        let seconds = now.as_millisecond() as f64 / 1e3;
        let mut exports = Self { prometheus: arguments.prometheus.clone(), ..Self::default() };
        if let Some(path) = &arguments.jsonl {
            exports.jsonl = Some((path.clone(), File::create(path).map_err(|error| unwritable(path, &error))?));
        }
        if let Some(folder) = &arguments.tensorboard {
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let path = folder.join(event_file::file_name(seconds, host.trim()));
            let made = fs::create_dir_all(folder).and_then(|()| File::create(&path));
            let mut file = made.map_err(|error| unwritable(&path, &error))?;
            file.write_all(&event_file::header(seconds)).map_err(|error| unwritable(&path, &error))?;
            exports.tensorboard = Some((path, file));
        }
        if let Some(store) = &arguments.mlflow {
            exports.mlflow = Some((store.join(mlflow::FILE), begun(store, &arguments.command, now)?));
        }
        Ok(exports)
    }

    /// The error names the file.
    pub fn add(&mut self, sample: &Sample) -> Result<(), String> {
        let failed = |path: &Path, error: &dyn std::error::Error| format!("cannot write {}: {error}", path.display());
        self.samples += 1;
        if let Some((path, file)) = &mut self.jsonl {
            let text = jsonl::line(sample).map_err(|error| failed(path, &error))?;
            file.write_all(text.as_bytes()).map_err(|error| failed(path, &error))?;
        }
        if let Some(path) = &self.prometheus {
            replace(path, &prometheus::text(sample)).map_err(|error| failed(path, &error))?;
        }
        if let Some((path, file)) = &mut self.tensorboard {
            file.write_all(&event_file::sample_record(sample, self.samples)).map_err(|error| failed(path, &error))?;
        }
        if let Some((path, run)) = &mut self.mlflow {
            run.add(sample, self.samples).map_err(|error| failed(path, &error))?;
        }
        Ok(())
    }

    pub fn finish(&mut self, succeeded: bool) -> Result<(), String> {
        let Some((path, run)) = &self.mlflow else { return Ok(()) };
        run.end(Timestamp::now().as_millisecond(), succeeded)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// A run in the database of the folder, which is made where it is not there.
fn begun(store: &Path, command: &[String], now: Timestamp) -> Result<MlflowRun, Diagnostic> {
    fs::create_dir_all(store).map_err(|error| unwritable(store, &error))?;
    let folder = store.canonicalize().map_err(|error| unwritable(store, &error))?;
    let millis = now.as_millisecond();
    let started = format!("{command:?} {millis} {}", std::process::id());
    let id: String = sha256(started.as_bytes()).chars().take(32).collect();
    let artifacts = format!("file://{}/mlruns/0", folder.display());
    MlflowRun::begin(&folder.join(mlflow::FILE), &id, &command.join(" "), &artifacts, millis)
        .map_err(|error| unwritable(store, &error))
}

/// A reader sees the old file or the new one, never half of it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let making = path.with_extension("part");
    fs::write(&making, text)?;
    fs::rename(&making, path)
}

fn unwritable(path: &Path, error: &dyn std::error::Error) -> Diagnostic {
    Diagnostic::usage(format!("cannot write {}: {error}", path.display()))
}
