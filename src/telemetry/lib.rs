//! Counters of GPUs and host at a fixed pace, steps found in a log, what they come to, findings, and the files that other tools read.

pub mod event_file;
pub mod findings;
pub mod gpus;
pub mod host;
pub mod host_text;
pub mod jsonl;
pub mod metrics;
pub mod mlflow;
pub mod nvlink;
#[cfg(feature = "cuda")]
pub mod nvml;
pub mod prometheus;
pub mod samples;
pub mod smi;
pub mod smi_text;
pub mod steps;

pub use findings::{Facts, find};
pub use samples::{GpuSample, HostSample, Sample, Summary};
pub use steps::{Step, StepFinder};
