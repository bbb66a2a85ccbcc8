//! Capacity that can be taken away: how often, what it costs in lost work, how often to save, what to run when.

pub mod availability;
pub mod checkpoint;
pub mod hazard;
pub mod omniscient;
pub mod policy;
pub mod replay;
pub mod trace;
pub mod watch;

pub use checkpoint::{CheckpointPlan, optimal_interval};
pub use hazard::{InterruptionRate, hardware_failure_rate, spot_rate};
