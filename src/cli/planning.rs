//! Commands that plan: what to rent, why, and as which file for another engine.

pub mod arguments;
pub mod estimate;
pub mod explain;
pub mod export;
pub mod from;
pub mod init;
pub mod phases;
pub mod plan;
pub mod processing;
pub mod screen;
pub mod simulate;
