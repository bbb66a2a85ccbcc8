//! Which prices a plan may rest on.

use std::path::PathBuf;

use clap::Args;

/// Which prices a plan may rest on.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Prices")]
pub struct PriceArguments {
    /// Fetch current prices from the clouds; a cloud that does not answer keeps its last known price, with its age
    #[arg(long)]
    pub live: bool,
    /// With --live, skip sources that answered less than this ago: 10m, 6h
    #[arg(long, value_name = "TIME", requires = "live")]
    pub max_age: Option<String>,
    /// Also recommend offers whose price is stale
    #[arg(long)]
    pub accept_stale_prices: bool,
    /// Read discounts, commitments and machines of your own from this file [default: capacity.toml in the settings folder, if it exists]
    #[arg(long, value_name = "FILE", env = "GPUPLAN_CAPACITY")]
    pub capacity: Option<PathBuf>,
    /// Keep to the rules in this file [default: policy.toml in the settings folder, if it exists]
    #[arg(long, value_name = "FILE", env = "GPUPLAN_POLICY")]
    pub policy: Option<PathBuf>,
}
