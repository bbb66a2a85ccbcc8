//! Where the checkpoints of the program are, if it saves elsewhere than it was told.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::checkpoint::elsewhere::Elsewhere;
use crate::checkpoint::restore::Restored;
use crate::rules::outcome::StopReason;
use crate::state::with;
use crate::supervise::supervisor::Supervisor;
use crate::watch::saving::Saving;
use gpuplan_runstore::manifest::HERE;

impl Supervisor {
    /// Where what was restored lies, and so where the next ones are expected.
    pub(super) fn folder_of(&self, restored: &Restored) -> PathBuf {
        restored.folder.clone().unwrap_or_else(|| self.settings.checkpoints.folder.clone())
    }

    /// `None`: the user said where the program saves. Machines of a team have to agree on a folder before any of them saves.
    pub(super) fn saving(&self) -> Option<Saving> {
        let job = self.settings.checkpoints.job.clone().filter(|_| self.life.rank.is_alone())?;
        Some(Saving {
            job,
            told: self.settings.checkpoints.folder.clone(),
            skipped: self.settings.data.as_ref().map(|data| data.folder.clone()),
            since: SystemTime::from(self.life.begun_at),
        })
    }

    /// Below the folder of the job, for what is not where it was told to be.
    pub(super) fn below_the_job(&self, folder: &Path) -> Option<String> {
        let below = folder.strip_prefix(self.settings.checkpoints.job.as_ref()?).ok()?;
        // The folder of the job itself is `.`.
        let below = if below.as_os_str().is_empty() { Path::new(HERE) } else { below };
        (folder != self.settings.checkpoints.folder).then(|| below.to_str().map(str::to_owned))?
    }

    /// The last look, once the program has ended: nothing will be written any more.
    pub(super) async fn where_it_saved(&self, saving: Option<Saving>) -> Option<PathBuf> {
        let saving = saving?;
        if self.ending.reason == Some(StopReason::Fenced) {
            return None;
        }
        let Elsewhere { folder, nameless } = saving.look(true, false).await;
        let is_anything_safe = with(&self.life.state, |state| state.checkpoints.committed.is_some());
        let of_nameless =
            nameless.filter(|_| !is_anything_safe).and_then(|(path, _)| path.parent().map(Path::to_owned));
        folder.or(of_nameless)
    }

    pub(super) fn move_to(&self, folder: PathBuf) -> PathBuf {
        self.logger.say(&format!(
            "the program saves in {}, not in {}: what it saves there is kept, and restored there",
            folder.display(),
            self.settings.checkpoints.folder.display()
        ));
        folder
    }
}
