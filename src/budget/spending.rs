//! What runs have cost: charges from what a run left in its store, their sums, and the forecasts that they are held against.

pub mod actual;
pub mod mine;
pub mod pieces;
pub mod spent;
