//! Checkpoints in the store: what commits one, in which order they are restored, which are deleted.

pub mod history;
pub mod manifest;
pub mod scrub;
