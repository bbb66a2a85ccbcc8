//! A cloud on this machine: every machine is a process tree in a folder of its own, and everything that clouds do wrong happens.
//!
//! It stands in for every cloud of a plan, rents nothing and costs nothing; ten minutes pass in a second.

pub mod machines;
pub mod scenario;

pub use machines::{CLOUD, FakeCloud, is_own};
pub use scenario::Scenario;

/// Seconds of the run in a second: a demonstration of hours takes seconds.
pub const SPEED: f64 = 600.0;
/// A machine lives for at least so long, in hours of the run: programs here take their own time, and two hours are twelve seconds of it.
pub const SHORTEST_LIFE: f64 = 12.0;
