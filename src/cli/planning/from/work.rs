//! The work of a job: what it says, and what is taken for the rest.

use crate::question::workload;
use crate::session::diagnostic::Diagnostic;
use gpuplan_import::{JobRequest, command, open};
use gpuplan_workload::Models;
use gpuplan_workload::file::{ModelSection, WorkloadFile};

/// What a job asks for, and its work as far as it is known.
pub struct Work {
    pub asked: JobRequest,
    pub file: WorkloadFile,
}

impl Work {
    /// Takes what the job leaves open, and says so under `assumed`. An error: why its work cannot be planned.
    pub fn complete(&mut self, models: &Models) -> Result<(), Diagnostic> {
        let Self { asked, file } = self;
        // Whoever states the task has said it.
        if file.training.task.is_some() {
            asked.unread.retain(|one| one.key != command::KIND);
        }
        if let Some(why) = asked.why_not_planned(file) {
            return Err(Diagnostic::usage(why));
        }
        if file.model == ModelSection::default() {
            return Err(Diagnostic::usage("it names no model").hint("--model llama-3.1-8b"));
        }
        if let Some(why) = command::unsaid(asked, file) {
            return Err(Diagnostic::usage(why).hint("--task lora"));
        }
        let assumed = open::complete(file, asked, models);
        asked.assumed.extend(assumed);
        let Err(error) = workload::resolve(file, models) else { return Ok(()) };
        let (model, assumption) = open::by_size(&file.model).ok_or(error)?;
        file.model = model;
        workload::resolve(file, models)?;
        asked.assumed.push(assumption);
        Ok(())
    }
}
