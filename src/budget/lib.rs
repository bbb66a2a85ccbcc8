//! Many runs and money over time: what is expected, what was spent, and how far the two lie apart.

pub mod actual;
pub mod bill;
mod charge;
pub mod diff;
pub mod guardrail;
pub mod ledger;
pub mod mine;
pub mod portfolio;
pub mod spent;

pub use charge::{Charge, Costs, Item, Nature, Waste};
pub use ledger::{Ledger, LedgerError};
pub use portfolio::answer::{Budget, budget, charges};
