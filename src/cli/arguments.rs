//! Arguments that several commands share.

pub mod global;
pub mod limits;
pub mod measured;
pub mod prices;
pub mod question;
pub mod workload;
