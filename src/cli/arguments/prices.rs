//! Which prices a plan may rest on.

use std::path::PathBuf;

use clap::Args;

/// Which prices a plan may rest on.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Prices")]
pub struct PriceArguments {
    /// Ask the clouds now; what does not answer keeps its last known price, with its age
    #[arg(long)]
    pub live: bool,
    /// With --live, do not ask again what answered less than this ago: 10m, 6h
    #[arg(long, value_name = "TIME", requires = "live")]
    pub max_age: Option<String>,
    /// Also recommend offers whose price is stale
    #[arg(long)]
    pub accept_stale_prices: bool,
    /// Discounts, commitments and own machines [default: capacity.toml in the settings folder, if it is there]
    #[arg(long, value_name = "FILE", env = "GPUPLAN_CAPACITY")]
    pub capacity: Option<PathBuf>,
    /// Rules of the house [default: policy.toml in the settings folder, if it is there]
    #[arg(long, value_name = "FILE", env = "GPUPLAN_POLICY")]
    pub policy: Option<PathBuf>,
}
