//! `profile`: measures a run unchanged, or reads a profiler's trace: step time, what the GPU waits for and what to fix.

pub mod arguments;
pub mod exports;
pub mod findings;
pub mod run;
pub mod trace;

use std::process::ExitCode;

use clap::Subcommand;

use crate::measuring::profile::arguments::{RunArguments, TraceArguments};
use crate::measuring::profile::trace::trace;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;

#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Run a training command unchanged while sampling GPUs and host, and find its steps in its log
    Run(Box<RunArguments>),
    /// Read a trace of PyTorch's, TensorFlow's or JAX's profiler (JSON, plain or gzip) or of Nsight Systems (SQLite)
    Trace(TraceArguments),
}

/// The exit code of `profile run` is that of the command.
pub fn run(what: &ProfileCommand, session: &Session) -> Result<ExitCode, Diagnostic> {
    match what {
        ProfileCommand::Run(arguments) => run::run(arguments, session),
        ProfileCommand::Trace(arguments) => trace(arguments, session).map(ExitCode::from),
    }
}
