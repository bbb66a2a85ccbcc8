//! Command line as it is typed. Nothing is worked out here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::accuracy::AccuracyArguments;
use crate::agent::AgentArguments;
use crate::bench::BenchArguments;
use crate::budget::BudgetArguments;
use crate::calibrations::MeasuredArguments;
use crate::costs::CostsArguments;
use crate::diff::DiffArguments;
use crate::ending::{DownArguments, GcArguments, StopArguments};
use crate::explain::ExplainArguments;
use crate::export::ExportArguments;
use crate::launch::LaunchArguments;
use crate::launch::adopt::AdoptArguments;
use crate::launch::leading::{ResumeArguments, WatchArguments};
use crate::profile::ProfileCommand;
use crate::report::ReportArguments;
use crate::runs::{FetchArguments, LogsArguments, SshArguments, StatusArguments};
use crate::snapshot::{CatalogRefreshArguments, ImportArguments};

/// Which cloud GPUs to rent for a run, how many, where, on what terms and with which layout; what it costs and when it ends.
#[derive(Debug, Parser)]
#[command(name = "gpuplan", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    #[default]
    Table,
    Json,
    Csv,
}

/// What `--output` takes; `markdown` is for commands whose answers end up in pages and comments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputWord {
    #[default]
    Table,
    Json,
    Csv,
    Markdown,
}

#[derive(Debug, Args)]
pub struct GlobalArguments {
    /// How to print: a table for people, JSON or CSV for programs; budget and diff also take markdown
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub output: OutputWord,
    /// Never touch the network
    #[arg(long, global = true, env = "GPUPLAN_OFFLINE", value_parser = clap::builder::FalseyValueParser::new())]
    pub offline: bool,
    /// Use the catalog files of this folder instead of the embedded ones
    #[arg(long, global = true, env = "GPUPLAN_CATALOG_DIR", value_name = "DIR")]
    pub catalog_dir: Option<PathBuf>,
    /// Fix the clock of a pure command
    #[arg(long, global = true, hide = true, value_name = "TIME")]
    pub now: Option<String>,
    /// Fix every draw
    #[arg(long, global = true, hide = true, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Recommend GPUs, count, place, terms and layout for a workload
    Plan(Box<PlanArguments>),
    /// Show one candidate in full, why it lost and what would change the answer
    Explain(Box<ExplainArguments>),
    /// What many runs cost by month and team, with what probability, and what moves it
    Budget(Box<BudgetArguments>),
    /// What changed between two plans, budgets or price lists, and why
    Diff(DiffArguments),
    /// Memory and step time of a workload on given GPUs, or of many cases
    Estimate(Box<EstimateArguments>),
    /// How wrong the estimate is on published runs, and other estimators beside it
    Accuracy(AccuracyArguments),
    /// Measure this machine's GPU with the shapes of a workload, so that plans rest on it
    Bench(Box<BenchArguments>),
    /// Measure a run as it is, or read a profiler's trace: step time, what the GPU waits for, what to mend
    Profile {
        #[command(subcommand)]
        what: ProfileCommand,
    },
    /// List offers with price, origin and age
    Prices(PricesArguments),
    /// Ask every cloud for its prices of now and keep the answers
    Refresh(RefreshArguments),
    /// Which credentials are found, what they may do, and which quotas would block the plan
    Doctor(Box<DoctorArguments>),
    /// What a launch needs in an account, as Terraform: print it, apply it or remove it
    Setup(SetupArguments),
    /// Replay spot policies on availability traces
    Simulate(SimulateArguments),
    /// Write a plan as a file for Slurm, Kubernetes, SkyPilot and other engines, which keep the run alive
    Export(Box<ExportArguments>),
    /// Write a plan or a run as one page to hand on, with charts, risks, assumptions and sources
    Report(Box<ReportArguments>),
    /// Rent the recommended machines and lead the run to its end
    Launch(Box<LaunchArguments>),
    /// Lead a run again that was left
    Watch(WatchArguments),
    /// Take over a run of which no journal is here, from its store and the marks on its machines
    Adopt(AdoptArguments),
    /// Go on with a run that was stopped, failed or refused, from its newest checkpoint
    Resume(ResumeArguments),
    /// What runs, where, and what it has cost
    Status(StatusArguments),
    /// What runs have cost, how much of it was wasted, and what the clouds' bills say of it
    Costs(Box<CostsArguments>),
    /// What the program of a run has said so far
    Logs(LogsArguments),
    /// Bring the newest checkpoint of a run here
    Fetch(FetchArguments),
    /// A shell on a machine of a run
    Ssh(SshArguments),
    /// End every machine of a run; what it saved stays
    Stop(StopArguments),
    /// End every machine of a run and delete what it saved
    Down(DownArguments),
    /// Find machines that no run knows any more, and end them
    Gc(GcArguments),
    /// Run a training command so that nothing is lost: restore, save away, answer notices, resume
    Agent(Box<AgentArguments>),
    /// Look into the catalog, or check it
    Catalog {
        #[command(subcommand)]
        what: CatalogCommand,
    },
    /// Print a completion script for a shell
    Completions { shell: Shell },
    /// Print the manual page, or write one a command into a folder
    Man {
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

/// A workload as a file, as flags, or as a file with flags laid over it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Workload (each replaces the file's own value)")]
pub struct WorkloadArguments {
    /// Workload file (TOML), or a plan (JSON) whose question is asked again
    pub file: Option<PathBuf>,
    /// This one of the file's `[[phase]]`s, as a workload of its own
    #[arg(long, value_name = "NAME", requires = "file")]
    pub phase: Option<String>,
    /// Named model, such as llama-3.1-8b (see `gpuplan catalog models`)
    #[arg(short, long)]
    pub model: Option<String>,
    /// Hugging Face config.json of the model
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// model.safetensors.index.json beside the config, for the exact size
    #[arg(long, value_name = "FILE")]
    pub index: Option<PathBuf>,
    /// pretrain, full-fine-tune, lora, qlora or train
    #[arg(long)]
    pub task: Option<String>,
    /// Tokens to train on, such as 300B
    #[arg(long)]
    pub tokens: Option<String>,
    /// Samples (sequences, images) to train on
    #[arg(long)]
    pub samples: Option<String>,
    /// Passes over the data set
    #[arg(long)]
    pub epochs: Option<String>,
    /// Optimizer steps
    #[arg(long)]
    pub steps: Option<String>,
    /// Tokens in a sequence, or the image side
    #[arg(long, value_name = "N")]
    pub sequence_length: Option<String>,
    /// Sequences in an optimizer step
    #[arg(long, value_name = "N")]
    pub global_batch: Option<String>,
    /// Tokens in an optimizer step, such as 4M
    #[arg(long, value_name = "N")]
    pub global_batch_tokens: Option<String>,
    /// Sequences of one GPU in one pass
    #[arg(long, value_name = "N")]
    pub micro_batch: Option<String>,
    /// fp32, tf32, fp16, amp-fp16, bf16, pure-bf16, fp8, mxfp8 or nvfp4
    #[arg(long)]
    pub precision: Option<String>,
    /// adamw, adamw-bf16, adamw-8bit, adamw-paged, lamb, sgd ...
    #[arg(long)]
    pub optimizer: Option<String>,
    /// fsdp, megatron, hf-trainer, litgpt, torchtune, pytorch-eager ...
    #[arg(long)]
    pub framework: Option<String>,
    /// none, selective, full or offload
    #[arg(long)]
    pub recompute: Option<String>,
    /// flash or eager
    #[arg(long)]
    pub attention: Option<String>,
    /// The model is compiled
    #[arg(long)]
    pub compile: bool,
    /// Micro-steps of an optimizer step
    #[arg(long, value_name = "N")]
    pub grad_accumulation: Option<String>,
    /// Storage of a frozen base: nf4, nf4-dq, int8 or int4
    #[arg(long, value_name = "FORMAT")]
    pub base_weights: Option<String>,
    /// fp32, bf16-chunked, chunked, compiled or hf-upcast
    #[arg(long)]
    pub loss: Option<String>,
    /// parameters or activations, kept on the host
    #[arg(long)]
    pub offload: Option<String>,
    /// Rank of the adapters
    #[arg(long, value_name = "N")]
    pub lora_rank: Option<String>,
    /// Matrices with adapters: q,v or all-linear
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub lora_targets: Vec<String>,
    /// Size of the data set, such as 1.2TB
    #[arg(long, value_name = "SIZE")]
    pub data_size: Option<String>,
    /// Where the data lies: cloud/region
    #[arg(long, value_name = "PLACE")]
    pub data_place: Option<String>,
    /// Samples in the data set
    #[arg(long, value_name = "N")]
    pub data_samples: Option<String>,
    /// What samples are: jpeg, webp, raw, text, tokens, audio, video
    #[arg(long, value_name = "KIND")]
    pub data_kind: Option<String>,
    /// Host CPU time to load and decode one sample
    #[arg(long, value_name = "SECONDS")]
    pub cpu_seconds_per_sample: Option<String>,
    /// Size of a checkpoint, such as 110GB
    #[arg(long, value_name = "SIZE")]
    pub checkpoint_size: Option<String>,
    /// Checkpoint interval, such as 30m, or choose
    #[arg(long, value_name = "TIME")]
    pub checkpoint_interval: Option<String>,
}

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

#[derive(Debug, Args)]
pub struct RefreshArguments {
    /// Only this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// The prices of the last 90 days as well, where the cloud tells them: many questions more
    #[arg(long)]
    pub history: bool,
    /// Do not ask again what answered less than this ago: 10m, 6h
    #[arg(long, value_name = "TIME")]
    pub max_age: Option<String>,
}

#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub limits: LimitsArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SetupCloud {
    Aws,
    Gcp,
}

#[derive(Debug, Args)]
pub struct SetupArguments {
    pub cloud: SetupCloud,
    /// Print the Terraform file and do nothing
    #[arg(long, conflicts_with_all = ["remove", "yes"])]
    pub print: bool,
    /// Remove what was set up from here
    #[arg(long)]
    pub remove: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Region of the bucket
    #[arg(long)]
    pub region: Option<String>,
    /// Project (Google Cloud)
    #[arg(long)]
    pub project: Option<String>,
    /// Beginning of every name
    #[arg(long)]
    pub name: Option<String>,
}

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

#[derive(Debug, Args)]
pub struct EstimateArguments {
    #[command(flatten)]
    pub workload: WorkloadArguments,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    /// GPU and count, such as H100:8
    #[arg(short, long = "gpus", visible_alias = "gpu", value_name = "GPUS")]
    pub gpus: Option<String>,
    /// File of cases, one JSON object a line (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "gpus"])]
    pub cases: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PricesArguments {
    /// GPU and count, such as H100:8; none: every GPU
    pub gpus: Option<String>,
    /// Only this cloud (repeat for several)
    #[arg(long = "cloud", value_name = "CLOUD")]
    pub clouds: Vec<String>,
    /// Only this region, zone id or prefix of one
    #[arg(long = "region", value_name = "REGION")]
    pub regions: Vec<String>,
    /// Only spot
    #[arg(long, visible_alias = "use-spot", conflicts_with = "on_demand")]
    pub spot: bool,
    /// Only on-demand
    #[arg(long)]
    pub on_demand: bool,
    /// Also one- and three-year commitments
    #[arg(long)]
    pub commitments: bool,
    /// Only offers without a suspicion
    #[arg(long)]
    pub trusted: bool,
    /// Ask the clouds for their prices of now; what does not answer keeps its old price
    #[arg(long)]
    pub live: bool,
    /// With --live, do not ask again what answered less than this ago: 10m, 6h
    #[arg(long, value_name = "TIME", requires = "live")]
    pub max_age: Option<String>,
    /// What spot prices did in the last 90 days, as far as the cache knows; the cheapest pools of now first
    #[arg(long, conflicts_with_all = ["on_demand", "commitments"])]
    pub history: bool,
    /// Machines without GPU instead
    #[arg(long, conflicts_with_all = ["gpus", "commitments", "live", "history"])]
    pub hosts: bool,
    /// Rows of the table (0: all)
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub max_results: usize,
}

#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// Traces: JSON lines, plain or gzip, or a file in the public spot-traces form (repeat for several)
    #[arg(long, value_name = "FILE", required = true)]
    pub traces: Vec<PathBuf>,
    /// File of cases, one JSON object a line (`-`: standard input)
    #[arg(long, value_name = "FILE", required_unless_present = "evaluate")]
    pub cases: Option<PathBuf>,
    /// Compare all policies on windows of the traces
    #[arg(long, conflicts_with = "cases")]
    pub evaluate: bool,
}

#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// GPUs with memory, peaks, links and evidence
    Gpus {
        /// Only those that match, such as A100 or 80GB+
        gpus: Option<String>,
        /// The GPUs of this machine instead, with their ids in the catalog
        #[arg(long, conflicts_with = "gpus")]
        here: bool,
    },
    /// Instance types with GPUs, CPUs, network and how they are sold
    Instances {
        gpus: Option<String>,
        #[arg(long = "cloud", value_name = "CLOUD")]
        clouds: Vec<String>,
    },
    /// Machines without GPU, which phases of kind `processing` run on
    Hosts {
        #[arg(long = "cloud", value_name = "CLOUD")]
        clouds: Vec<String>,
    },
    /// Named models
    Models {
        /// Only names that contain this
        name: Option<String>,
    },
    /// Check every row against the integrity rules
    Check,
    /// Write the price files of a catalog folder anew from the clouds' answers
    Refresh(CatalogRefreshArguments),
    /// Keep the prices of a SkyPilot or gpuhunt catalog file as your own
    Import(ImportArguments),
}
