//! Time of an optimizer step: matrix products, layers, traffic between GPUs, and how much of each GPU several of them leave.

pub mod breakdown;
pub mod diffusion;
mod elementwise;
mod experts;
pub mod gemm;
pub mod input;
pub mod kernels;
pub mod layer;
pub mod scaling;
pub mod step;
mod tests;
pub mod vision;
