//! `accuracy`: predicts every published run and measures the error.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::arguments::global::OutputFormat;
use crate::measuring::{own_runs, refit};
use crate::question::cases::read;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};
use gpuplan_accuracy::{ErrorGroup, Prediction, Published, Scores, answers, own_table, predict};
use gpuplan_estimate::constants::Fitted;
use gpuplan_estimate::memory_constants::FittedMemory;
use gpuplan_report::measure::accuracy_cases::{self, OwnScores, Unanswered};
use gpuplan_report::measure::{accuracy as report, accuracy_json};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AccuracyGrouping {
    /// Earlier sources, which most constants are fitted on, and recent ones
    Table,
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

/// What may be refitted alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RefitPart {
    /// Bands of the step time, from runs whose code base the constants never saw
    Bands,
    /// Memory of a GPU
    Memory,
    /// Errors on each generation of GPUs by constants that never saw it
    Generations,
}

#[derive(Debug, Args)]
pub struct AccuracyArguments {
    /// Group the runs by this in tables and CSV; JSON has every grouping
    #[arg(long, value_enum, default_value_t)]
    pub by: AccuracyGrouping,
    /// Score your own table of measured runs instead: CSV, or JSON lines of cases with `measured_...` keys (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mine", "refit"])]
    pub cases: Option<PathBuf>,
    /// Compare forecast and actual of your own completed runs: time, price and interruptions apart
    #[arg(long, conflicts_with_all = ["refit", "by"])]
    pub mine: bool,
    /// Refit the constants and write them
    #[arg(long)]
    pub refit: bool,
    /// Fit without this group and show its errors; write nothing
    #[arg(long, value_name = "GROUP", requires = "refit")]
    pub leave_out: Option<String>,
    /// Refit and write this alone, and leave the other constants as they are
    #[arg(long, value_enum, value_name = "PART", requires = "refit", conflicts_with_all = ["leave_out", "inference"])]
    pub only: Option<RefitPart>,
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
    if let Some(path) = &arguments.cases {
        return own_table(path, arguments.by, session);
    }
    if let Some(group) = &arguments.leave_out {
        return refit::leave_out(group, session);
    }
    if arguments.inference {
        return refit::inference(session);
    }
    match arguments.only {
        Some(RefitPart::Bands) => {
            return refit::bands(&arguments.constants, arguments.residuals.as_deref(), session);
        }
        Some(RefitPart::Memory) => return refit::memory(&arguments.constants, session),
        Some(RefitPart::Generations) => {
            return refit::generations(&arguments.constants, arguments.residuals.as_deref(), session);
        }
        None => {}
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

/// Scores a table that a user has measured.
fn own_table(path: &Path, by: AccuracyGrouping, session: &Session) -> Result<Exit, Diagnostic> {
    if matches!(by, AccuracyGrouping::Table | AccuracyGrouping::Group) {
        return Err(Diagnostic::usage("`--by table` and `--by group` are of the published runs alone")
            .hint("gpuplan accuracy --cases FILE --by source, family, gpu or regime"));
    }
    let own = own_table::read(&read(path)?).map_err(|error| {
        Diagnostic::usage(format!("{}: {error}", path.display()))
            .hint("docs/measure.md, \"Your own table of runs\", has the columns and what they may say")
    })?;
    if !own.ignored.is_empty() {
        session.printer.note(&format!("columns that were not read: {}", own.ignored.join(", ")));
    }
    let unnamed = own.runs.runs.iter().filter(|run| run.case.training.framework.is_none()).count();
    if unnamed > 0 {
        session.printer.note(&format!(
            "{unnamed} of {} runs name no framework, which decides kernels, overlap and memory; a column `framework` says it",
            own.runs.runs.len()
        ));
    }
    let answers = answers(&own.runs, &session.hardware()?, &session.models()?);
    let unanswered = own
        .runs
        .runs
        .iter()
        .zip(&answers)
        .filter_map(|(run, answer)| Some(Unanswered { id: run.id.clone(), why: answer.as_ref().err()?.clone() }));
    let unanswered: Vec<Unanswered> = unanswered.collect();
    let predictions: Vec<Option<Prediction>> = answers.into_iter().map(Result::ok).collect();
    let published = Published::embedded().map_err(Diagnostic::unexpected)?;
    let known: BTreeSet<&str> =
        published.runs.iter().filter(|run| !run.is_recent()).map(|run| run.source.as_str()).collect();
    let own_sources: BTreeSet<&str> = own.runs.runs.iter().map(|run| run.source.as_str()).collect();
    let fitted_sources: Vec<String> = own_sources.intersection(&known).map(|source| (*source).to_owned()).collect();
    let scored = OwnScores {
        scores: &Scores::new(&own.runs, &predictions),
        unanswered: &unanswered,
        fitted_sources: &fitted_sources,
        constants_version: &Fitted::embedded().version,
    };
    let by = grouping(by);
    match session.output {
        OutputFormat::Table => session.printer.data(&accuracy_cases::text(&scored, by, session.width)),
        OutputFormat::Json => session.printer.data(&accuracy_cases::json(&scored, session.now)),
        OutputFormat::Csv => session.printer.data(&report::csv(scored.scores, by)),
    }
}

fn grouping(by: AccuracyGrouping) -> ErrorGroup {
    match by {
        AccuracyGrouping::Table => ErrorGroup::Table,
        AccuracyGrouping::Source => ErrorGroup::Source,
        AccuracyGrouping::Group => ErrorGroup::Group,
        AccuracyGrouping::Family => ErrorGroup::Family,
        AccuracyGrouping::Gpu => ErrorGroup::Gpu,
        AccuracyGrouping::Regime => ErrorGroup::Regime,
    }
}
