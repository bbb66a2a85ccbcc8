//! Reads what an existing job asks of its engine: machines, places, terms, time, and what its command says of the workload.

pub mod ask;
pub mod chips;
pub mod command;
mod error;
pub mod kubernetes;
pub mod labels;
mod names;
pub mod shell;
pub mod skypilot;
pub mod slurm;
mod yaml;

pub use ask::{Choice, GpuModels, Gpus, JobKind, JobRequest, KeyValue, Need};
pub use error::ImportError;
pub use names::Names;

/// Reads a job of any kind: the content says which it is.
pub fn read(text: &str, names: Names) -> Result<JobRequest, ImportError> {
    if slurm::is_script(text) {
        return slurm::read(text, names);
    }
    let documents = yaml::documents(text)?;
    if documents.iter().any(kubernetes::is_object) {
        kubernetes::read(&documents, names)
    } else if documents.iter().any(skypilot::is_task) {
        skypilot::read(&documents, names)
    } else {
        Err(ImportError::UnknownKind)
    }
}
