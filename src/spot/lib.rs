//! Capacity that can be taken away: how often, what it costs in lost work, how often to save, what to run when.

pub mod availability;
pub mod case;
pub mod chain;
pub mod checkpoint;
pub mod evaluate;
pub mod evidence;
pub mod expected_cost;
pub mod forecast;
pub mod hazard;
pub mod omniscient;
pub mod policy;
pub mod replay;
pub mod spells;
pub mod trace;
pub mod watch;

pub use availability::AvailabilityModel;
pub use checkpoint::{CheckpointPlan, optimal_interval};
pub use hazard::{InterruptionRate, hardware_failure_rate, spot_rate};
