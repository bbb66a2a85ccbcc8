//! Arguments that several commands share.

pub mod foreign;
pub mod global;
pub mod limits;
pub mod measured;
pub mod prices;
pub mod question;
pub mod workload;
