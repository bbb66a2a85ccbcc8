//! PyTorch without a framework: the program reads the layout from variables and builds DDP or FSDP of it.

use crate::ExportError;
use crate::framework::invocation::{Invocation, torchrun};
use crate::job::Job;

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    job.only_data_parallel("fsdp")?;
    let (layout, plan) = (job.layout(), &job.plan.layout);
    let word = |value: serde_json::Value| {
        value.as_str().expect("shard, recompute and precision are written as words").to_owned()
    };
    let mut variables = vec![
        ("GPUPLAN_SHARD", word(serde_json::json!(layout.shard))),
        ("GPUPLAN_MICRO_BATCH", plan.micro_batch.to_string()),
        ("GPUPLAN_GRAD_ACCUMULATION", job.micro_steps().to_string()),
        ("GPUPLAN_RECOMPUTE", word(serde_json::json!(plan.recompute))),
        ("GPUPLAN_PRECISION", word(serde_json::json!(job.precision))),
        ("GPUPLAN_SEQUENCE_LENGTH", job.sequence_length.to_string()),
        ("GPUPLAN_SAVE_EVERY_STEPS", job.save_every_steps().to_string()),
    ];
    if let Some(group) = layout.shard_group {
        variables.push(("GPUPLAN_SHARD_GROUP", group.to_string()));
    }
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Invocation { launcher: torchrun(job), variables, checkpoints: "auto", ..Invocation::default() })
}
