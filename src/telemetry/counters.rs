//! Counters of GPUs and host, as drivers and the kernel tell them.

mod amd;
pub mod gpus;
pub mod host;
mod host_text;
mod nvlink;
#[cfg(feature = "cuda")]
mod nvml;
pub mod smi;
mod smi_text;
