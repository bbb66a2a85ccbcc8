//! Finding things by the names people use, and suggesting the nearest one.

pub use gpuplan_units::names::{did_you_mean, plain};
