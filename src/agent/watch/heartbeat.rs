//! `Heartbeat`: says in the store that this agent lives and what it costs, and looks whether a higher epoch has taken over.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::event::Event;
use crate::life::Life;
use crate::rules::caps::Caps;
use crate::state::with;
use gpuplan_runstore::billed::Saved;
use gpuplan_runstore::status::MachineStatus;
use gpuplan_runstore::{Billed, Phase, Spent, Status, StoreError};
use gpuplan_telemetry::Sample;
use gpuplan_units::Usd;

/// The bill is written at most so often.
const BILL: Duration = Duration::from_mins(1);

/// Says that one life of an agent goes on.
pub struct Heartbeat {
    pub life: Life,
    pub caps: Caps,
}

impl Heartbeat {
    /// Beats until a higher epoch shows up. The store may be away for long: the program goes on.
    pub async fn beat(self) {
        let (mut beat, mut billed_at) = (0, None);
        loop {
            beat += 1;
            match self.once(beat, &mut billed_at).await {
                Ok(true) => {}
                Ok(false) => {
                    let _ = self.life.events.send(Event::Fenced).await;
                    return;
                }
                Err(error) => {
                    let _ = self.life.events.send(Event::Warning(format!("no heartbeat: {error}"))).await;
                }
            }
            tokio::time::sleep(self.life.heartbeat).await;
        }
    }

    async fn once(&self, beat: u64, billed_at: &mut Option<Instant>) -> Result<bool, StoreError> {
        if self.life.run.has_epoch(self.life.epoch + 1).await? {
            return Ok(false);
        }
        self.life.run.write_status(self.life.rank.node, &self.status(beat)).await?;
        if self.caps.rate.is_some() && billed_at.is_none_or(|at| at.elapsed() >= BILL) {
            if let Some(warning) = self.bill().await? {
                let _ = self.life.events.send(Event::Warning(warning)).await;
            }
            *billed_at = Some(Instant::now());
        }
        Ok(true)
    }

    /// Writes what this machine costs so far and reads what all others did. Gives a warning where that is newly not known.
    pub async fn bill(&self) -> Result<Option<String>, StoreError> {
        let Some(billed) = self.billed() else { return Ok(None) };
        self.life.run.write_billed(&billed).await?;
        let others = self.life.run.spent_by_others(self.life.epoch, self.life.rank.node).await?;
        let unreadable = others.unreadable.clone();
        let before = with(&self.life.state, |state| state.spending.by_others.replace(others));
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
        Some(own + with(&self.life.state, |state| state.spending.by_others.as_ref().and_then(Spent::known))?)
    }

    /// The same, of the bills that could be read: by this a budget stops the run. `None` without a price.
    pub fn spent_at_least(&self) -> Option<Usd> {
        let own = self.billed()?.cost();
        Some(
            own + with(&self.life.state, |state| {
                state.spending.by_others.as_ref().map_or(Usd::ZERO, |others| others.at_least)
            }),
        )
    }

    fn billed(&self) -> Option<Billed> {
        let elapsed_nanos = u64::try_from(self.life.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let billing = self.caps.billing;
        let nanos =
            |at: Instant| u64::try_from(at.saturating_duration_since(self.life.begun).as_nanos()).unwrap_or(u64::MAX);
        self.caps.rate.map(|rate_usd_per_hour| Billed {
            epoch: self.life.epoch,
            node: self.life.rank.node,
            rate_usd_per_hour,
            minimum_seconds: billing.minimum_seconds,
            from: self.life.begun_at,
            elapsed_nanos,
            free_if_interrupted_within_seconds: billing.free_if_interrupted_within_seconds,
            is_interrupted: with(&self.life.state, |state| state.is_taken),
            started_after_nanos: with(&self.life.state, |state| state.started_at).map(nanos),
            saved: with(&self.life.state, |state| state.checkpoints.saved)
                .map(|(name, at)| Saved { step: name.step, after_nanos: nanos(at) }),
        })
    }

    pub fn status(&self, beat: u64) -> Status {
        let spent_usd = self.spent();
        with(&self.life.state, |state| Status {
            epoch: self.life.epoch,
            ordered_epoch: self.life.ordered_by.as_ref().map(|by| by.epoch),
            launched_at: self.life.ordered_by.as_ref().and_then(|by| by.launched_at),
            phase: state.phase.unwrap_or(Phase::Running),
            beat,
            at: Timestamp::now(),
            committed: state.checkpoints.committed,
            progress: state.progress,
            starts: state.starts,
            staged: state.staged,
            backlog_bytes: state.checkpoints.backlog_bytes,
            upload_bytes_per_second: state.checkpoints.upload_bytes_per_second,
            spent_usd,
            is_done: state.is_done,
            warnings: state.warnings.clone(),
            machine: MachineStatus {
                sample: state.machine.sample.as_ref().map(as_json),
                findings: state.machine.findings.clone(),
                disk_free_bytes: state.machine.disk_free_bytes,
            },
        })
    }
}

fn as_json(sample: &Sample) -> serde_json::Value {
    serde_json::to_value(sample).expect("a sample is texts, numbers and lists of them")
}

#[cfg(test)]
mod tests;
