//! All tests of the whole program in one binary: each would link everything again, and one that waits for a process, a clock or
//! a server leaves its core to one that computes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what the product may not do is how a test fails"
)]

mod accuracy;
mod agent;
mod architecture;
mod catalogs;
mod cli;
mod contracts;
mod coverage;
mod fuzz;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod kernels;
mod launch;
mod physics;
mod reach;
mod schemas;
mod spot;
