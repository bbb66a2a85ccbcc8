//! What the agent decides, from what it is told: pure, so that every case is a test.

pub mod caps;
pub mod framework;
pub mod improvement;
pub mod outcome;
pub mod pipeline;
pub mod renewal;
pub mod restart;
pub mod slots;
pub mod stall;
pub mod window;
