//! Gangs that end by themselves and leave the run no further: a few in a row end it. The count is part of the balance, so that it outlives who leads.

use crate::controller::Controller;
use crate::controller::events::{Action, End};
use crate::controller::phase::{Gang, Next, Phase};

/// Gangs in a row that may end by themselves and leave the run no further.
const MOST_FRUITLESS: u32 = 3;

impl Controller {
    /// A gang ended by itself: nobody took its machines away. One whose boot script fails, or whose life is too short, does so
    /// everywhere: after a few that left the run no further it ends before it costs more.
    pub(super) fn came_to_nothing(&mut self, now: f64, gang: &Gang, what: &str, why: &str, actions: &mut Vec<Action>) {
        let Phase::Running { has_spoken, leaving: None, .. } = &self.phase else {
            return self.lost(now, gang, what, actions);
        };
        if self.may_be_further(gang) {
            return self.lost(now, gang, what, actions);
        }
        let lacks = if *has_spoken { "got any further" } else { "said a word" };
        self.ledger.fruitless += 1;
        if self.ledger.fruitless < MOST_FRUITLESS {
            return self.lost(now, gang, &format!("{what} before the run {lacks}"), actions);
        }
        let why = format!("{MOST_FRUITLESS} times in a row {what} before the run {lacks} ({why})");
        self.end_all(now, Next::End(End::Failed(why)), actions);
    }

    /// A gang lived as long as it was granted, or as it could renew that. Those that leave the run no further, as where a program hangs on every
    /// machine, do so until all the money is gone.
    pub(super) fn has_lived(&mut self, now: f64, gang: &Gang, why: &str, actions: &mut Vec<Action>) {
        let is_leaving = matches!(&self.phase, Phase::Running { leaving: Some(_), .. });
        if !is_leaving && !self.may_be_further(gang) {
            self.ledger.fruitless += 1;
            if self.ledger.fruitless >= MOST_FRUITLESS {
                let why = format!("{MOST_FRUITLESS} times in a row a lease ended before the run got any further");
                return self.end_all(now, Next::End(End::Failed(why)), actions);
            }
        }
        self.is_over(now, gang, why, actions);
    }

    /// The gang left the run further than it found it, or nobody knows: as of a program that counts more steps than its plan.
    fn may_be_further(&self, gang: &Gang) -> bool {
        self.done >= 1.0 || gang.done_before.is_none_or(|before| self.done > before)
    }
}
