//! Many runs and money over time: what is expected, what was spent, and how far the two lie apart.

mod charge;
pub mod diff;
pub mod guardrail;
pub mod portfolio;

pub use charge::{Charge, Costs, Item, Nature, Waste};
pub use portfolio::answer::{Budget, budget, charges};
