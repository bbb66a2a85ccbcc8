//! Hands a plan to an engine that people already run: plan in, text out. One file a target, one a framework.

pub mod assumed;
pub mod error;
pub mod framework;
pub mod head;
pub mod job;
pub mod network;
pub mod script;
pub mod stated;
pub mod target;
pub mod yaml;

pub use error::ExportError;
pub use framework::Framework;
pub use job::{ExportOptions, Job};
pub use target::Target;

/// The file that the engine reads.
pub fn export(to: Target, job: &Job) -> Result<String, ExportError> {
    if job.nodes_at_least.is_some() && !to.is_elastic() {
        let why = "starts all machines of a job or none: drop --min-nodes, or export to slurm or torchrun";
        return Err(ExportError::Unfit { target: to, why: why.to_owned() });
    }
    match to {
        Target::Torchrun => target::torchrun::render(job),
        Target::Accelerate => framework::accelerate::render(job),
        Target::Deepspeed => framework::deepspeed::render(job),
        Target::Slurm => target::slurm::render(job),
        Target::Kubernetes => target::kubernetes::render(job),
        Target::Jobset => target::jobset::render(job),
        Target::Kueue => target::kueue::render(job),
        Target::Skypilot => target::skypilot::render(job),
        Target::Dstack => target::dstack::render(job),
        Target::Ray => target::ray::render(job),
        Target::Terraform => target::terraform::render(job),
    }
}
