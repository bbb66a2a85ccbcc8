//! Arguments of `launch`.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::limits::LimitsArguments;
use crate::arguments::measured::MeasuredArguments;
use crate::arguments::prices::PriceArguments;
use crate::arguments::workload::WorkloadArguments;
use gpuplan_launch::job::container;
use gpuplan_report::format::rate;

#[derive(Debug, Args)]
pub struct LaunchArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub limits: LimitsArguments,
    #[command(flatten)]
    pub prices: PriceArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// The plan to launch, by its id [default: the recommended one]
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// Name of the run [default: the workload's name and the time]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Where checkpoints are kept: s3://bucket/prefix on AWS, gs://bucket/prefix on Google Cloud
    #[arg(long, value_name = "URI")]
    pub store: Option<String>,
    /// No machine lives longer than this
    #[arg(long, value_name = "TIME")]
    pub lifetime: Option<String>,
    #[command(flatten)]
    pub delivery: DeliveryArguments,
    #[command(flatten)]
    pub on: OnArguments,
    /// A tag on everything rented
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tags: Vec<String>,
    /// What goes wrong at the fake cloud: default, calm, no-notice, quota, sold-out, or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub fake_scenario: Option<String>,
    /// Show what would be rented and end
    #[arg(long)]
    pub dry_run: bool,
    /// Ask for spot machines in all zones of a region at once, and let the cloud choose [AWS: CreateFleet, price-capacity-optimized]
    #[arg(long)]
    pub any_zone: bool,
    /// Buy the capacity block that the plan stands on: paid up front, used or not [AWS, with --purchase capacity-block]
    #[arg(long)]
    pub buy_capacity_block: bool,
    /// Let the cloud start the next machine when one is taken, so that nobody has to lead the run [AWS, spot, one machine]
    #[arg(long, value_name = "GROUP")]
    pub keep_alive: Option<KeepAlive>,
    /// Lead the run in the background
    #[arg(long)]
    pub detach: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// The training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct DeliveryArguments {
    /// Folder to take along, without what git ignores; the command runs in it
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Run once on each new machine, in that folder, before the command
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// A variable of the command; can be read by whoever may describe the machine
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub environment: Vec<String>,
    /// A secret of the cloud's own store, as a variable; the machine asks for it itself
    #[arg(long = "secret", value_name = "[VARIABLE=]NAME")]
    pub secrets: Vec<String>,
    /// Machine image, by the cloud's own name; docker://IMAGE is the same as --container [default: the cloud's own with GPU drivers]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Run the command, and --setup, in a container of this image
    #[arg(long, value_name = "IMAGE")]
    pub container: Option<String>,
    /// The program for the machines: a file, or an address with '#sha256=...' [default: gpuplan-agent beside this program]
    #[arg(long, value_name = "PATH|URL")]
    pub agent: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "On a cluster of your own")]
pub struct OnArguments {
    /// Hand the run to an engine instead of renting: slurm, kubernetes or skypilot, by its own client
    #[arg(long, value_name = "ENGINE", conflicts_with_all = [
        "any_zone", "keep_alive", "detach", "fake_scenario", "lifetime", "tags", "workdir", "setup", "environment", "secrets", "container", "agent",
    ])]
    pub on: Option<String>,
    /// An option of the engine's client, such as --on-option=--partition=gpu (repeat for several)
    #[arg(long = "on-option", value_name = "OPTION", requires = "on", allow_hyphen_values = true)]
    pub on_options: Vec<String>,
    /// What a machine of the cluster costs an hour; without it no money is counted
    #[arg(long, value_name = "USD", requires = "on")]
    pub rate: Option<String>,
    /// Start with so few machines too (slurm)
    #[arg(long, value_name = "N", requires = "on")]
    pub min_nodes: Option<u32>,
}

/// Who starts the next machine when one is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeepAlive {
    /// An EC2 Fleet of type `maintain` and size one: what an auto-scaling group of one would do, by EC2 alone, and with an end that
    /// EC2 keeps itself
    Fleet,
}
