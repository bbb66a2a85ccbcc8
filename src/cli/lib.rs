//! Arguments, settings, wiring, printing: the only stage that talks to a person and decides the exit code.

pub mod accuracy;
pub mod agent;
pub mod args;
pub mod bench;
pub mod budget;
pub mod calibrations;
pub mod catalog;
pub mod completions;
pub mod costs;
pub mod diagnostic;
pub mod diff;
pub mod doctor;
pub mod ending;
pub mod estimate;
pub mod explain;
pub mod export;
pub mod here;
pub mod home;
pub mod launch;
pub mod launch_on;
pub mod live;
pub mod patience;
pub mod plan;
mod plan_file;
pub mod plan_from;
mod plan_phases;
mod plan_processing;
pub mod prices;
pub mod printer;
pub mod profile;
pub mod refit;
pub mod refresh;
pub mod report;
pub mod runs;
pub mod settings;
pub mod setup;
pub mod simulate;
pub mod snapshot;
pub mod workload;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;
use crate::settings::Settings;

/// Runs the program and gives its exit code.
pub fn run() -> ExitCode {
    let printer = Printer;
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return printer.clap(&error),
    };
    match Settings::new(&arguments.global).and_then(|settings| dispatch(&arguments.command, &settings, &printer)) {
        Ok(exit) => exit,
        Err(diagnostic) => {
            printer.diagnostic(&diagnostic);
            diagnostic.exit.into()
        }
    }
}

fn dispatch(command: &Command, settings: &Settings, printer: &Printer) -> Result<ExitCode, Diagnostic> {
    if settings.markdown && !matches!(command, Command::Budget(_) | Command::Diff(_)) {
        return Err(Diagnostic::new(Exit::Usage, "only `budget` and `diff` print Markdown").hint("--output json"));
    }
    let exit = match command {
        // Their exit codes may be those of the programs that they run.
        Command::Agent(arguments) => return Ok(agent::run(arguments, settings.offline, printer)),
        Command::Profile { what } => return profile::run(what, settings, printer),
        Command::Plan(arguments) => plan::run(arguments, settings, printer),
        Command::Explain(arguments) => explain::run(arguments, settings, printer),
        Command::Budget(arguments) => budget::run(arguments, settings, printer),
        Command::Diff(arguments) => diff::run(arguments, settings, printer),
        Command::Estimate(arguments) => estimate::run(arguments, settings, printer),
        Command::Accuracy(arguments) => accuracy::run(arguments, settings, printer),
        Command::Bench(arguments) => bench::run(arguments, settings, printer),
        Command::Prices(arguments) => prices::run(arguments, settings, printer),
        Command::Refresh(arguments) => refresh::run(arguments, settings, printer),
        Command::Doctor(arguments) => doctor::run(arguments, settings, printer),
        Command::Setup(arguments) => setup::run(arguments, settings, printer),
        Command::Export(arguments) => export::run(arguments, settings, printer),
        Command::Report(arguments) => report::run(arguments, settings, printer),
        Command::Launch(arguments) => launch::run(arguments, settings, printer),
        Command::Watch(arguments) => launch::leading::again(arguments, settings, printer),
        Command::Adopt(arguments) => launch::adopt::run(arguments, settings, printer),
        Command::Resume(arguments) => launch::leading::resume(arguments, settings, printer),
        Command::Costs(arguments) => costs::run(arguments, settings, printer),
        Command::Status(arguments) => runs::status(arguments, settings, printer),
        Command::Logs(arguments) => runs::logs(arguments, settings, printer),
        Command::Fetch(arguments) => runs::fetch(arguments, settings, printer),
        Command::Ssh(arguments) => runs::ssh(arguments, settings),
        Command::Stop(arguments) => ending::stop(arguments, settings, printer),
        Command::Down(arguments) => ending::down(arguments, settings, printer),
        Command::Gc(arguments) => ending::gc(arguments, settings, printer),
        Command::Simulate(arguments) => simulate::run(arguments, settings, printer),
        Command::Catalog { what } => catalog::run(what, settings, printer),
        Command::Completions { shell } => completions::completions(*shell, printer),
        Command::Man { folder } => completions::man(folder.as_deref(), printer),
    }?;
    Ok(exit.into())
}
