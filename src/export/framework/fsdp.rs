//! PyTorch without a framework: the program builds DDP or FSDP itself. What it has to set stands at the head of the file.

use crate::ExportError;
use crate::framework::invocation::{Invocation, torchrun};
use crate::job::Job;

pub fn invocation(job: &Job) -> Result<Invocation, ExportError> {
    job.only_data_parallel("fsdp")?;
    Ok(Invocation { launcher: torchrun(job), checkpoints: "auto", ..Invocation::default() })
}
