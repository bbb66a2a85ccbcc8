//! Counters of GPUs and host at a fixed pace, steps found in a log, what they come to, findings, and the files that other tools read.

mod counters;
mod exports;
pub mod findings;
pub mod samples;
pub mod steps;

pub use counters::{gpus, host, smi};
pub use exports::{event_file, jsonl, mlflow, prometheus};
pub use findings::{Facts, find};
pub use samples::{GpuSample, HostSample, Sample, Summary};
pub use steps::{Step, StepFinder};
