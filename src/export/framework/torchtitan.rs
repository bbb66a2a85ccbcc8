//! torchtitan: the layout as keys of its configuration, given on the command line, where they win over the user's own configuration.
//!
//! Up to 0.2 that is a TOML file; since 0.3 `--module` and `--config` name a function of Python. The user's command says which.

use crate::ExportError;
use crate::framework::invocation::{Invocation, flag, torchrun};
use crate::job::Job;
use gpuplan_workload::{Layout, Precision, Recompute, Shard};

/// How many replicas there are, and over how many GPUs each is sharded.
fn data_parallel_degrees(job: &Job) -> Result<(u32, u32), ExportError> {
    let layout = job.layout();
    Ok(match layout.shard {
        Shard::None => (layout.data, 1),
        Shard::Zero1 => {
            return Err(job.misfit(
                "torchtitan",
                "it always shards gradients with the optimizer; --framework megatron has ZeRO-1",
            ));
        }
        Shard::Zero2 | Shard::Zero3 => (1, layout.data),
        Shard::Hsdp => ((layout.data / layout.sharded_over()).max(1), layout.sharded_over()),
    })
}

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    let (layout, plan) = (job.layout(), &job.plan.layout);
    let (replicate, shard) = data_parallel_degrees(job)?;
    let has_file = job.command.iter().any(|word| word.strip_suffix(".toml").is_some());
    let mut flags = Vec::new();
    flag(
        &mut flags,
        "training.local_batch_size",
        u64::from(plan.micro_batch) * if layout.pipeline > 1 { u64::from(job.micro_steps()) } else { 1 },
    );
    flag(&mut flags, "training.global_batch_size", job.global_batch());
    flag(&mut flags, "training.seq_len", job.training.sequence_length);
    degrees(layout, (replicate, shard), &mut flags);
    if layout.pipeline > 1 {
        flag(&mut flags, "parallelism.pipeline_parallel_microbatch_size", plan.micro_batch);
        let schedule = if layout.virtual_pipeline > 1 { "Interleaved1F1B" } else { "1F1B" };
        flag(&mut flags, "parallelism.pipeline_parallel_schedule", schedule);
    }
    // CUDA graphs are on by default in 0.3, which refuses them with a pipeline and with most dispatchers of experts (`_validate_cuda_graphs`).
    if (layout.pipeline > 1 || layout.expert > 1) && !has_file {
        flags.push("--training.disable_cuda_graphs".to_owned());
    }
    if layout.tensor > 1 && !layout.sequence_parallel && !has_file {
        flags.push("--parallelism.no-enable-sequence-parallel".to_owned());
    }
    if layout.shard == Shard::Zero2 {
        flag(&mut flags, "parallelism.fsdp_reshard_after_forward", "never");
    }
    let mode = match plan.recompute {
        Recompute::None => "none",
        Recompute::Selective => "selective",
        Recompute::Full => "full",
        Recompute::Offload => {
            return Err(job.misfit(
                "torchtitan",
                "it cannot offload activations to the host; --recompute full keeps layer inputs on the GPU",
            ));
        }
    };
    precision(job, &mut flags)?;
    if job.training.is_compiled {
        flags.push("--compile.enable".to_owned());
    }
    flags.push("--checkpoint.enable".to_owned());
    flag(&mut flags, if has_file { "job.dump_folder" } else { "dump_folder" }, ".");
    flag(&mut flags, "checkpoint.folder", "checkpoints");
    flag(&mut flags, "checkpoint.interval", job.save_every_steps());
    let mut launcher = torchrun(job);
    launcher.extend(["-m", "torchtitan.train"].map(str::to_owned));
    if has_file {
        launcher.push("--job.config_file".to_owned());
        flag(&mut flags, "activation_checkpoint.mode", mode);
        if plan.recompute == Recompute::Selective {
            // Else every second layer is recomputed whole (`selective_ac_option: str = "2"`, torchtitan 0.2.2): another price.
            flag(&mut flags, "activation_checkpoint.selective_ac_option", "op");
        }
    } else {
        // A choice among policies, behind which its parser takes nothing else.
        flags.push(format!("activation-checkpoint:{mode}"));
    }
    Ok(Invocation { launcher, flags, checkpoints: "dcp", ..Invocation::default() })
}

fn degrees(layout: &Layout, (replicate, shard): (u32, u32), flags: &mut Vec<String>) {
    let all = [
        ("data_parallel_replicate_degree", replicate),
        ("data_parallel_shard_degree", shard),
        ("tensor_parallel_degree", layout.tensor),
        ("pipeline_parallel_degree", layout.pipeline),
        ("context_parallel_degree", layout.context),
        ("expert_parallel_degree", layout.expert),
    ];
    for (name, degree) in all {
        flag(flags, &format!("parallelism.{name}"), degree);
    }
}

fn precision(job: &Job, flags: &mut Vec<String>) -> Result<(), ExportError> {
    match job.training.precision {
        Precision::Bf16 => flag(flags, "training.mixed_precision_param", "bfloat16"),
        Precision::PureBf16 => flag(flags, "training.dtype", "bfloat16"),
        Precision::Fp32 | Precision::Tf32 => flag(flags, "training.mixed_precision_param", "float32"),
        _ => {
            return Err(job.misfit(
                "torchtitan",
                "gpuplan sets only bf16, pure-bf16, fp32 and tf32; set others in your TOML file and pass --precision bf16 here",
            ));
        }
    }
    Ok(())
}
