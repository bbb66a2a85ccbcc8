//! Arguments of `launch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::arguments::question::QuestionArguments;
use crate::running::agent::arguments::duration;
use crate::running::launch::agent_options::AgentOptions;
use gpuplan_clouds::{aws, gcp};

#[derive(Debug, Args)]
pub struct LaunchArguments {
    #[command(flatten)]
    pub question: QuestionArguments,
    /// Launch the plan with this id [default: the recommended one]
    #[arg(long, value_name = "ID")]
    pub plan: Option<String>,
    /// Name the run [default: the workload's name and the time]
    #[arg(long, value_name = "NAME")]
    pub run: Option<String>,
    /// Keep checkpoints here: s3://bucket/prefix on AWS, gs://bucket/prefix on Google Cloud
    #[arg(long, value_name = "URI")]
    pub store: Option<String>,
    #[command(flatten)]
    pub machines: MachineArguments,
    #[command(flatten)]
    pub delivery: DeliveryArguments,
    #[command(flatten)]
    pub on: OnArguments,
    /// Choose what goes wrong at the fake cloud: default, calm, no-notice, quota, sold-out, or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub fake_scenario: Option<String>,
    /// Show what would be rented, and rent nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Lead the run although another process or machine does, which then stops leading
    #[arg(long)]
    pub take_over: bool,
    /// Lead the run in the background
    #[arg(long)]
    pub detach: bool,
    /// Let a small machine of the same cloud lead the run, so that this computer can be switched off
    #[arg(long, value_name = "CLOUD", conflicts_with_all = ["keep_alive", "detach", "take_over"])]
    pub leader: Option<Leader>,
    /// Skip the confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// Run this training command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Which machines are rented, and for how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Machines")]
pub struct MachineArguments {
    /// Terminate every machine after this time
    #[arg(long, value_name = "TIME")]
    pub lifetime: Option<String>,
    /// Put this tag on everything rented (repeat for several)
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub tags: Vec<String>,
    /// Request spot machines in all zones of a region at once, and let the cloud choose [AWS: CreateFleet, price-capacity-optimized]
    #[arg(long)]
    pub any_zone: bool,
    /// Buy the time that the plan needs, paid used or not [AWS with --purchase capacity-block, Google Cloud with calendar]
    #[arg(long)]
    pub buy_capacity_block: bool,
    /// Let the cloud replace a machine that is interrupted, so that nobody has to lead the run [AWS: fleet; Google Cloud: group; spot, one machine]
    #[arg(long, value_name = "GROUP")]
    pub keep_alive: Option<KeepAlive>,
    /// Keep the machine this long once the run is completed, for the next launch, which takes it over [one machine]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["keep_alive", "leader", "buy_capacity_block"])]
    pub keep_warm: Option<Duration>,
    /// Rent a new machine even where one of an earlier run is kept warm
    #[arg(long)]
    pub fresh: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What the machines get")]
pub struct DeliveryArguments {
    /// Upload this folder, without what git ignores, and run the command in it
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
    /// Run this once on each new machine, in that folder, before the command
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// Set a variable of the command; anyone who may describe the machine can read it (repeat for several)
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub environment: Vec<String>,
    /// Set a variable to a secret of the cloud's own secret store, which the machine fetches itself
    #[arg(long = "secret", value_name = "[VARIABLE=]NAME")]
    pub secrets: Vec<String>,
    /// Boot this machine image, by the cloud's own name; docker://IMAGE is the same as --container [default: the cloud's own with GPU drivers]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Run the command, and --setup, in a container of this image
    #[arg(long, value_name = "IMAGE")]
    pub container: Option<String>,
    /// Sign in to the registry of that image with this secret, USER:PASSWORD, which the machine fetches itself [default: by the machine's own identity,
    /// where the registry is one of its cloud]
    #[arg(long, value_name = "SECRET")]
    pub container_login: Option<String>,
    /// Run this agent on the machines: a file, or an address with '#sha256=...' [default: gpuplan-agent next to this program]
    #[arg(long, value_name = "PATH|URL")]
    pub agent: Option<String>,
    #[command(flatten)]
    pub agents: AgentOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "On a cluster of your own")]
pub struct OnArguments {
    /// Submit the run to an engine instead of renting: slurm, kubernetes or skypilot, with its own client
    #[arg(long, value_name = "ENGINE", conflicts_with_all = [
        "any_zone", "keep_alive", "keep_warm", "fresh", "detach", "leader", "fake_scenario", "lifetime", "tags", "workdir", "setup", "environment", "secrets", "container", "container_login", "agent",
        "notify", "stall", "on_stall", "keep_every", "keep_last", "checkpoint_framework", "checkpoints", "grace",
        "signal",
    ])]
    pub on: Option<String>,
    /// Pass an option to the engine's client, such as --on-option=--partition=gpu (repeat for several)
    #[arg(long = "on-option", value_name = "OPTION", requires = "on", allow_hyphen_values = true)]
    pub on_options: Vec<String>,
    /// State what a machine of the cluster costs an hour; without it no cost is counted
    #[arg(long, value_name = "USD", requires = "on")]
    pub rate: Option<String>,
    /// Start with at least this many machines (slurm)
    #[arg(long, value_name = "N", requires = "on")]
    pub min_nodes: Option<u32>,
}

/// Where the machine is rented that leads a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Leader {
    /// A t3.small with the role `gpuplan-leader`
    Aws,
    /// An e2-small with the account `gpuplan-leader`
    Gcp,
    /// A process on this machine
    Fake,
}

/// Who starts the next machine when one is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeepAlive {
    /// Use an EC2 Fleet of type `maintain` and size one: what an auto-scaling group of one would do, by EC2 alone, and with an end that
    /// EC2 keeps itself
    Fleet,
    /// Use a managed instance group of Google Cloud of size one, whose machines all end at one time
    Group,
}

impl KeepAlive {
    /// The cloud that has it.
    pub fn cloud(self) -> &'static str {
        match self {
            Self::Fleet => aws::CLOUD,
            Self::Group => gcp::CLOUD,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Group => "group",
        }
    }
}
