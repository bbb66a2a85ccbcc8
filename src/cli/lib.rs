//! Arguments, settings, wiring, printing: the only stage that talks to a person and decides the exit code.

pub mod arguments;
pub mod catalog;
pub mod command;
pub mod finance;
pub mod manual;
pub mod measuring;
pub mod planning;
pub mod question;
pub mod running;
pub mod runs;
pub mod session;

pub use crate::running::agent;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::global::OutputWord;
use crate::command::{Arguments, dispatch};
use crate::session::Session;
use crate::session::printer::Printer;

/// Runs the program and gives its exit code.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return Printer::of_arguments(std::env::args_os()).clap(&error),
    };
    let printer = Printer::new(arguments.global.output == OutputWord::Json);
    Session::new(&arguments.global)
        .and_then(|session| dispatch(&arguments.command, &session))
        .unwrap_or_else(|diagnostic| printer.diagnostic(&diagnostic))
}
