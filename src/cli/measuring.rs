//! Commands that measure machines, runs and the estimate itself.

pub mod accuracy;
pub mod bench;
pub mod own_runs;
pub mod profile;
pub mod refit;
