//! What plans cost: prices of candidates, bills, side charges, phases together, and until when a price holds.

pub mod bill;
pub mod billing;
pub mod drift;
pub mod phases;
pub mod price;
pub mod pricer;
pub mod run_price;
pub mod side_charges;
pub mod validity;
