//! The files that samples are written to while a command runs.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::measuring::profile::arguments::RunArguments;
use crate::session::diagnostic::Diagnostic;
use gpuplan_runstore::sha256;
use gpuplan_telemetry::mlflow::{EXPERIMENT, MlflowRun, experiment_meta, metric_lines};
use gpuplan_telemetry::{Sample, event_file, jsonl, prometheus};

/// Open exports; none unless asked for.
#[derive(Default)]
pub struct Exports {
    jsonl: Option<(PathBuf, File)>,
    prometheus: Option<PathBuf>,
    tensorboard: Option<(PathBuf, File)>,
    mlflow: Option<MlflowFolder>,
    samples: u64,
}

struct MlflowFolder {
    folder: PathBuf,
    store: String,
    run: MlflowRun,
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
            exports.mlflow =
                Some(MlflowFolder::make(store, &arguments.command, now).map_err(|error| unwritable(store, &error))?);
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
        if let Some(mlflow) = &self.mlflow {
            mlflow.add(sample, self.samples).map_err(|error| failed(&mlflow.folder, &error))?;
        }
        Ok(())
    }

    pub fn finish(&mut self, succeeded: bool) -> Result<(), String> {
        let Some(mlflow) = &mut self.mlflow else { return Ok(()) };
        mlflow.run.end_unix_millis = Some(Timestamp::now().as_millisecond().unsigned_abs());
        mlflow.run.succeeded = succeeded;
        mlflow.write_meta().map_err(|error| format!("cannot write {}: {error}", mlflow.folder.display()))
    }
}

impl MlflowFolder {
    fn make(store: &Path, command: &[String], now: Timestamp) -> std::io::Result<Self> {
        fs::create_dir_all(store)?;
        let store = store.canonicalize()?;
        let uri = format!("file://{}", store.display());
        let millis = now.as_millisecond().unsigned_abs();
        let started = format!("{command:?} {millis} {}", std::process::id());
        let run = MlflowRun {
            id: sha256(started.as_bytes()).chars().take(32).collect(),
            name: command.join(" "),
            start_unix_millis: millis,
            end_unix_millis: None,
            succeeded: false,
        };
        let experiment = store.join(EXPERIMENT);
        let folder = experiment.join(&run.id);
        for part in ["metrics", "params", "tags", "artifacts"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let meta = experiment.join("meta.yaml");
        if !meta.is_file() {
            fs::write(&meta, experiment_meta(&uri, millis))?;
        }
        fs::write(folder.join("tags/mlflow.runName"), &run.name)?;
        fs::write(folder.join("params/command"), &run.name)?;
        let made = Self { folder, store: uri, run };
        made.write_meta()?;
        Ok(made)
    }

    fn write_meta(&self) -> std::io::Result<()> {
        replace(&self.folder.join("meta.yaml"), &self.run.meta(&self.store))
    }

    fn add(&self, sample: &Sample, number: u64) -> std::io::Result<()> {
        for (name, line) in metric_lines(sample, number) {
            let path = self.folder.join("metrics").join(name);
            OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

/// A reader sees the old file or the new one, never half of it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let making = path.with_extension("part");
    fs::write(&making, text)?;
    fs::rename(&making, path)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::usage(format!("cannot write {}: {error}", path.display()))
}
