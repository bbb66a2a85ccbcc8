//! Arguments that every command takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    #[default]
    Table,
    Json,
    Csv,
}

/// What `--output` takes; `markdown` is for commands whose answers end up in pages and comments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputWord {
    #[default]
    Table,
    Json,
    Csv,
    Markdown,
}

/// When the answer is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Args)]
pub struct GlobalArguments {
    /// Print a table for people, or JSON or CSV for programs; budget and diff also print markdown
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub output: OutputWord,
    /// Print no notes, warnings or progress: only the answer and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also say which files and prices are used, and how long it took
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Colour the answer: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Never touch the network
    #[arg(long, global = true, env = "GPUPLAN_OFFLINE", value_parser = clap::builder::FalseyValueParser::new())]
    pub offline: bool,
    /// Read the catalog from this folder instead of the embedded one
    #[arg(long, global = true, env = "GPUPLAN_CATALOG_DIR", value_name = "DIR", hide_short_help = true)]
    pub catalog_dir: Option<PathBuf>,
    /// Fix the clock of a pure command
    #[arg(long, global = true, hide = true, value_name = "TIME")]
    pub now: Option<String>,
    /// Fix every draw
    #[arg(long, global = true, hide = true, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// How much is said beside the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    Quiet,
    #[default]
    Usual,
    Verbose,
}

impl GlobalArguments {
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (_, true) => Verbosity::Verbose,
            _ => Verbosity::Usual,
        }
    }
}
