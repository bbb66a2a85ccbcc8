//! What the agents of the present gang say in the store, as the controller takes it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::controller::events::{Outcome, Report};
use crate::controller::liveness::Sign;
use crate::execute::{CALL, Leader, PollResult};
use gpuplan_runstore::{Phase, Status, StoreError, SweepStatus, Verdict, is_capped};

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
        let speaks = match speaker(&self.store_epochs, &status) {
            Some(speaks) => speaks,
            // Whichever gang it was: one that nobody has heard of, as its leader died before the answer to its order.
            None if status.has_completed(self.spec.started_at) => status.ordered_epoch.unwrap_or_default(),
            None => return Ok(PollResult::Nothing),
        };
        self.pass_on(&status);
        let outcome = self.outcome(&status).await?;
        if outcome.is_some() && self.others_still_report(status.epoch).await {
            return Ok(PollResult::Awaited);
        }
        self.staged = status.staged.filter(|_| status.phase == Phase::Staging);
        let done = self.done(&status).await?;
        Ok(PollResult::Report(Report {
            epoch: speaks,
            sign: Sign { epoch: status.epoch, beat: status.beat },
            done,
            has_saved: status.committed.is_some() || done > 0.0,
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
        let known = self.ended_at.filter(|(of, _)| *of == epoch);
        let (_, ended_at) = *self.ended_at.insert(known.unwrap_or_else(|| (epoch, Instant::now())));
        if ended_at.elapsed() > LAST_WORDS {
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
            _ if is_capped(&result) => Outcome::CapReached,
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

/// The gang whose agent said this. `gangs`: those that may speak, each with the highest epoch of the store before it was ordered.
fn speaker(gangs: &BTreeMap<u64, u64>, status: &Status) -> Option<u64> {
    let spoke_since = |before: &u64| status.epoch > *before;
    match status.ordered_epoch {
        // Another launch of the name counts its gangs from one again: what was there before it was ordered is none of this one.
        Some(gang) => gangs.get(&gang).is_some_and(spoke_since).then_some(gang),
        // Its agent does not know: the last that was ordered before it spoke.
        None => gangs.iter().rev().find(|(_, before)| spoke_since(before)).map(|(gang, _)| *gang),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_runstore::status::MachineStatus;
    use jiff::Timestamp;

    fn said(epoch: u64, ordered_epoch: Option<u64>) -> Status {
        Status {
            epoch,
            ordered_epoch,
            launched_at: None,
            phase: Phase::Running,
            beat: 1,
            at: Timestamp::UNIX_EPOCH,
            committed: None,
            progress: None,
            starts: 1,
            backlog_bytes: 0,
            upload_bytes_per_second: None,
            spent_usd: None,
            staged: None,
            is_done: None,
            warnings: Vec::new(),
            machine: MachineStatus::default(),
        }
    }

    /// It was the refused one that was heard, and the end of the run was missed: another machine was rented for what was completed.
    #[test]
    fn a_gang_that_was_refused_does_not_speak_for_the_one_that_runs() {
        // The second was asked for while the first still booted, and refused.
        let gangs = BTreeMap::from([(1, 0), (2, 0)]);
        assert_eq!(speaker(&gangs, &said(1, Some(1))), Some(1));
        assert_eq!(speaker(&gangs, &said(1, Some(2))), Some(2));
        // Whoever leads on keeps the first, and the second has claimed the run meanwhile.
        let resumed = BTreeMap::from([(1, 1)]);
        assert_eq!(speaker(&resumed, &said(2, Some(2))), None, "nobody knows whether the first lives");
        assert_eq!(speaker(&resumed, &said(1, Some(1))), None, "what it said before it was followed");
        // A run of the same name before this one.
        assert_eq!(speaker(&BTreeMap::from([(1, 7)]), &said(7, Some(1))), None);
        // An agent from before it said whose it is, and one that a group of a cloud started.
        assert_eq!(speaker(&gangs, &said(1, None)), Some(2));
        assert_eq!(speaker(&gangs, &said(0, None)), None);
    }
}
