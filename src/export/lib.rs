//! Hands a plan to an engine that people already run: plan in, text out. One file a target, one a framework.

pub mod accelerate;
pub mod deepspeed;
pub mod dstack;
pub mod error;
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
pub mod target;
pub mod terraform;
pub mod told;
pub mod torchrun;
pub mod torchtitan;
pub mod trainer;
pub mod yaml;

pub use error::ExportError;
pub use framework::Framework;
pub use job::{Job, Planned, Wishes};
pub use target::Target;

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
