//! Arguments of `plan`.

use crate::arguments::question::QuestionArguments;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Repeat the plan in this file from its own inputs, or say which of them no longer exist
    #[arg(long, value_name = "PLAN.json", conflicts_with = "file", help_heading = "Options")]
    pub locked: Option<PathBuf>,
    /// Price what this job requests, and show what would be cheaper or faster: a script of Slurm or a shell, a SkyPilot task, Kubernetes
    /// objects, or the configuration of a training program
    #[arg(long, value_name = "JOB", conflicts_with = "locked", help_heading = "Options")]
    pub from: Option<PathBuf>,
    /// Count what is read of every job file in the folder that --from names, by kind, and plan nothing
    #[arg(long, requires = "from", help_heading = "Options")]
    pub summary: bool,
    /// State on how many machines the job runs, where it leaves that to whoever starts it
    #[arg(long, value_name = "N", requires = "from", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Options")]
    pub nodes: Option<u32>,
    /// Show everything: bill, layout, reasons, every plan that is cheaper or faster, what was rejected
    #[arg(long, help_heading = "Options")]
    pub details: bool,
    /// Show at most this many rows of each table
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Options")]
    pub max_results: usize,
}
