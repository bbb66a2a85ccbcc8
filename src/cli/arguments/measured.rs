//! Measurements that correct the estimate, on the command line.

use std::path::PathBuf;

use clap::Args;

/// What was measured and corrects the estimate.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Measured")]
pub struct MeasuredArguments {
    /// Use this calibration of `gpuplan bench`, or none [default: all that bench has kept]
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Use this profile of the run itself, made by `gpuplan profile`
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Ignore your own runs: how long they took (`gpuplan accuracy --mine` shows it), and where their spot machines were refused or lost
    #[arg(long)]
    pub no_history: bool,
}
