//! Arguments, settings, wiring, printing: the only stage that talks to a person and decides the exit code.

pub mod arguments;
pub mod catalog;
pub mod command;
pub mod finance;
pub mod help;
pub mod manual;
pub mod mcp;
pub mod measuring;
pub mod planning;
pub mod question;
pub mod running;
pub mod runs;
pub mod session;

pub use crate::running::agent;

use std::process::ExitCode;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use crate::arguments::global::OutputWord;
use crate::command::{Arguments, dispatch};
use crate::session::Session;
use crate::session::printer::Printer;

/// Runs the program and gives its exit code.
pub fn run() -> ExitCode {
    let typed = help::program(Arguments::command()).try_get_matches_from(std::env::args_os());
    let arguments = match typed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        // Nothing was asked: the commands are the answer.
        Err(error) if error.kind() == ErrorKind::MissingSubcommand => {
            return Printer::default().usage(&help::of_typed(Arguments::command(), std::env::args_os()));
        }
        Err(error) => return Printer::of_arguments(std::env::args_os()).wrong_arguments(error, std::env::args_os()),
    };
    let printer =
        Printer::new(arguments.global.output == OutputWord::Json).with_verbosity(arguments.global.verbosity());
    let begun = Instant::now();
    let exit = Session::new(&arguments.global)
        .and_then(|session| dispatch(&arguments.command, &session))
        .unwrap_or_else(|diagnostic| printer.diagnostic(&diagnostic));
    printer.detail(&format!("took {:.2} s", begun.elapsed().as_secs_f64()));
    exit
}
