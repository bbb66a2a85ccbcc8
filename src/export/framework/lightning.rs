//! Lightning: the layout as arguments of the Trainer, as LightningCLI reads them behind its sub-command.

use crate::ExportError;
use crate::framework::invocation::{Invocation, flag, torchrun};
use crate::job::Job;
use gpuplan_workload::{Precision, Shard};

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    job.only_data_parallel("lightning")?;
    let mut flags = Vec::new();
    flag(&mut flags, "trainer.accelerator", "gpu");
    flag(&mut flags, "trainer.devices", job.machines().gpus_per_node);
    flag(&mut flags, "trainer.num_nodes", job.machines().nodes);
    let strategy = match job.layout().shard {
        Shard::None if job.layout().data == 1 => "auto",
        Shard::None => "ddp",
        Shard::Zero1 => "deepspeed_stage_1",
        Shard::Zero2 => "deepspeed_stage_2",
        Shard::Zero3 => "fsdp",
        Shard::Hsdp => "lightning.pytorch.strategies.FSDPStrategy",
    };
    flag(&mut flags, "trainer.strategy", strategy);
    if job.layout().shard == Shard::Hsdp {
        flag(&mut flags, "trainer.strategy.sharding_strategy", "HYBRID_SHARD");
    }
    let precision = match job.training.precision {
        Precision::Fp32 | Precision::Tf32 => "32-true",
        Precision::Bf16 => "bf16-mixed",
        Precision::PureBf16 => "bf16-true",
        Precision::Fp16 | Precision::AmpFp16 => "16-mixed",
        Precision::Fp8 => "transformer-engine",
        Precision::Mxfp8 | Precision::Nvfp4 => {
            return Err(job.misfit("lightning", "it does not support this precision; --framework megatron does"));
        }
    };
    flag(&mut flags, "trainer.precision", precision);
    flag(&mut flags, "trainer.accumulate_grad_batches", job.micro_steps());
    flag(&mut flags, "data.batch_size", job.plan.layout.micro_batch);
    if let Some(workers) = job.stated("data.workers") {
        flag(&mut flags, "data.num_workers", workers);
    }
    Ok(Invocation { launcher: torchrun(job), flags, checkpoints: "lightning", ..Invocation::default() })
}
