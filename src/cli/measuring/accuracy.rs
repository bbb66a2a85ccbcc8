//! `accuracy`: predicts every published run and measures the error.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::global::OutputFormat;
use crate::measuring::{own_runs, refit};
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_accuracy::{ErrorGroup, Published, Scores, predict};
use gpuplan_estimate::constants::Fitted;
use gpuplan_estimate::memory_constants::FittedMemory;
use gpuplan_report::measure::{accuracy as report, accuracy_json};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AccuracyGrouping {
    /// Paper or repository
    #[default]
    Source,
    /// Sources that share one code base
    Group,
    /// Kind of model
    Family,
    Gpu,
    /// What bounds the predicted step
    Regime,
}

#[derive(Debug, Args)]
pub struct AccuracyArguments {
    /// Group the runs by this in tables and CSV; JSON has every grouping
    #[arg(long, value_enum, default_value_t)]
    pub by: AccuracyGrouping,
    /// Compare forecast and actual of your own completed runs: time, price and interruptions apart
    #[arg(long, conflicts_with_all = ["refit", "by"])]
    pub mine: bool,
    /// Refit the constants and write them
    #[arg(long)]
    pub refit: bool,
    /// Fit without this group and show its errors; write nothing
    #[arg(long, value_name = "GROUP", requires = "refit")]
    pub leave_out: Option<String>,
    /// Fit without each GPU that has inference runs and show their errors; write nothing
    #[arg(long, requires = "refit", conflicts_with_all = ["leave_out", "residuals"])]
    pub inference: bool,
    /// Also write the error of every held-out run to this CSV file
    #[arg(long, value_name = "FILE", requires = "refit")]
    pub residuals: Option<PathBuf>,
    /// Write the constants to this file with --refit
    #[arg(long, value_name = "FILE", default_value = "benchmarks/results/constants.toml")]
    pub constants: PathBuf,
}

pub fn run(arguments: &AccuracyArguments, session: &Session) -> Result<Exit, Diagnostic> {
    if arguments.mine {
        return own_runs::run(session);
    }
    if let Some(group) = &arguments.leave_out {
        return refit::leave_out(group, session);
    }
    if arguments.inference {
        return refit::inference(session);
    }
    if arguments.refit {
        return refit::refit(&arguments.constants, arguments.residuals.as_deref(), session);
    }
    let published = Published::embedded().map_err(Diagnostic::unexpected)?;
    let predictions = predict(&published, &session.hardware()?, &session.models()?);
    let scores = Scores::new(&published, &predictions);
    let (by, time, memory) = (grouping(arguments.by), Fitted::embedded(), FittedMemory::embedded());
    match session.output {
        OutputFormat::Table => session.printer.data(&report::text(&scores, by, time, memory, session.width)),
        OutputFormat::Json => session.printer.data(&accuracy_json::accuracy(&scores, time, memory, session.now)),
        OutputFormat::Csv => session.printer.data(&report::csv(&scores, by)),
    }
}

fn grouping(by: AccuracyGrouping) -> ErrorGroup {
    match by {
        AccuracyGrouping::Source => ErrorGroup::Source,
        AccuracyGrouping::Group => ErrorGroup::Group,
        AccuracyGrouping::Family => ErrorGroup::Family,
        AccuracyGrouping::Gpu => ErrorGroup::Gpu,
        AccuracyGrouping::Regime => ErrorGroup::Regime,
    }
}
