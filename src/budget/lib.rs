//! Many runs and money over time: what is expected, what was spent, and how far the two lie apart.

pub mod bill;
pub mod charge;
pub mod diff;
pub mod exchange;
pub mod ledger;
pub mod portfolio;
mod spending;
pub mod status;

pub use charge::{Allocation, Charge, Costs, Invoice, Item, Nature, Resource, Waste};
pub use diff::guardrail;
pub use ledger::{Ledger, LedgerError};
pub use portfolio::budget::{Budget, budget, charges};
pub use spending::{actual, mine, spent};
