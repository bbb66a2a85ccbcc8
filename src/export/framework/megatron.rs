//! Megatron-LM: the layout as arguments of its `megatron/training/arguments.py`.

use crate::ExportError;
use crate::framework::invocation::{Invocation, flag, torchrun};
use crate::job::Job;
use gpuplan_hardware::Architecture;
use gpuplan_plan::training::layouts::UnevenStages;
use gpuplan_workload::{Optimizer, Precision, Recompute, Shard};

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    let (layout, plan) = (job.layout(), &job.plan.layout);
    let mut flags = Vec::new();
    let mut variables = Vec::new();
    // With tensor or context parallelism its parser asks for one connection before Blackwell, where kernels start in the order of their
    // launches then; Megatron-FSDP asks for more than one (megatron/training/arguments.py, `validate_args`).
    let is_fsdp = matches!(layout.shard, Shard::Zero2 | Shard::Zero3 | Shard::Hsdp);
    let is_blackwell = matches!(job.gpu.architecture, Architecture::Blackwell | Architecture::BlackwellRtx);
    if (layout.tensor > 1 || layout.context > 1) && !is_fsdp && !is_blackwell {
        variables.push(("CUDA_DEVICE_MAX_CONNECTIONS".to_owned(), "1".to_owned()));
    }
    let degrees = [
        ("tensor-model-parallel-size", layout.tensor),
        ("pipeline-model-parallel-size", layout.pipeline),
        ("context-parallel-size", layout.context),
        ("expert-model-parallel-size", layout.expert),
    ];
    for (name, degree) in degrees {
        flag(&mut flags, name, degree);
    }
    // Its parser refuses stages of unequal length unless it is told how.
    match plan.uneven_stages {
        None => {}
        Some(UnevenStages::EmbeddingAndLossCount) => {
            flags.push("--account-for-embedding-in-pipeline-split".to_owned());
            flags.push("--account-for-loss-in-pipeline-split".to_owned());
        }
        Some(UnevenStages::LastHas { layers }) => flag(&mut flags, "decoder-last-pipeline-num-layers", layers),
    }
    if layout.virtual_pipeline > 1 {
        flag(&mut flags, "num-virtual-stages-per-pipeline-rank", layout.virtual_pipeline);
    }
    if layout.sequence_parallel && layout.tensor > 1 {
        flags.push("--sequence-parallel".to_owned());
    }
    overlap(job, &mut flags);
    if let Some(backend) = attention_backend(job) {
        flag(&mut flags, "attention-backend", backend);
    }
    flag(&mut flags, "micro-batch-size", plan.micro_batch);
    flag(&mut flags, "global-batch-size", job.global_batch());
    flag(&mut flags, "seq-length", job.training.sequence_length);
    sharding(job, &mut flags);
    precision(job, &mut flags)?;
    recompute(job, &mut flags)?;
    if job.training.optimizer == Some(Optimizer::Sgd) {
        flag(&mut flags, "optimizer", "sgd");
    }
    if let Some(workers) = job.stated("data.workers") {
        flag(&mut flags, "num-workers", workers);
    }
    flag(&mut flags, "save", "checkpoints");
    flag(&mut flags, "load", "checkpoints");
    flag(&mut flags, "save-interval", job.save_every_steps());
    // Saves and ends on SIGTERM.
    flags.push("--exit-signal-handler".to_owned());
    Ok(Invocation { launcher: torchrun(job), flags, variables, checkpoints: "megatron", ..Invocation::default() })
}

/// Whether its `--optimizer`, by default adam, is that optimizer.
pub fn knows(optimizer: Optimizer) -> bool {
    matches!(optimizer, Optimizer::Adamw | Optimizer::Sgd)
}

/// Traffic is hidden as the price assumes; the parser's own default is to wait for all of it.
fn overlap(job: &Job, flags: &mut Vec<String>) {
    let (layout, hidden) = (job.layout(), job.training.overlap);
    if layout.copies() > 1 {
        flags.push("--overlap-grad-reduce".to_owned());
        // Megatron-FSDP gathers weights for every pass, and waits where nothing is gathered ahead.
        let is_fsdp = matches!(layout.shard, Shard::Zero2 | Shard::Zero3 | Shard::Hsdp);
        if is_fsdp || (layout.shard == Shard::Zero1 && hidden.weight_gather) {
            flags.push("--overlap-param-gather".to_owned());
        }
    }
    // It cuts the gathers and reductions of sequence parallelism.
    if hidden.tensor_parallel && layout.tensor > 1 && layout.sequence_parallel {
        flags.push("--tp-comm-overlap".to_owned());
    }
}

/// Names of its `AttnBackend`; without one Transformer Engine chooses.
fn attention_backend(job: &Job) -> Option<&'static str> {
    match job.stated("attention")? {
        "eager" => Some("unfused"),
        "flash" => Some("flash"),
        _ => None,
    }
}

/// Its distributed optimizer is ZeRO-1; its FSDP has the other stages.
fn sharding(job: &Job, flags: &mut Vec<String>) {
    let layout = job.layout();
    let strategy = match layout.shard {
        Shard::None => return,
        Shard::Zero1 => {
            flags.push("--use-distributed-optimizer".to_owned());
            None
        }
        Shard::Zero2 => Some("optim_grads"),
        Shard::Zero3 | Shard::Hsdp => Some("optim_grads_params"),
    };
    if let Some(strategy) = strategy {
        flags.push("--use-megatron-fsdp".to_owned());
        flags.push("--use-distributed-optimizer".to_owned());
        flag(flags, "data-parallel-sharding-strategy", strategy);
        // What Megatron-FSDP asks for beside it (Megatron Core user guide, "Megatron-FSDP").
        flags.push("--no-gradient-accumulation-fusion".to_owned());
        flag(flags, "ckpt-format", "fsdp_dtensor");
    }
    let groups = layout.copies() / layout.sharded_over();
    if groups > 1 {
        flag(flags, "num-distributed-optimizer-instances", groups);
    }
}

fn precision(job: &Job, flags: &mut Vec<String>) -> Result<(), ExportError> {
    match job.training.precision {
        Precision::Fp32 | Precision::Tf32 => {}
        Precision::Bf16 | Precision::PureBf16 => flags.push("--bf16".to_owned()),
        Precision::Fp16 | Precision::AmpFp16 => flags.push("--fp16".to_owned()),
        Precision::Fp8 => {
            flags.push("--bf16".to_owned());
            flag(flags, "fp8-format", "hybrid");
        }
        Precision::Mxfp8 => {
            flags.push("--bf16".to_owned());
            flag(flags, "fp8-format", "e4m3");
            flag(flags, "fp8-recipe", "mxfp8");
        }
        Precision::Nvfp4 => {
            return Err(
                job.misfit("megatron", "gpuplan does not know its arguments for nvfp4; plan with --precision mxfp8")
            );
        }
    }
    Ok(())
}

fn recompute(job: &Job, flags: &mut Vec<String>) -> Result<(), ExportError> {
    match job.plan.layout.recompute {
        Recompute::None => {}
        Recompute::Selective => flag(flags, "recompute-granularity", "selective"),
        Recompute::Full => {
            flag(flags, "recompute-granularity", "full");
            flag(flags, "recompute-method", "uniform");
            flag(flags, "recompute-num-layers", 1);
        }
        Recompute::Offload => {
            return Err(job.misfit(
                "megatron",
                "it cannot offload activations to the host; --recompute full keeps layer inputs on the GPU",
            ));
        }
    }
    Ok(())
}
