//! `Rank`: which machine of how many, and the folder that its agent has among the checkpoints.

use std::path::{Path, PathBuf};

/// Folder of the first machine's agent among the checkpoints; others' have their number behind it.
const OWN_FOLDER: &str = ".gpuplan";

/// Which machine of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    pub node: u32,
    pub nodes: u32,
}

impl Rank {
    pub const ALONE: Self = Self { node: 0, nodes: 1 };

    pub fn is_first(self) -> bool {
        self.node == 0
    }

    /// The agent's own folder among the checkpoints, where several machines may share them.
    pub fn own_folder(self, checkpoints: &Path) -> PathBuf {
        checkpoints.join(if self.is_first() { OWN_FOLDER.to_owned() } else { format!("{OWN_FOLDER}-{}", self.node) })
    }

    pub fn is_alone(self) -> bool {
        self.nodes <= 1
    }

    pub fn others(self) -> impl Iterator<Item = u32> {
        (0..self.nodes).filter(move |node| *node != self.node)
    }
}
