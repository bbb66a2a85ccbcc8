//! Simulation: a job replayed on traces of availability, what it will cost, and the least that it could have cost.

mod actions;
pub mod case;
pub mod elsewhere;
pub mod expected_cost;
pub mod forecast;
pub mod hindsight;
pub mod omniscient;
mod programme;
pub mod replay;
mod slack;
mod terms;
pub mod trace;
