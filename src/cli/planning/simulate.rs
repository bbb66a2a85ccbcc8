//! `simulate`: replays spot policies on availability traces, one answer a case, or the evaluation of all policies.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use flate2::read::MultiGzDecoder;
use rayon::prelude::*;

use crate::arguments::global::OutputFormat;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_report::measure::simulate as report;
use gpuplan_spot::availability::AvailabilityModel;
use gpuplan_spot::case::Simulator;
use gpuplan_spot::evaluate::evaluate;
use gpuplan_spot::trace::Trace;

#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// Read traces from this file: JSON lines, plain or gzip, or the public spot-traces format (repeat for several)
    #[arg(long, value_name = "FILE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Read cases from this file, one JSON object per line (`-`: standard input)
    #[arg(long, value_name = "FILE", required_unless_present = "evaluate")]
    pub cases: Option<PathBuf>,
    /// Compare all policies on windows of the traces
    #[arg(long, conflicts_with = "cases")]
    pub evaluate: bool,
}

/// Most bytes that are read of traces or cases, unpacked.
const LARGEST_TEXT: u64 = 1 << 30;

const GZIP: [u8; 2] = [0x1f, 0x8b];

pub fn run(arguments: &SimulateArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if session.output == OutputFormat::Csv {
        return Err(Diagnostic::usage("answers to cases are printed as JSON lines, not as CSV")
            .hint("gpuplan simulate --traces TRACES --cases FILE --output json"));
    }
    let mut traces = Vec::new();
    for path in &arguments.traces {
        let name = path.to_string_lossy();
        let found = Trace::parse_all(&read(path)?, &name);
        traces.extend(found.map_err(|error| Diagnostic::usage(format!("{name}: {error}")))?);
    }
    let Some(cases) = &arguments.cases else {
        let done = evaluate(&traces, session.seed);
        return session.printer.data(&match session.output {
            OutputFormat::Json => report::json(&done),
            _ => report::text(&done, session.width),
        });
    };
    let simulator = Simulator::new(traces, AvailabilityModel::prior(), session.seed);
    let text = read(cases)?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let answers: Vec<String> = lines.par_iter().map(|line| format!("{}\n", simulator.answer(line))).collect();
    session.printer.data(&answers.concat())
}

/// A file as text, unpacked where it is gzip; `-` is standard input.
fn read(path: &Path) -> Result<String, Diagnostic> {
    let mut bytes = Vec::new();
    let taken = if path == Path::new("-") {
        std::io::stdin().take(LARGEST_TEXT).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(LARGEST_TEXT).read_to_end(&mut bytes))
    };
    taken.map_err(|error| Diagnostic::file(path, &error))?;
    let mut text = String::new();
    if bytes.starts_with(&GZIP) {
        let unpacked = MultiGzDecoder::new(bytes.as_slice()).take(LARGEST_TEXT).read_to_string(&mut text);
        unpacked.map_err(|error| Diagnostic::file(path, &error))?;
        return Ok(text);
    }
    String::from_utf8(bytes).map_err(|_| Diagnostic::usage(format!("{} is not UTF-8 text", path.display())))
}
