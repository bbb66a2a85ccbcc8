//! `Target`: what a plan can be written for; below it one file a target.

pub mod attached;
pub mod dstack;
pub mod jobset;
pub mod kubernetes;
pub mod kueue;
pub mod labels;
pub mod pod;
pub mod ray;
pub mod skypilot;
pub mod slurm;
pub mod terraform;
pub mod torchrun;

use std::fmt;

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
    Axolotl,
    LlamaFactory,
    Trl,
    Vllm,
    Sglang,
    Leaderworkerset,
    Kserve,
    LlmD,
    Dynamo,
}

impl Target {
    pub const ALL: [Self; 20] = [
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
        Self::Axolotl,
        Self::LlamaFactory,
        Self::Trl,
        Self::Vllm,
        Self::Sglang,
        Self::Leaderworkerset,
        Self::Kserve,
        Self::LlmD,
        Self::Dynamo,
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
            Self::Axolotl => "axolotl",
            Self::LlamaFactory => "llama-factory",
            Self::Trl => "trl",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Leaderworkerset => "leaderworkerset",
            Self::Kserve => "kserve",
            Self::LlmD => "llm-d",
            Self::Dynamo => "dynamo",
        }
    }

    pub fn words() -> Vec<&'static str> {
        Self::ALL.map(Self::word).to_vec()
    }

    /// Whether it runs something; else it is a configuration that a job reads.
    pub fn is_job(self) -> bool {
        !matches!(self, Self::Accelerate | Self::Deepspeed | Self::Axolotl | Self::LlamaFactory | Self::Trl)
    }

    /// Whether it deals out the runs of a sweep.
    pub fn queues(self) -> bool {
        matches!(self, Self::Slurm | Self::Kubernetes | Self::Kueue | Self::Skypilot | Self::Ray)
    }

    /// Whether it is written for models that answer requests.
    pub fn serves(self) -> bool {
        matches!(
            self,
            Self::Vllm
                | Self::Sglang
                | Self::Kubernetes
                | Self::Leaderworkerset
                | Self::Kserve
                | Self::LlmD
                | Self::Dynamo
        )
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
