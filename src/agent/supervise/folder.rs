//! The agent's own folder among the checkpoints, and whether this machine has the first machine's, too.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::checkpoint::hard_links;
use crate::supervise::supervisor::Supervisor;
use crate::team::rank::Rank;

/// In the first machine's own folder: the mark of the first machine's agent, by which others see that they share the folder.
pub const OWNER_FILE: &str = "owner";

impl Supervisor {
    pub(super) fn own_folder_of(&self, node: u32) -> PathBuf {
        Rank { node, ..self.life.rank }.own_folder(&self.settings.checkpoints.folder)
    }

    /// Made if needed, without what an earlier start left in it.
    pub(super) fn own_folder(&self) -> io::Result<PathBuf> {
        let own = self.own_folder_of(self.life.rank.node);
        fs::create_dir_all(&own)?;
        hard_links::release(&own)?;
        for file in [own.join("notice.json"), own.join("progress")] {
            if let Err(error) = fs::remove_file(file)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
        }
        Ok(own)
    }

    /// Whether the first machine's files are this machine's, too, on a shared disk.
    pub(super) fn shares_a_folder(&self) -> io::Result<bool> {
        let Some(start) = &self.meeting.start else { return Ok(false) };
        match fs::read_to_string(self.own_folder_of(0).join(OWNER_FILE)) {
            Ok(owner) => Ok(owner == start.folder_of),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
