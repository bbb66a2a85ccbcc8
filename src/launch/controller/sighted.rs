//! What a run sees of its spot pools, noted as it happens: the forecasts of later plans go by it.

use crate::controller::Controller;
use crate::controller::events::Action;
use crate::controller::phase::{Gang, Phase, Which};
use crate::ports::machine::Pool;
use gpuplan_spot::history::Saw;

impl Controller {
    /// What was seen since this was last asked, the oldest first.
    pub fn take_sightings(&mut self) -> Vec<(Pool, Saw)> {
        std::mem::take(&mut self.sightings)
    }

    /// Of a pool of spot machines; nobody learns from on-demand ones.
    pub(super) fn sees(&mut self, which: Which, saw: Saw) {
        if let Which::Spot(pool) = which {
            self.sightings.push((self.terms.spot[pool].pool.clone(), saw));
        }
    }

    /// The gang that runs on spot machines, by epoch.
    pub(super) fn on_spot(&self) -> Option<(u64, Which)> {
        match &self.phase {
            Phase::Running { gang: Gang { epoch, which: which @ Which::Spot(_), .. }, .. } => Some((*epoch, *which)),
            _ => None,
        }
    }

    /// A gang that runs no more was left, unless it was taken.
    pub(super) fn has_run(&mut self, before: Option<(u64, Which)>) {
        let Some((_, which)) = before.filter(|_| self.on_spot() != before) else { return };
        let Which::Spot(pool) = which else { return };
        let was_lost = (self.sightings.iter().rev())
            .find(|(of, _)| *of == self.terms.spot[pool].pool)
            .is_some_and(|(_, saw)| *saw == Saw::Lost);
        if !was_lost {
            self.sees(which, Saw::Left);
        }
    }

    /// The cloud took the machines of a gang back.
    pub(super) fn taken(&mut self, now: f64, gang: &Gang, why: &str, actions: &mut Vec<Action>) {
        // One that had its notice was about to leave.
        if matches!(&self.phase, Phase::Running { leaving: None, .. }) {
            self.sees(gang.which, Saw::Lost);
        }
        self.lost(now, gang, why, actions);
    }
}
