//! The catalog of prices: its rows, what is wrong with them, and the market that is made of them.

pub mod charges;
pub mod check;
mod numbers;
mod offered;
pub(crate) mod rows;
pub mod rules;
pub mod sites;
pub mod snapshot;
