//! `profile trace`: reads a profiler's trace.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::arguments::global::OutputFormat;
use crate::measuring::profile::arguments::TraceArguments;
use crate::measuring::profile::findings::{complete_profile, json, write_profile};
use crate::question::gpus::chip;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_report::measure::profile_text;
use gpuplan_workload::profile::{Profile, ProfiledGpu};
use gpuplan_workload::trace::{self, SQLITE, nsight};

pub fn trace(arguments: &TraceArguments, session: &Session) -> Result<Exit, Diagnostic> {
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
    let hardware = session.hardware()?;
    if let Some(text) = &arguments.gpus {
        let (id, count) = chip(text, &hardware)?;
        profile.gpu = Some(ProfiledGpu { name: hardware.gpu(id).name.clone(), count, memory_bytes: None });
    }
    complete_profile(&mut profile, arguments.workload.as_deref(), &hardware, session)?;
    if let Some(out) = &arguments.out {
        write_profile(&profile, out)?;
    }
    match session.output {
        OutputFormat::Json => session.printer.data(&json(&profile)?),
        OutputFormat::Csv => session.printer.data(&profile_text::csv(&profile)),
        OutputFormat::Table => session.printer.data(&profile_text::text(&profile, session.width)),
    }
}

/// By its first bytes, whatever it is called.
fn read_trace(path: &Path) -> Result<trace::ChromeTrace, Diagnostic> {
    let unreadable = |error: std::io::Error| Diagnostic::file(path, &error);
    let mut reader = BufReader::with_capacity(1 << 18, fs::File::open(path).map_err(unreadable)?);
    let is_database = reader.fill_buf().map_err(unreadable)?.starts_with(SQLITE);
    let broken = |detail: String| {
        Diagnostic::usage(format!("{}: {detail}", path.display()))
            .hint("a trace is what `torch.profiler` exports, JAX's and TensorFlow's *.xplane.pb or *.trace.json.gz, or `nsys export --type sqlite`")
    };
    if is_database {
        return nsight::read(path).map_err(|error| broken(error.to_string()));
    }
    trace::read(reader).map_err(|error| broken(error.to_string()))
}
