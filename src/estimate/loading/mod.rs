//! Loading data: how samples are read, decoded and copied to the GPUs, and work on samples that needs no GPU.

pub mod constants;
pub mod feeding;
pub mod input;
pub mod processing;
pub mod storage;
