//! Arguments of `plan`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::limits::LimitsArguments;
use crate::arguments::measured::MeasuredArguments;
use crate::arguments::prices::PriceArguments;
use crate::arguments::workload::WorkloadArguments;

#[derive(Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub limits: LimitsArguments,
    #[command(flatten)]
    pub prices: PriceArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// Repeat the plan in this file from its own inputs, or say what is gone
    #[arg(long, value_name = "PLAN.json", conflicts_with = "file")]
    pub locked: Option<PathBuf>,
    /// Price what this job asks for, and say what would be cheaper or faster: a Slurm script, a SkyPilot task, a Kubernetes Job
    #[arg(long, value_name = "JOB", conflicts_with = "locked")]
    pub from: Option<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub max_results: usize,
}
