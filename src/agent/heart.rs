//! What runs beside the program: the heartbeat with its look for a higher epoch, the notices, and the sending of checkpoints.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;

use crate::caps::Caps;
use crate::checkpoint::step_of;
use crate::event::Event;
use crate::notice::{NoticeSource, Urgency};
use crate::place::Place;
use crate::pulse::{Shared, with};
use crate::scan::{Over, Ready, Settling, scan, unless_gone};
use crate::upload::{Shipped, Shipper};
use gpuplan_runstore::billed::Saved;
use gpuplan_runstore::{Billed, Phase, Run, Spent, Status, StoreError};
use gpuplan_telemetry::Sample;
use gpuplan_units::Usd;

/// Between two looks at the checkpoint folder; longer where a look takes long.
const LOOK: Duration = Duration::from_millis(200);
/// The second look at what was seen for the first time comes sooner.
const SECOND_LOOK: Duration = Duration::from_millis(50);
/// A look at the folder may use this part of the time, 0.4 %.
const SHARE_OF_LOOKING: u32 = 250;
/// The bill is written at most so often.
const BILL: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// An answer of a metadata service that takes longer is none.
const NOTICE_ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Failures in a row that are worth a warning.
const WORTH_A_WARNING: u32 = 3;

pub struct Heart {
    pub run: Run,
    pub epoch: u64,
    pub place: Place,
    pub pace: Duration,
    pub caps: Caps,
    pub begun: Instant,
    pub begun_at: Timestamp,
    pub pulse: Shared,
    pub events: mpsc::Sender<Event>,
}

impl Heart {
    /// Beats until a higher epoch shows up. The store may be away for long: the program goes on.
    pub async fn beat(self) {
        let (mut beat, mut billed_at) = (0, None);
        loop {
            beat += 1;
            match self.once(beat, &mut billed_at).await {
                Ok(true) => {}
                Ok(false) => {
                    let _ = self.events.send(Event::Fenced).await;
                    return;
                }
                Err(error) => {
                    let _ = self.events.send(Event::Warning(format!("no heartbeat: {error}"))).await;
                }
            }
            tokio::time::sleep(self.pace).await;
        }
    }

    async fn once(&self, beat: u64, billed_at: &mut Option<Instant>) -> Result<bool, StoreError> {
        if self.run.has_epoch(self.epoch + 1).await? {
            return Ok(false);
        }
        self.run.write_status(self.place.node, &self.status(beat)).await?;
        if self.caps.rate.is_some() && billed_at.is_none_or(|at| at.elapsed() >= BILL) {
            if let Some(warning) = self.bill().await? {
                let _ = self.events.send(Event::Warning(warning)).await;
            }
            *billed_at = Some(Instant::now());
        }
        Ok(true)
    }

    /// Writes what this machine costs so far and reads what all others did. Gives a warning where that is newly not known.
    pub async fn bill(&self) -> Result<Option<String>, StoreError> {
        let Some(billed) = self.billed() else { return Ok(None) };
        self.run.write_billed(&billed).await?;
        let besides = self.run.spent_besides(self.epoch, self.place.node).await?;
        let unreadable = besides.unreadable.clone();
        let before = with(&self.pulse, |pulse| pulse.spent_besides.replace(besides));
        if unreadable.is_empty() || before.is_some_and(|before| before.unreadable == unreadable) {
            return Ok(None);
        }
        let bills = unreadable.join(", ");
        Ok(Some(match self.caps.budget {
            Some(budget) => format!(
                "the budget of ${budget} is kept by what is known alone: bills in the store cannot be read: {bills}"
            ),
            None => format!("what the run cost is not known: bills in the store cannot be read: {bills}"),
        }))
    }

    /// Of all machines and epochs up to now; `None` without a price, or while a bill of another cannot be read.
    pub fn spent(&self) -> Option<Usd> {
        let own = self.billed()?.cost();
        Some(own + with(&self.pulse, |pulse| pulse.spent_besides.as_ref().and_then(Spent::known))?)
    }

    /// The same, of the bills that could be read: by this a budget stops the run. `None` without a price.
    pub fn spent_at_least(&self) -> Option<Usd> {
        let own = self.billed()?.cost();
        Some(
            own + with(&self.pulse, |pulse| pulse.spent_besides.as_ref().map_or(Usd::ZERO, |besides| besides.at_least)),
        )
    }

    fn billed(&self) -> Option<Billed> {
        let elapsed_nanos = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let billing = self.caps.billing;
        let nanos =
            |at: Instant| u64::try_from(at.saturating_duration_since(self.begun).as_nanos()).unwrap_or(u64::MAX);
        self.caps.rate.map(|rate_usd_per_hour| Billed {
            epoch: self.epoch,
            node: self.place.node,
            rate_usd_per_hour,
            minimum_seconds: billing.minimum_seconds,
            from: self.begun_at,
            elapsed_nanos,
            free_if_interrupted_within_seconds: billing.free_if_interrupted_within_seconds,
            is_interrupted: with(&self.pulse, |pulse| pulse.is_taken),
            started_after_nanos: with(&self.pulse, |pulse| pulse.started_at).map(nanos),
            saved: with(&self.pulse, |pulse| pulse.saved)
                .map(|(name, at)| Saved { step: name.step, after_nanos: nanos(at) }),
        })
    }

    pub fn status(&self, beat: u64) -> Status {
        let spent_usd = self.spent();
        with(&self.pulse, |pulse| Status {
            epoch: self.epoch,
            phase: pulse.phase.unwrap_or(Phase::Running),
            beat,
            at: Timestamp::now(),
            committed: pulse.committed,
            progress: pulse.progress,
            starts: pulse.starts,
            staged: pulse.staged,
            backlog_bytes: pulse.backlog_bytes,
            upload_bytes_per_second: pulse.upload_bytes_per_second,
            spent_usd,
            is_done: pulse.is_done,
            warnings: pulse.warnings.clone(),
            sample: pulse.sample.as_ref().map(as_json),
            findings: pulse.findings.clone(),
            disk_free_bytes: pulse.disk_free_bytes,
        })
    }
}

fn as_json(sample: &Sample) -> serde_json::Value {
    serde_json::to_value(sample).expect("a sample is texts, numbers and lists of them")
}

/// Looks at one source of notices until it says that the machine goes.
pub async fn listen(source: Arc<dyn NoticeSource>, events: mpsc::Sender<Event>) {
    let (mut failures, mut advised) = (0, false);
    loop {
        let look = tokio::time::timeout(NOTICE_ANSWERS_WITHIN, source.look()).await;
        let event = match look {
            Ok(Ok(None)) => {
                failures = 0;
                None
            }
            Ok(Ok(Some(notice))) => {
                failures = 0;
                let leaves = notice.urgency == Urgency::Leave;
                let is_news = leaves || !advised;
                advised |= !leaves;
                if leaves {
                    let _ = events.send(Event::Notice { notice, by_cloud: true }).await;
                    return;
                }
                is_news.then_some(Event::Notice { notice, by_cloud: true })
            }
            Ok(Err(_)) | Err(_) => {
                failures += 1;
                (failures == WORTH_A_WARNING)
                    .then(|| Event::Warning(format!("{} does not answer; SIGTERM is still heard", source.name())))
            }
        };
        if let Some(event) = event {
            let _ = events.send(event).await;
        }
        tokio::time::sleep(source.pace()).await;
    }
}

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
    pub begun: Instant,
    pub pulse: Shared,
    pub events: mpsc::Sender<Event>,
}

impl Shipping {
    /// Runs until `finish` says when to end, then sends what is left. Gives back whether all that is complete is safe.
    pub async fn run(mut self, mut finish: watch::Receiver<Option<Finish>>) -> (Self, bool) {
        let mut pause = FIRST_PAUSE;
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
                Ok(Some(ready)) => tokio::select! {
                    shipped = self.ship(&ready) => shipped,
                    () = out_of_time(clock.clone()) => return (self, false),
                },
            };
            match shipped {
                Ok(Shipped::Fenced) => {
                    let _ = self.events.send(Event::Fenced).await;
                    return (self, false);
                }
                Ok(Shipped::Committed(name)) => {
                    pause = FIRST_PAUSE;
                    wait = Duration::ZERO;
                    let _ = self.events.send(Event::Committed(name)).await;
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
                    let _ = self.events.send(Event::Warning(format!("checkpoint not sent yet: {error}"))).await;
                    wait = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
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
        with(&self.pulse, |pulse| {
            (pulse.upload_bytes_per_second, pulse.committed) = (rate, safe);
            if let Shipped::Committed(name) = &shipped {
                pulse.saved = Some((*name, seen_at));
                pulse.backlog_bytes = 0;
            }
        });
        Ok(shipped)
    }

    /// The newest complete checkpoint that is not safe. Intermediate ones that were overtaken are passed over. An error where nobody
    /// can tell whether there is one: that is not to be taken for none.
    async fn newest(&mut self, over: Option<Over>) -> Result<Option<Ready>, StoreError> {
        let (folder, safe) = (self.folder.clone(), self.shipper.safe().map(|safe| safe.step));
        let local = |path: &Path, source| StoreError::Local { path: path.display().to_string(), source };
        let scanned = spawn_blocking(move || unless_gone(scan(&folder))).await;
        let scanned = scanned
            .map_err(io::Error::other)
            .and_then(|scanned| scanned)
            .map_err(|error| local(&self.folder, error))?;
        let listing = scanned.unwrap_or_default();
        let hidden = listing.unreadable.iter().find(|(name, _)| step_of(name) > safe);
        let hidden = hidden.map(|(name, why)| local(&self.folder.join(name), io::Error::other(why.clone())));
        let newest = self.settling.ready(listing, self.begun.elapsed(), over).into_iter().next_back();
        let is_new = newest.as_ref().is_some_and(|newest| Some(newest.step) > safe);
        if let Some(newest) = &newest {
            with(&self.pulse, |pulse| {
                pulse.checkpoint_bytes = newest.entry.bytes();
                pulse.backlog_bytes = if is_new { newest.entry.bytes() } else { 0 };
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
            let _ = self.events.send(Event::Warning(format!("old checkpoints not deleted: {error}"))).await;
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
