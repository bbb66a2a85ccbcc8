//! `accuracy`: predicts every published run and says how wrong that is.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::OutputFormat;
use crate::costs::mine;
use crate::diagnostic::{Diagnostic, Exit};
use crate::printer::Printer;
use crate::refit;
use crate::settings::Settings;
use gpuplan_accuracy::{By, Published, Scores, predict};
use gpuplan_estimate::constants::Fitted;
use gpuplan_estimate::memory_constants::FittedMemory;
use gpuplan_report::{accuracy as report, accuracy_json};

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
    /// How the runs are put together in tables and CSV; JSON has every grouping
    #[arg(long, value_enum, default_value_t)]
    pub by: AccuracyGrouping,
    /// Forecast against actual of your own completed runs: time, price and interruptions apart
    #[arg(long, conflicts_with_all = ["refit", "by"])]
    pub mine: bool,
    /// Fit the constants again and write them
    #[arg(long)]
    pub refit: bool,
    /// Fit without this group and show its errors; writes nothing
    #[arg(long, value_name = "GROUP", requires = "refit")]
    pub leave_out: Option<String>,
    /// Fit without each GPU that has runs of inference and show their errors; writes nothing
    #[arg(long, requires = "refit", conflicts_with_all = ["leave_out", "residuals"])]
    pub inference: bool,
    /// Also write the error of every held-out run to this CSV file
    #[arg(long, value_name = "FILE", requires = "refit")]
    pub residuals: Option<PathBuf>,
    /// The constants file that --refit writes
    #[arg(long, value_name = "FILE", default_value = "benchmarks/results/constants.toml")]
    pub constants: PathBuf,
}

pub fn run(arguments: &AccuracyArguments, settings: &Settings, printer: &Printer) -> Result<Exit, Diagnostic> {
    if arguments.mine {
        return mine::run(settings, printer);
    }
    if let Some(group) = &arguments.leave_out {
        return refit::leave_out(group, settings, printer);
    }
    if arguments.inference {
        return refit::inference(settings, printer);
    }
    if arguments.refit {
        return refit::refit(arguments, settings, printer);
    }
    let published = Published::embedded().map_err(|error| Diagnostic::unexpected(&error))?;
    let predictions = predict(&published, &settings.hardware()?, &settings.models()?);
    let scores = Scores::of(&published, &predictions);
    let (by, time, memory) = (grouping(arguments.by), Fitted::embedded(), FittedMemory::embedded());
    match settings.output {
        OutputFormat::Table => printer.data(&report::text(&scores, by, time, memory, settings.width)),
        OutputFormat::Json => {
            let json = accuracy_json::accuracy(&scores, time, memory, settings.now);
            printer.data(&json.map_err(|error| Diagnostic::unexpected(&error))?)
        }
        OutputFormat::Csv => printer.data(&report::csv(&scores, by)),
    }
}

fn grouping(by: AccuracyGrouping) -> By {
    match by {
        AccuracyGrouping::Source => By::Source,
        AccuracyGrouping::Group => By::Group,
        AccuracyGrouping::Family => By::Family,
        AccuracyGrouping::Gpu => By::Gpu,
        AccuracyGrouping::Regime => By::Regime,
    }
}
