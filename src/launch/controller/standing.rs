//! Where a run stands, in words for a person who waits.

use crate::controller::Controller;
use crate::controller::phase::Phase;
use gpuplan_units::Hours;

impl Controller {
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
