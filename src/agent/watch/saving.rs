//! Looks whether the program saves where it was told to, and says where it does instead.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio::task::spawn_blocking;

use crate::checkpoint::elsewhere::{Elsewhere, find, is_used};
use crate::event::Event;
use crate::life::Life;

/// Between two looks, in heartbeats: a minute, usually. A look costs nothing beside the training then.
const BEATS: u32 = 6;

/// What is looked for, and where.
#[derive(Clone, Debug)]
pub struct Saving {
    /// The folder of the job.
    pub job: PathBuf,
    /// Where the program was told to save.
    pub told: PathBuf,
    /// Data, which may look like checkpoints.
    pub skipped: Option<PathBuf>,
    /// What is older came with the job.
    pub since: SystemTime,
}

impl Saving {
    /// Where the program saves. What it was told counts before all else, and is all that is looked at once it is followed elsewhere.
    pub async fn look(&self, is_over: bool, is_followed: bool) -> Elsewhere {
        let Self { job, told, skipped, since } = self.clone();
        let look = move || {
            if is_used(&told) {
                return Elsewhere { folder: Some(told), nameless: None };
            }
            if is_followed {
                return Elsewhere::default();
            }
            find(&job, &told, skipped.as_deref(), since, is_over)
        };
        // A look that failed has seen nothing.
        spawn_blocking(look).await.unwrap_or_default()
    }

    /// While the program runs. It is followed to one folder, so that one that saves in two does not make it go to and fro, and back to where
    /// it was told to save.
    pub async fn watch(self, mut watched: PathBuf, life: Life) {
        let (mut has_moved, mut seen) = (false, None);
        loop {
            tokio::time::sleep(life.heartbeat * BEATS).await;
            let Elsewhere { folder, nameless } = self.look(false, has_moved).await;
            // What has no step is a checkpoint once it is written again.
            let again = nameless.clone().filter(|(path, at)| {
                seen.as_ref().is_some_and(|(known, before): &(PathBuf, SystemTime)| known == path && before < at)
            });
            let folder = folder.or_else(|| again.and_then(|(path, _)| path.parent().map(Path::to_owned)));
            if let Some(folder) = folder.filter(|folder| *folder != watched && (*folder == self.told || !has_moved)) {
                has_moved = true;
                watched.clone_from(&folder);
                let _ = life.events.send(Event::SavesIn(folder)).await;
            } else if seen.is_none()
                && watched == self.told
                && let Some((path, _)) = &nameless
            {
                let _ = life.events.send(Event::Warning(nameless_words(path))).await;
            }
            seen = nameless;
        }
    }
}

/// It may have been fetched, or it may be all that the run has saved so far.
fn nameless_words(path: &Path) -> String {
    format!(
        "{} is not kept yet: it is, if it is a checkpoint, once it is written again; what is saved in $GPUPLAN_CKPT_DIR is kept at once",
        path.display()
    )
}
