//! `Event`: what happens beside the program, as the supervisor hears it.

use std::path::PathBuf;

use crate::ports::notice::Notice;
use gpuplan_runstore::{Leaving, ManifestName};

/// What happens beside the program.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Notice {
        notice: Notice,
        /// The cloud itself says so, not a person or a scheduler.
        by_cloud: bool,
    },
    /// Another machine of the run has to leave, failed, or is gone.
    PeerLeaves {
        node: u32,
        leaving: Leaving,
    },
    Fenced,
    Committed(ManifestName),
    /// The program saves there, though nobody told it to.
    SavesIn(PathBuf),
    Warning(String),
}
