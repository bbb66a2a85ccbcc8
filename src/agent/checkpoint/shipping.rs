//! `Shipping`: sends checkpoints to the store as they become complete, beside the program and after it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use backon::BackoffBuilder;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use crate::checkpoint::scan::{Over, Place, Ready, Settling, scan, unless_gone};
use crate::checkpoint::upload::{Shipped, Shipper};
use crate::event::Event;
use crate::life::Life;
use crate::retry::growing_pauses;
use crate::rules::framework::step_of;
use crate::state::with;
use gpuplan_runstore::StoreError;

/// Between two looks at the checkpoint folder; longer where a look takes long.
const LOOK: Duration = Duration::from_millis(200);
/// The second look at what was seen for the first time comes sooner.
const SECOND_LOOK: Duration = Duration::from_millis(50);
/// A look at the folder may use this part of the time, 0.4 %.
const SHARE_OF_LOOKING: u32 = 250;
/// After a checkpoint that could not be sent.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The program is over: until when the last checkpoint may be sent, and whether its last files can be whole without a marker.
#[derive(Clone, Copy, Debug)]
pub struct Finish {
    pub until: Instant,
    pub over: Over,
}

/// Sends checkpoints as they become complete, newest first.
pub struct Shipping {
    pub shipper: Shipper,
    pub settling: Settling,
    pub folder: PathBuf,
    pub place: Place,
    pub life: Life,
}

impl Shipping {
    /// Runs until `finish` says when to end, then sends what is left. Gives back whether all that is complete is safe.
    pub async fn run(mut self, mut finish: watch::Receiver<Option<Finish>>) -> (Self, bool) {
        let endless = growing_pauses(FIRST_PAUSE).without_max_times();
        let mut pauses = endless.build();
        let clock = finish.clone();
        // Pruning may be cut off anywhere: by the end of the program, after which it is made up for.
        let mut is_cut = false;
        loop {
            let last = *finish.borrow_and_update();
            let looked = Instant::now();
            let newest = self.newest(last.map(|finish| finish.over)).await;
            let pace = if self.settling.has_news() { SECOND_LOOK } else { LOOK };
            let mut wait = pace.max(looked.elapsed() * SHARE_OF_LOOKING);
            let shipped = match newest {
                Ok(None) if last.is_some() => {
                    if is_cut && last.is_some_and(|finish| finish.over == Over::Orderly) {
                        tokio::select! {
                            () = self.prune() => {}
                            () = out_of_time(clock) => {}
                        }
                    }
                    return (self, true);
                }
                Ok(None) => Ok(Shipped::Changed),
                Err(error) => Err(error),
                Ok(Some(ready)) if last.is_some() => {
                    self.shipper.hurry();
                    tokio::select! {
                        shipped = self.ship(&ready) => shipped,
                        () = out_of_time(clock.clone()) => return (self, false),
                    }
                }
                Ok(Some(ready)) => tokio::select! {
                    shipped = self.ship(&ready) => shipped,
                    () = out_of_time(clock.clone()) => return (self, false),
                },
            };
            match shipped {
                Ok(Shipped::Fenced) => {
                    let _ = self.life.events.send(Event::Fenced).await;
                    return (self, false);
                }
                Ok(Shipped::Committed(name)) => {
                    pauses = endless.build();
                    wait = Duration::ZERO;
                    let _ = self.life.events.send(Event::Committed(name)).await;
                    if last.is_none_or(|finish| finish.over == Over::Orderly) {
                        tokio::select! {
                            () = self.prune() => is_cut = false,
                            Ok(()) = finish.changed() => is_cut = true,
                            () = out_of_time(clock.clone()) => return (self, true),
                        }
                    }
                }
                Ok(Shipped::Changed) => {}
                Err(error) => {
                    let _ = self.life.events.send(Event::Warning(format!("checkpoint not sent yet: {error}"))).await;
                    wait = pauses.next().unwrap_or(FIRST_PAUSE);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // The sender outlives this task; if it went, the sleep ends the wait.
                Ok(()) = finish.changed() => {}
                () = out_of_time(clock.clone()) => return (self, false),
            }
        }
    }

    async fn ship(&mut self, ready: &Ready) -> Result<Shipped, StoreError> {
        let seen_at = Instant::now();
        let shipped = self.shipper.ship(ready).await?;
        let (rate, safe) = (self.shipper.rate(), self.shipper.safe());
        with(&self.life.state, |state| {
            (state.checkpoints.upload_bytes_per_second, state.checkpoints.committed) = (rate, safe);
            if let Shipped::Committed(name) = &shipped {
                state.checkpoints.saved = Some((*name, seen_at));
                state.checkpoints.backlog_bytes = 0;
            }
        });
        Ok(shipped)
    }

    /// The newest complete checkpoint that is not safe. Intermediate ones that were overtaken are passed over. An error where nobody
    /// can tell whether there is one: that is not to be taken for none.
    async fn newest(&mut self, over: Option<Over>) -> Result<Option<Ready>, StoreError> {
        let (folder, place, safe) = (self.folder.clone(), self.place, self.shipper.safe().map(|safe| safe.step));
        let local = |path: &Path, source| StoreError::Local { path: path.display().to_string(), source };
        let scanned = spawn_blocking(move || unless_gone(scan(&folder, place))).await;
        let scanned = scanned
            .map_err(io::Error::other)
            .and_then(|scanned| scanned)
            .map_err(|error| local(&self.folder, error))?;
        let listing = scanned.unwrap_or_default();
        let hidden = listing.unreadable.iter().find(|(name, _)| step_of(name) > safe);
        let hidden = hidden.map(|(name, why)| local(&self.folder.join(name), io::Error::other(why.clone())));
        let newest = self.settling.ready(listing, self.life.begun.elapsed(), over).into_iter().next_back();
        let is_new = newest.as_ref().is_some_and(|newest| Some(newest.step) > safe);
        if let Some(newest) = &newest {
            with(&self.life.state, |state| {
                state.checkpoints.newest_bytes = newest.entry.bytes();
                state.checkpoints.backlog_bytes = if is_new { newest.entry.bytes() } else { 0 };
            });
        }
        match hidden {
            Some(error) if !is_new => Err(error),
            _ => Ok(newest.filter(|_| is_new)),
        }
    }

    /// Deletes what is no longer kept. Nothing depends on it, so an error is a warning.
    async fn prune(&mut self) {
        if let Err(error) = self.shipper.prune().await {
            let _ = self.life.events.send(Event::Warning(format!("old checkpoints not deleted: {error}"))).await;
        }
    }
}

/// Ends when the program is over and the time after it, too. A notice may shorten that time while the last checkpoint is sent.
pub async fn out_of_time(mut finish: watch::Receiver<Option<Finish>>) {
    loop {
        let until = finish.borrow_and_update().map(|finish| finish.until);
        let is_over = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        let has_changed = async {
            if finish.changed().await.is_err() {
                // Nobody is left who could say otherwise.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = is_over => return,
            () = has_changed => {}
        }
    }
}

#[cfg(test)]
mod tests;
