//! The end of a run on this machine: what is written into the store, and who is told.

use std::mem;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use crate::event::Event;
use crate::ports::notify::Occasion;
use crate::rules::outcome::{Outcome, StopReason};
use crate::state::with;
use crate::supervise::supervisor::Supervisor;
use gpuplan_runstore::Phase;

/// Of the time left, kept for recording the outcome.
pub(super) const RECORDING: Duration = Duration::from_secs(2);
/// Whoever is told of the end is waited for so long.
const NOTIFYING: Duration = Duration::from_secs(5);
/// A store that is away is waited for so long, while the machine is there.
const PATIENCE: Duration = Duration::from_mins(1);

impl Supervisor {
    /// What became of the run. The outcome stands whether or not the store takes the record.
    pub(super) async fn record(&mut self, outcome: Outcome) {
        let is_interrupted = outcome == Outcome::Interrupted;
        with(&self.life.state, |state| {
            state.phase = Some(Phase::Ended);
            state.is_done = Some(outcome == Outcome::Completed);
            state.is_taken &= is_interrupted;
        });
        let committed = with(&self.life.state, |state| state.checkpoints.committed);
        let safe =
            committed.map_or_else(|| "nothing is committed".to_owned(), |name| format!("step {} is safe", name.step));
        self.notify(Occasion::Finished, &format!("{}; {safe}", outcome.words()));
        if !is_interrupted {
            // Whoever reads in the status that the run has ended may end this machine at once.
            self.wait_for_notifications().await;
        }
        let (heart, run, node) = (self.heartbeat(), self.life.run.clone(), self.life.rank.node);
        let logs = self.logs.take();
        let recording = async {
            if run.has_epoch(self.life.epoch + 1).await? {
                return Ok(());
            }
            if let Some(warning) = heart.bill().await? {
                self.logger.say(&format!("warning: {warning}"));
            }
            let status = heart.status(0);
            let last = with(&self.life.state, |state| state.output.last_words());
            let failure = || match (outcome, last) {
                (Outcome::Failed(exit), Some(last)) => Some(format!("{exit}: {last}")),
                (Outcome::Failed(exit), None) => Some(exit.to_string()),
                _ => None,
            };
            let why = self.ending.why.clone().or_else(failure);
            if node == 0 {
                let result = json!({
                    "outcome": outcome, "exit": self.ending.exit, "why": why, "epoch": self.life.epoch, "committed": status.committed,
                    "synced": self.ending.is_synced, "starts": status.starts, "spent_usd": status.spent_usd, "ended_at": Timestamp::now(),
                });
                run.write_result(&result).await?;
            }
            if let Some(logs) = &logs {
                // For the same reason before the status.
                let _ = tokio::time::timeout(RECORDING, logs.send()).await;
            }
            run.write_status(node, &status).await?;
            if let Some(logs) = &logs { logs.send().await } else { Ok(()) }
        };
        let why = match tokio::time::timeout(PATIENCE, recording).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("the store does not answer within {} s", PATIENCE.as_secs())),
        };
        if let Some(why) = why {
            self.logger.say(&format!("warning: the outcome is not recorded: {why}"));
        }
        if self.ending.reason == Some(StopReason::Interruption) {
            for source in &self.settings.notices.sources {
                let _ = tokio::time::timeout(RECORDING, source.acknowledge()).await;
            }
        }
    }
    /// Until everybody who is told of something was told, or for so long; what went wrong is said.
    pub(super) async fn wait_for_notifications(&mut self) {
        let notifications = mem::take(&mut self.notifications);
        if tokio::time::timeout(NOTIFYING, notifications.join_all()).await.is_err() {
            self.logger.say(&format!("warning: nobody was notified within {} s", NOTIFYING.as_secs()));
        }
        while let Ok(event) = self.events.try_recv() {
            if let Event::Warning(text) = event {
                self.logger.say(&format!("warning: {text}"));
            }
        }
    }
}
