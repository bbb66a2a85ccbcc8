//! Simulation: a job replayed on traces of availability, what it will cost, and the least that it could have cost.

pub mod case;
pub mod elsewhere;
pub mod expected_cost;
pub mod forecast;
pub mod hindsight;
pub mod omniscient;
pub mod replay;
mod slack;
pub mod trace;
