//! What a run pays for: machines as their agents and their leader saw them, and what is charged beside them.

pub mod billed;
pub mod rented;
pub mod side_costs;
