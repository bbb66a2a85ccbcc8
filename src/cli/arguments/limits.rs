//! What a plan must keep to, on the command line.

use clap::Args;

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitsArguments {
    /// Must end by then: 36h, 5d, 2026-12-24
    #[arg(long)]
    pub deadline: Option<String>,
    /// Must cost no more than this
    #[arg(long)]
    pub budget: Option<String>,
    /// Certainty with which deadline and budget are kept (0.9)
    #[arg(long, value_name = "SHARE")]
    pub confidence: Option<String>,
    /// Most dollars an hour for all machines together
    #[arg(long, value_name = "USD")]
    pub max_price: Option<String>,
    /// Only this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// Only this region, zone id or prefix of one (repeat for several)
    #[arg(long = "region", value_name = "REGION")]
    pub regions: Vec<String>,
    /// cloud[/region] in one word
    #[arg(long, value_name = "PLACE")]
    pub infra: Option<String>,
    /// H100:8, A100:80GB:1..16, 24GB+ (repeat for several)
    #[arg(short, long = "gpus", visible_alias = "gpu", value_name = "GPUS")]
    pub gpus: Vec<String>,
    /// cost, time or balanced
    #[arg(long)]
    pub objective: Option<String>,
    /// Dollars that an hour sooner is worth: plans are compared by cost and time together
    #[arg(long, value_name = "USD")]
    pub value_of_time: Option<String>,
    /// any, on-demand, spot, spot-with-fallback, commitment or capacity-block
    #[arg(long)]
    pub purchase: Option<String>,
    /// Only spot
    #[arg(long, visible_alias = "use-spot", conflicts_with_all = ["purchase", "on_demand"])]
    pub spot: bool,
    /// Only on-demand
    #[arg(long, conflicts_with = "purchase")]
    pub on_demand: bool,
    /// Most machines (64)
    #[arg(long, visible_alias = "num-nodes", value_name = "N")]
    pub max_nodes: Option<u32>,
    /// Also recommend offers whose price or place is doubtful
    #[arg(long)]
    pub include_suspect: bool,
    /// Also join machines over a network that GPUs cannot use directly
    #[arg(long)]
    pub allow_slow_network: bool,
}
