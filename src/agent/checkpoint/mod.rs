//! Checkpoints on the disk and in the store: found, held, sent, restored.

pub mod elsewhere;
pub mod hard_links;
pub mod restore;
pub mod scan;
pub mod shipping;
pub mod upload;
pub mod whole;
