//! Where a run stands, how much of it is saved, and both in words for a person who waits.

use crate::controller::Controller;
use crate::controller::phase::Phase;
use gpuplan_units::Hours;

impl Controller {
    /// Share of the work that is safe.
    pub fn done(&self) -> f64 {
        self.done
    }

    /// The same; `None` until a checkpoint was seen.
    pub fn saved(&self) -> Option<f64> {
        (self.has_saved || self.done > 0.0).then_some(self.done)
    }

    /// What is left of the work of a gang that ended.
    pub(super) fn kept(&self) -> &'static str {
        if self.has_saved {
            "its work is saved"
        } else {
            "nothing was saved, so it begins again: `--checkpoints DIR` says where a program saves"
        }
    }

    /// Where the run stands, for a person who waits.
    pub fn standing(&self, now: f64) -> String {
        let nodes = self.terms.nodes;
        match &self.phase {
            Phase::Choosing { from } => {
                let why = self
                    .last_refusal
                    .as_ref()
                    .map_or_else(String::new, |(pool, refusal)| format!("; last: {pool}: {refusal}"));
                format!("waiting, trying again in {}{why}", Hours((from - now).max(0.0) / 3600.0))
            }
            Phase::Creating { gang, .. } => {
                format!(
                    "renting {}, machine {} of {nodes}",
                    self.choice(gang.which).pool,
                    (gang.machines.len() + 1).min(nodes as usize)
                )
            }
            Phase::Running { gang, is_working, has_started, liveness, .. } => {
                format!(
                    "{} {nodes} x {}{}",
                    if *is_working || *has_started { "running on" } else { "starting" },
                    self.choice(gang.which).pool,
                    if liveness.is_blind() { ", not heard of now: the store does not answer" } else { "" }
                )
            }
            Phase::Ending { .. } => "ending machines and checking that they are gone".to_owned(),
            Phase::Ended(_) => "ended".to_owned(),
        }
    }
}
