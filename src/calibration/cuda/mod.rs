//! The only code that names cudarc: driver, cuBLASLt and NCCL, loaded while the program runs if they are there.

#![allow(unsafe_code, reason = "the CUDA driver and libraries are C; each block says why it is sound")]

mod collectives;
pub mod compiler;
mod copies;
mod gpu;
mod kernels;
pub mod libraries;
pub mod local;
mod product;
mod refusals;
mod session;
#[cfg(test)]
mod tests;
mod watch;

pub use gpu::CudaDevice;
