//! Hugging Face transformers: the layout as TrainingArguments, which `HfArgumentParser` reads from the command line.

use crate::ExportError;
use crate::framework::deepspeed;
use crate::framework::invocation::{Invocation, configuration_path, flag, torchrun};
use crate::job::Job;
use gpuplan_workload::{Optimizer, Precision, Recompute, Shard};

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    job.only_data_parallel("hf-trainer")?;
    let plan = &job.plan.layout;
    let mut flags = Vec::new();
    flag(&mut flags, "output_dir", "checkpoints");
    flag(&mut flags, "per_device_train_batch_size", plan.micro_batch);
    flag(&mut flags, "gradient_accumulation_steps", job.micro_steps());
    match job.training.precision {
        Precision::Bf16 | Precision::PureBf16 => flag(&mut flags, "bf16", "True"),
        Precision::Fp16 | Precision::AmpFp16 => flag(&mut flags, "fp16", "True"),
        Precision::Tf32 => flag(&mut flags, "tf32", "True"),
        Precision::Fp32 => {}
        _ => {
            return Err(job.misfit(
                "hf-trainer",
                "it has no arguments for 8 bits or fewer; --framework accelerate and --framework megatron do",
            ));
        }
    }
    match plan.recompute {
        Recompute::None => {}
        Recompute::Full => flag(&mut flags, "gradient_checkpointing", "True"),
        _ => {
            return Err(
                job.misfit("hf-trainer", "it recomputes whole layers or none: plan with --recompute full or none")
            );
        }
    }
    if let Some(name) = job.training.optimizer.map(optimizer) {
        let name = name.ok_or_else(|| job.misfit("hf-trainer", "its `--optim` does not support this optimizer"))?;
        flag(&mut flags, "optim", name);
    }
    if job.training.is_compiled {
        flag(&mut flags, "torch_compile", "True");
    }
    if let Some(workers) = job.stated("data.workers") {
        flag(&mut flags, "dataloader_num_workers", workers);
    }
    let mut configuration = None;
    match job.layout().shard {
        Shard::None => {}
        Shard::Zero3 => flag(&mut flags, "fsdp", "full_shard auto_wrap"),
        Shard::Hsdp => flag(&mut flags, "fsdp", "hybrid_shard auto_wrap"),
        // Its FSDP always shards gradients and weights; DeepSpeed has the lower stages.
        Shard::Zero1 | Shard::Zero2 => {
            flag(&mut flags, "deepspeed", configuration_path(job, deepspeed::FILE));
            configuration = Some((deepspeed::FILE, deepspeed::pretty(job)?));
        }
    }
    flag(&mut flags, "save_strategy", "steps");
    flag(&mut flags, "save_steps", job.save_every_steps());
    // Saves on SIGTERM; transformers 5.
    flag(&mut flags, "enable_jit_checkpoint", "True");
    Ok(Invocation { launcher: torchrun(job), flags, configuration, checkpoints: "hf", ..Invocation::default() })
}

/// Words of `OptimizerNames` in transformers' training_args.py.
pub fn optimizer(optimizer: Optimizer) -> Option<&'static str> {
    match optimizer {
        Optimizer::Adamw | Optimizer::AdamwBf16 => Some("adamw_torch_fused"),
        Optimizer::Adamw8bit => Some("adamw_8bit"),
        Optimizer::AdamwPaged => Some("paged_adamw_32bit"),
        Optimizer::Sgd => Some("sgd"),
        Optimizer::Adafactor => Some("adafactor"),
        Optimizer::AdamwFlatFp32 | Optimizer::AdamwFp32Gradients | Optimizer::Lamb | Optimizer::Lars => None,
    }
}
