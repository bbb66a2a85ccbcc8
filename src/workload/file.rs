//! The workload file: its sections, and from what was written to what is run.

mod batch;
mod data;
mod error;
mod network;
mod overlay;
mod phases;
mod processing;
mod resolve;
mod resolved;
mod scalar;
mod sections;
mod serving;
mod settings;
mod written;

pub use crate::file::error::WorkloadFileError;
pub use crate::file::phases::Phase;
pub use crate::file::processing::ResolvedProcessing;
pub use crate::file::resolved::Resolved;
pub use crate::file::scalar::Scalar;
pub use crate::file::sections::{
    CheckpointSection, DataSection, LimitsSection, LoraSection, ModelSection, PhaseSection, ProcessingSection,
    ServingSection, SweepSection, TrainingSection,
};
pub use crate::file::written::WorkloadFile;
