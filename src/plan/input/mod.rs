//! How samples come to the GPUs: disks, staging, what a step waits for them, and what would shorten that.

pub mod checks;
pub mod disks;
pub mod feeding;
pub mod fix;
pub mod fixes;
pub mod staging;
pub mod store_path;
pub mod waiting;
