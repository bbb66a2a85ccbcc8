//! Hands a plan to an engine that people already run: plan in, text out. One file a target, one a framework.

pub mod accelerate;
pub mod deepspeed;
pub mod dstack;
pub mod framework;
pub mod job;
pub mod jobset;
pub mod kubernetes;
pub mod kueue;
pub mod lightning;
pub mod machine;
pub mod megatron;
pub mod network;
pub mod plain;
pub mod pod;
pub mod ray;
pub mod script;
pub mod skypilot;
pub mod slurm;
pub mod terraform;
pub mod torchrun;
pub mod torchtitan;
pub mod trainer;
pub mod yaml;

pub use framework::Framework;
pub use job::{Job, Planned, Wishes};

use std::fmt;
use std::str::FromStr;

/// What a plan can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Torchrun,
    Accelerate,
    Deepspeed,
    Slurm,
    Kubernetes,
    Jobset,
    Kueue,
    Skypilot,
    Dstack,
    Ray,
    Terraform,
}

/// Why a plan cannot be written so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("`{0}` is no target; choose among {all}", all = Target::words().join(", "))]
    UnknownTarget(String),
    #[error("`{0}` is no framework that is known here; choose among {all}", all = Framework::words().join(", "))]
    UnknownFramework(String),
    #[error("the plan cannot be read: {0}")]
    Plan(String),
    #[error("{framework} cannot be told the layout {layout}: {why}")]
    Layout { framework: &'static str, layout: String, why: &'static str },
    #[error("the name `{name}` does not do for {target}: {rule}")]
    Name { name: String, target: Target, rule: &'static str },
    #[error("{target} {why}")]
    Unfit { target: Target, why: String },
    #[error("a sweep of {runs} runs is no single job; what starts it is `gpuplan launch`")]
    Sweep { runs: u64 },
}

impl Target {
    pub const ALL: [Self; 11] = [
        Self::Torchrun,
        Self::Accelerate,
        Self::Deepspeed,
        Self::Slurm,
        Self::Kubernetes,
        Self::Jobset,
        Self::Kueue,
        Self::Skypilot,
        Self::Dstack,
        Self::Ray,
        Self::Terraform,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Torchrun => "torchrun",
            Self::Accelerate => "accelerate",
            Self::Deepspeed => "deepspeed",
            Self::Slurm => "slurm",
            Self::Kubernetes => "kubernetes",
            Self::Jobset => "jobset",
            Self::Kueue => "kueue",
            Self::Skypilot => "skypilot",
            Self::Dstack => "dstack",
            Self::Ray => "ray",
            Self::Terraform => "terraform",
        }
    }

    pub fn words() -> Vec<&'static str> {
        Self::ALL.map(Self::word).to_vec()
    }

    /// Whether it runs something; else it is a configuration that a job reads.
    pub fn is_job(self) -> bool {
        !matches!(self, Self::Accelerate | Self::Deepspeed)
    }

    /// Whether it starts a job on fewer machines than were asked for, by itself.
    pub fn is_elastic(self) -> bool {
        matches!(self, Self::Slurm | Self::Torchrun)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Target {
    type Err = ExportError;

    fn from_str(text: &str) -> Result<Self, ExportError> {
        Self::ALL
            .into_iter()
            .find(|target| target.word() == text)
            .ok_or_else(|| ExportError::UnknownTarget(text.to_owned()))
    }
}

/// The file that the engine reads.
pub fn export(target: Target, job: &Job) -> Result<String, ExportError> {
    if job.nodes_at_least.is_some() && !target.is_elastic() {
        let why = "starts all machines of a job or none: leave out --min-nodes, or export to slurm or torchrun";
        return Err(ExportError::Unfit { target, why: why.to_owned() });
    }
    match target {
        Target::Torchrun => torchrun::text(job),
        Target::Accelerate => accelerate::text(job),
        Target::Deepspeed => deepspeed::text(job),
        Target::Slurm => slurm::text(job),
        Target::Kubernetes => kubernetes::text(job),
        Target::Jobset => jobset::text(job),
        Target::Kueue => kueue::text(job),
        Target::Skypilot => skypilot::text(job),
        Target::Dstack => dstack::text(job),
        Target::Ray => ray::text(job),
        Target::Terraform => terraform::text(job),
    }
}
