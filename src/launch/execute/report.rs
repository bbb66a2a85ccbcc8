//! What the agents of the present gang say in the store, as the controller takes it.

use std::time::Duration;

use tokio::time::Instant;

use crate::controller::events::{Outcome, Report};
use crate::controller::liveness::Sign;
use crate::execute::{CALL, Leader, PollResult};
use gpuplan_runstore::{Phase, Status, StoreError, SweepStatus, Verdict};

/// Agents of a gang end within about a second of the first one, and then send the last that their programs said. Real time.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl Leader<'_, '_> {
    /// What the agent of the present gang says in the store.
    pub(super) async fn report(&mut self) -> PollResult {
        match tokio::time::timeout(CALL, self.read_report()).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => PollResult::Unreadable,
        }
    }

    async fn read_report(&mut self) -> Result<PollResult, StoreError> {
        let Some(status) = self.wiring.store.status(0).await? else { return Ok(PollResult::Nothing) };
        let runs = self.controller.gang_epoch().unwrap_or(self.gang_epoch);
        if !self.store_epochs.contains_key(&runs) {
            // A gang that was there when this process took the lead is the last that claimed the run.
            let before = self.wiring.store.highest_epoch().await?.saturating_sub(1);
            self.store_epochs.insert(runs, before);
        }
        // The last that was ordered before it spoke: one that was refused says nothing.
        let speaks = self.store_epochs.iter().rev().find(|(_, before)| status.epoch > **before);
        let Some(speaks) = speaks.map(|(gang, _)| *gang) else { return Ok(PollResult::Nothing) };
        self.pass_on(&status);
        let outcome = self.outcome(&status).await?;
        if outcome.is_some() && self.others_still_report(status.epoch).await {
            return Ok(PollResult::Awaited);
        }
        self.staged = status.staged.filter(|_| status.phase == Phase::Staging);
        Ok(PollResult::Report(Report {
            epoch: speaks,
            sign: Sign { epoch: status.epoch, beat: status.beat },
            done: self.done(&status).await?,
            has_started: status.starts > 0 || status.phase == Phase::Staging,
            outcome,
        }))
    }

    /// What an agent warns of, once: it may be that nothing of the run is kept.
    fn pass_on(&mut self, status: &Status) {
        for warning in &status.warnings {
            if self.told.insert(format!("{} {warning}", status.epoch)) {
                // The moment stands first.
                let text = warning.split_once(' ').map_or(warning.as_str(), |(_, text)| text);
                (self.wiring.say)(&format!("warning: {text}"));
            }
        }
    }

    /// Share of the work that is safe: of the run, or of all runs of the sweep.
    async fn done(&self, status: &Status) -> Result<f64, StoreError> {
        if self.spec.job.sweep.is_some() {
            return Ok(self.wiring.store.sweep_status().await?.map_or(0.0, |sweep| sweep.done(self.spec.steps)));
        }
        let step = status.committed.map(|name| name.step).unwrap_or_default() as f64;
        Ok((step / self.spec.steps.max(1.0)).min(1.0))
    }

    /// Why the program failed, where it carried a sweep: which runs did.
    async fn failed_runs(&self) -> Result<Option<String>, StoreError> {
        let status = if self.spec.job.sweep.is_some() { self.wiring.store.sweep_status().await? } else { None };
        let failed: Vec<String> = status.iter().flat_map(SweepStatus::failed).map(|run| run.run.clone()).collect();
        Ok((!failed.is_empty()).then(|| format!("{} runs of the sweep: {}", failed.len(), failed.join(", "))))
    }

    /// Whether what the programs of other machines said last may be under way, once the first agent has ended.
    async fn others_still_report(&mut self, epoch: u64) -> bool {
        if self.ended_at.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS {
            return false;
        }
        for node in 1..self.spec.nodes {
            let status = self.wiring.store.status(node).await.ok().flatten();
            if !status.is_some_and(|status| status.epoch == epoch && status.phase == Phase::Ended) {
                return true;
            }
        }
        false
    }

    async fn outcome(&self, status: &Status) -> Result<Option<Outcome>, StoreError> {
        if status.phase != Phase::Ended {
            return Ok(None);
        }
        if status.is_done == Some(true) {
            return Ok(Some(Outcome::Completed));
        }
        // An agent that ended without a word about how left work to do.
        let result = self.wiring.store.result().await?.unwrap_or_default();
        Ok(Some(match Verdict::of(&result) {
            Some(Verdict::GivenUp(why)) => Outcome::GivenUp(why),
            Some(Verdict::Failed(why)) => Outcome::Failed(self.failed_runs().await?.unwrap_or(why)),
            _ if self.failed_elsewhere(status.epoch).await? => {
                Outcome::Failed("on another machine than the first".to_owned())
            }
            _ => Outcome::Interrupted,
        }))
    }

    /// Whether the program of a machine failed, which ended those of all.
    async fn failed_elsewhere(&self, epoch: u64) -> Result<bool, StoreError> {
        for node in 1..self.spec.nodes {
            if self.wiring.store.leaving(epoch, node).await?.is_some_and(|leaving| leaving.is_failure) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
