//! Capacity that can be taken away: how often, what it costs in lost work, how often to save, what to run when.

pub mod availability;
pub mod checkpoint;
pub mod evaluate;
pub mod policy;
mod simulation;

pub use availability::AvailabilityModel;
pub use availability::hazard::{InterruptionRate, hardware_failure_rate, spot_rate};
pub use availability::{evidence, history, watch};
pub use checkpoint::{CheckpointPlan, optimal_interval};
pub use simulation::{case, expected_cost, forecast, hindsight, replay, trace};
