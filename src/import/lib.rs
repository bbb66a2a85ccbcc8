//! Reads what an existing job asks of its engine: machines, places, terms, time, and what its command says of the workload.

pub mod ask;
pub mod chips;
pub mod command;
pub mod kubernetes;
pub mod labels;
pub mod skypilot;
pub mod slurm;
pub mod words;
mod yaml;

pub use ask::{Asked, Chips, Choice, Gpus, Kind, Need, Said};

use gpuplan_hardware::Hardware;
use gpuplan_workload::Models;

/// Why a file cannot be read as a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("it is no job of Slurm (#SBATCH), SkyPilot (resources:) or Kubernetes (apiVersion:, kind:)")]
    UnknownKind,
    #[error("it is no YAML: {0}")]
    Yaml(String),
    #[error("`{key}`: {detail}")]
    Invalid { key: String, detail: String },
    /// It holds several, of which each has to be priced alone.
    #[error("it holds {} jobs ({}); put the one to price into a file of its own", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    #[error("it asks for no GPU")]
    NoGpu,
    /// A count of cards that nobody named.
    #[error("it asks for {0} GPUs and does not say which")]
    NoGpuName(u32),
}

/// The names that a job may use.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub hardware: &'a Hardware,
    pub models: &'a Models,
}

/// Reads a job of any kind: the content says which it is.
pub fn read(text: &str, names: Names) -> Result<Asked, ImportError> {
    if slurm::is_one(text) {
        return slurm::read(text, names);
    }
    let documents = yaml::documents(text)?;
    if documents.iter().any(kubernetes::is_one) {
        kubernetes::read(&documents, names)
    } else if documents.iter().any(skypilot::is_one) {
        skypilot::read(&documents, names)
    } else {
        Err(ImportError::UnknownKind)
    }
}

fn invalid(key: &str, detail: impl Into<String>) -> ImportError {
    ImportError::Invalid { key: key.to_owned(), detail: detail.into() }
}
