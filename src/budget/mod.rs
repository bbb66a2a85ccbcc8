//! Many runs and money over time: what is expected, what was spent, and how far the two lie apart.

mod charge;

pub use charge::{Charge, Costs, Item, Nature, Waste};
