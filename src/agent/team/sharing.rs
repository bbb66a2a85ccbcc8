//! What a machine that is not the first does with checkpoints: sends its files of those that the first asks for.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::checkpoint::scan::{Over, Place, Ready, entry, scan, unless_gone};
use crate::checkpoint::shipping::{Finish, out_of_time};
use crate::checkpoint::upload::Shipper;
use crate::event::Event;
use crate::life::Life;
use crate::rules::framework::{Completeness, Entry, Framework, Seen};
use crate::state::with;
use crate::team::members;
use gpuplan_runstore::{Part, StoreError, Wanted};

/// Between two looks for what is asked.
const LOOK: Duration = Duration::from_millis(500);
/// After an error.
const PAUSE: Duration = Duration::from_secs(2);

/// Sends this machine's files of the checkpoints that the first machine asks for.
pub struct Sharing {
    pub life: Life,
    pub shipper: Shipper,
    pub folder: PathBuf,
    pub framework: Framework,
    pub settle: Duration,
    /// With the first machine, which sends what is in it.
    pub shares_a_folder: bool,
}

/// Since when a machine's files of a checkpoint look the same.
struct Unchanged {
    step: u64,
    files: Option<Vec<Seen>>,
    since: Instant,
    looks: u32,
}

/// What a machine has of a checkpoint.
enum Found {
    Unsettled,
    Nothing,
    Complete(Entry),
}

impl Sharing {
    /// Until the first machine has ended, or the time is over. Gives back whether it was served to the end.
    pub async fn run(mut self, finish: watch::Receiver<Option<Finish>>) -> bool {
        let (mut unchanged, mut given) = (None, None);
        loop {
            let last = *finish.borrow();
            let served = tokio::select! {
                served = self.serve(&mut unchanged, &mut given, last.map(|finish| finish.over)) => served,
                () = out_of_time(finish.clone()) => return false,
            };
            let wait = match served {
                Ok(()) => LOOK,
                Err(error) => {
                    let _ = self
                        .life
                        .events
                        .send(Event::Warning(format!("files of a checkpoint not sent yet: {error}")))
                        .await;
                    PAUSE
                }
            };
            if last.is_some() && members::first_has_ended(&self.life.run, self.life.epoch).await {
                return true;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = out_of_time(finish.clone()) => return false,
            }
        }
    }

    async fn serve(
        &mut self,
        unchanged: &mut Option<Unchanged>,
        given: &mut Option<u64>,
        over: Option<Over>,
    ) -> Result<(), StoreError> {
        let Some(wanted) = self.life.run.wanted(self.life.epoch).await?.filter(|wanted| *given < Some(wanted.step))
        else {
            return Ok(());
        };
        let found = if self.shares_a_folder { Found::Nothing } else { self.files_of(&wanted, unchanged, over)? };
        let files = match found {
            Found::Unsettled => return Ok(()),
            Found::Nothing => Vec::new(),
            Found::Complete(entry) => {
                let framework = wanted.framework.parse().unwrap_or(self.framework);
                let bytes = entry.bytes();
                with(&self.life.state, |state| state.checkpoints.newest_bytes = bytes);
                match self.shipper.upload(&Ready { entry, step: wanted.step, framework }).await? {
                    Some(files) => files,
                    None => return Ok(()),
                }
            }
        };
        self.life.run.give(self.life.epoch, wanted.step, self.life.rank.node, &Part { files }).await?;
        *given = Some(wanted.step);
        let rate = self.shipper.rate();
        with(&self.life.state, |state| state.checkpoints.upload_bytes_per_second = rate);
        Ok(())
    }

    /// This machine's files of a checkpoint.
    ///
    /// Where the first machine's marker is written after all shards of all machines (DCP, Trainer, DeepSpeed, Megatron, Orbax), it
    /// speaks for this machine's files, too. Where each machine writes a checkpoint of its own, each has to be complete here.
    /// What cannot be read is an error: without its files the checkpoint would be committed as if there were none.
    fn files_of(
        &self,
        wanted: &Wanted,
        unchanged: &mut Option<Unchanged>,
        over: Option<Over>,
    ) -> Result<Found, StoreError> {
        let framework = wanted.framework.parse().unwrap_or(self.framework);
        let path = self.folder.join(&wanted.name);
        let local = |source| StoreError::Local { path: path.display().to_string(), source };
        let found = unless_gone(entry(&path, wanted.name.clone()))
            .map_err(local)?
            .flatten()
            .filter(|entry| !entry.files.is_empty());
        let files = found.as_ref().map(|entry| entry.files.clone());
        let before = unchanged.take().filter(|unchanged| unchanged.step == wanted.step && unchanged.files == files);
        let (since, looks) = before.map_or((Instant::now(), 1), |before| (before.since, before.looks + 1));
        *unchanged = Some(Unchanged { step: wanted.step, files, since, looks });
        let trackers = unless_gone(scan(&self.folder, Place::Told)).map_err(local)?.unwrap_or_default().trackers;
        let one_speaks_for_all = !matches!(framework, Framework::Auto | Framework::Files | Framework::Lightning);
        let is_marked = found.as_ref().is_some_and(|entry| framework.judge(entry, &trackers) == Completeness::Marked);
        let is_settled = since.elapsed() >= self.settle || over == Some(Over::Orderly);
        let is_complete = if one_speaks_for_all || is_marked { looks > 1 || over.is_some() } else { is_settled };
        Ok(match found {
            Some(entry) if is_complete => Found::Complete(entry),
            // Nothing to be seen of it is an answer only when nothing can come any more.
            None if is_settled || over.is_some() || one_speaks_for_all && looks > 1 => Found::Nothing,
            _ => Found::Unsettled,
        })
    }
}
