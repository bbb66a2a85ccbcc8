//! Samples in the formats that other tools read.

pub mod event_file;
pub mod jsonl;
mod metrics;
pub mod mlflow;
pub mod prometheus;
