//! Arguments of `plan`.

use crate::arguments::question::QuestionArguments;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Repeat the plan in this file from its own inputs, or say which of them no longer exist
    #[arg(long, value_name = "PLAN.json", conflicts_with = "file")]
    pub locked: Option<PathBuf>,
    /// Price what this job requests, and show what would be cheaper or faster: a Slurm script, a SkyPilot task, a Kubernetes Job
    #[arg(long, value_name = "JOB", conflicts_with = "locked")]
    pub from: Option<PathBuf>,
    /// Show at most this many rows of each table
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub max_results: usize,
}
