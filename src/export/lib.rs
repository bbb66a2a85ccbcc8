//! Hands a plan to an engine that people already run: plan in, text out. One file a target, one a framework.

pub mod assumed;
pub mod error;
pub mod framework;
pub mod head;
pub mod job;
pub mod network;
pub mod recipe;
pub mod script;
pub mod service;
pub mod stated;
pub mod swept;
pub mod target;
pub mod trained;
pub mod yaml;

pub use error::ExportError;
pub use framework::Framework;
pub use job::{ExportOptions, Job};
pub use service::Service;
pub use target::Target;

use gpuplan_workload::ServingEngine;

/// The file that the engine reads.
pub fn export(to: Target, job: &Job) -> Result<String, ExportError> {
    if job.nodes_at_least.is_some() && !to.is_elastic() {
        let why = "starts all machines of a job or none: drop --min-nodes, or export to slurm or torchrun";
        return Err(ExportError::Unfit { target: to, why: why.to_owned() });
    }
    if let Some(sweep) = job.sweep.as_ref().filter(|_| !to.queues()) {
        return Err(ExportError::Sweep { runs: sweep.runs });
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
        Target::Axolotl => recipe::axolotl::render(job),
        Target::LlamaFactory => recipe::llama_factory::render(job),
        Target::Trl => recipe::trl::render(job),
        Target::Vllm | Target::Sglang | Target::Leaderworkerset | Target::Kserve | Target::LlmD | Target::Dynamo => {
            let why = "serves a model, and this plan trains one: export to slurm, kubernetes or another".to_owned();
            Err(ExportError::Unfit { target: to, why })
        }
    }
}

/// The file that serves the plan.
pub fn export_service(to: Target, served: &Service) -> Result<String, ExportError> {
    if served.serving.serving.prefill.is_some() {
        let why =
            "starts copies that read prompts and write answers: plan again without --disaggregated and its workers";
        return Err(ExportError::Unfit { target: to, why: why.to_owned() });
    }
    match to {
        Target::Vllm => service::commands::render(served, to, ServingEngine::Vllm),
        Target::Sglang => service::commands::render(served, to, ServingEngine::Sglang),
        Target::Kubernetes => service::kubernetes::deployment(served),
        Target::Leaderworkerset => service::kubernetes::leader_worker_set(served),
        Target::Kserve => service::kubernetes::inference_service(served),
        Target::LlmD => service::llm_d::render(served),
        Target::Dynamo => service::dynamo::render(served),
        _ => {
            let all: Vec<&str> = Target::ALL.into_iter().filter(|target| target.serves()).map(Target::word).collect();
            let why = format!("starts a training, and this plan serves a model: export to {}", all.join(", "));
            Err(ExportError::Unfit { target: to, why })
        }
    }
}
