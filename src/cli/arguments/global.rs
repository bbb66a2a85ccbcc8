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

#[derive(Debug, Args)]
pub struct GlobalArguments {
    /// Print a table for people, or JSON or CSV for programs; budget and diff also print markdown
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub output: OutputWord,
    /// Never touch the network
    #[arg(long, global = true, env = "GPUPLAN_OFFLINE", value_parser = clap::builder::FalseyValueParser::new())]
    pub offline: bool,
    /// Read the catalog from this folder instead of the embedded one
    #[arg(long, global = true, env = "GPUPLAN_CATALOG_DIR", value_name = "DIR")]
    pub catalog_dir: Option<PathBuf>,
    /// Fix the clock of a pure command
    #[arg(long, global = true, hide = true, value_name = "TIME")]
    pub now: Option<String>,
    /// Fix every draw
    #[arg(long, global = true, hide = true, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}
