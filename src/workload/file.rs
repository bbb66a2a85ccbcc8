//! The workload file: its sections, and from what was written to what is run.

mod error;
mod foreign;
mod overlay;
mod phases;
mod resolve;
mod scalar;
mod sections;
mod written;

pub use crate::file::error::WorkloadFileError;
pub use crate::file::foreign::ForeignFormat;
pub use crate::file::phases::Phase;
pub use crate::file::resolve::processing::ResolvedProcessing;
pub use crate::file::resolve::resolved::Resolved;
pub use crate::file::scalar::Scalar;
pub use crate::file::sections::{
    CheckpointSection, DataSection, LimitsSection, LoraSection, ModelSection, PhaseSection, ProcessingSection,
    ServingSection, SweepSection, TrainingSection,
};
pub use crate::file::written::WorkloadFile;
