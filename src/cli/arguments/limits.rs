//! What a plan must keep to, on the command line.

use clap::Args;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitsArguments {
    /// End by then: 36h, 5d, 2026-12-24
    #[arg(long)]
    pub deadline: Option<String>,
    /// Spend no more than this
    #[arg(long)]
    pub budget: Option<String>,
    /// Keep deadline and budget with this probability (0.9)
    #[arg(long, value_name = "SHARE")]
    pub confidence: Option<String>,
    /// Pay at most this many dollars an hour for all machines together
    #[arg(long, value_name = "USD")]
    pub max_price: Option<String>,
    #[command(flatten)]
    pub places: PlaceArguments,
    /// Use only these GPUs: H100:8, A100:80GB:1..16, 24GB+, L4:1/4 (repeat for several)
    #[arg(short, long = "gpus", visible_alias = "gpu", value_name = "GPUS")]
    pub gpus: Vec<String>,
    /// Use only parts of a GPU (slices, virtual GPUs), of at most this share: 1/4
    #[arg(long)]
    pub share: Option<String>,
    /// Prefer the lowest cost, the shortest time, or both: cost, time or balanced
    #[arg(long)]
    pub objective: Option<String>,
    /// Compare plans by cost and time together: the dollars that an hour sooner is worth
    #[arg(long, value_name = "USD")]
    pub value_of_time: Option<String>,
    #[command(flatten)]
    pub terms: TermArguments,
    /// Use at most this many machines (64)
    #[arg(long, visible_alias = "num-nodes", value_name = "N")]
    pub max_nodes: Option<u32>,
    /// Also recommend offers whose price or place is doubtful
    #[arg(long)]
    pub include_suspect: bool,
    /// Also join machines over a network that GPUs cannot use directly
    #[arg(long)]
    pub allow_slow_network: bool,
}

/// Where machines may be.
#[derive(Debug, Default, Args)]
pub struct PlaceArguments {
    /// Use only this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD", value_delimiter = ',')]
    pub clouds: Vec<String>,
    /// Use only this region, zone id or prefix of one (repeat for several)
    #[arg(long = "region", value_name = "REGION", value_delimiter = ',')]
    pub regions: Vec<String>,
    /// Use only this cloud and region, written as cloud[/region]
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["clouds", "regions"])]
    pub infra: Option<String>,
}

/// On what terms machines may be rented.
#[derive(Debug, Default, Args)]
pub struct TermArguments {
    /// Choose the terms: any, on-demand, spot, spot-with-fallback, commitment, capacity-block, calendar or flex-start
    #[arg(long)]
    pub purchase: Option<String>,
    /// Use spot machines only
    #[arg(long, visible_alias = "use-spot", conflicts_with_all = ["purchase", "on_demand"])]
    pub spot: bool,
    /// Use on-demand machines only
    #[arg(long, conflicts_with = "purchase")]
    pub on_demand: bool,
}
