//! `Slots`: which run of a sweep is started next and where, and what becomes of one that ended. Pure: codes go in, starts come out.

use crate::rules::outcome::{CAP_REACHED, FENCED, INTERRUPTED};
use gpuplan_runstore::sweep::RunState;

/// A run that ends as interrupted although nobody asked it to could not make its last checkpoint safe. So often it is started again.
const MOST_AGAIN: u32 = 3;

/// Where a run stands on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub state: RunState,
    pub why: Option<String>,
    /// Where it runs.
    slot: Option<u32>,
    /// It failed on an earlier machine, so it comes after all that wait.
    is_late: bool,
    again: u32,
}

/// What was known of a run before this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Nothing,
    Completed,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Slots {
    turns: Vec<Turn>,
    /// How many there are.
    room: u32,
    is_ending: bool,
}

impl Slots {
    pub fn new(before: &[Before], room: u32) -> Self {
        let turn = |before: &Before| Turn {
            state: if *before == Before::Completed { RunState::Completed } else { RunState::Waiting },
            why: None,
            slot: None,
            is_late: *before == Before::Failed,
            again: 0,
        };
        Self { turns: before.iter().map(turn).collect(), room, is_ending: false }
    }

    /// The next run and its slot, which it has from now on; `None`: nothing waits, or no slot is free.
    pub fn start(&mut self) -> Option<(u32, u32)> {
        if self.is_ending {
            return None;
        }
        let is_free = |slot: &u32| !self.turns.iter().any(|turn| turn.slot == Some(*slot));
        let slot = (0..self.room).find(is_free)?;
        let waits =
            |late: bool| self.turns.iter().position(|turn| turn.state == RunState::Waiting && turn.is_late == late);
        let index = waits(false).or_else(|| waits(true))?;
        let turn = &mut self.turns[index];
        (turn.state, turn.slot) = (RunState::Running, Some(slot));
        Some((index as u32, slot))
    }

    /// A run ended with the exit code of its agent; `None`: by a signal.
    pub fn ended(&mut self, index: u32, code: Option<i32>) {
        let is_ending = self.is_ending;
        let Some(turn) = self.turns.get_mut(index as usize) else { return };
        turn.slot = None;
        let asks_again = [INTERRUPTED, FENCED, CAP_REACHED].map(|code| Some(i32::from(code))).contains(&code);
        (turn.state, turn.why) = match code {
            Some(0) => (RunState::Completed, None),
            _ if is_ending => (RunState::Waiting, None),
            _ if asks_again && turn.again < MOST_AGAIN => {
                turn.again += 1;
                (RunState::Waiting, None)
            }
            Some(code) => (RunState::Failed, Some(format!("exit code {code}"))),
            None => (RunState::Failed, Some("its agent was killed".to_owned())),
        };
    }

    /// Nothing is started any more: the machine goes.
    pub fn end(&mut self) {
        self.is_ending = true;
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    pub fn count(&self, state: RunState) -> usize {
        self.turns.iter().filter(|turn| turn.state == state).count()
    }

    /// Nothing runs, and nothing will.
    pub fn is_over(&self) -> bool {
        self.count(RunState::Running) == 0 && (self.is_ending || self.count(RunState::Waiting) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_runs_are_passed_over_and_failed_ones_come_last() {
        let mut slots = Slots::new(&[Before::Failed, Before::Completed, Before::Nothing, Before::Nothing], 2);
        assert_eq!([slots.start(), slots.start(), slots.start()], [Some((2, 0)), Some((3, 1)), None]);
        slots.ended(3, Some(0));
        assert_eq!(slots.start(), Some((0, 1)), "in the slot that is free");
        slots.ended(2, Some(0));
        slots.ended(0, Some(1));
        assert!(slots.is_over() && slots.start().is_none());
        assert_eq!((slots.count(RunState::Completed), slots.count(RunState::Failed)), (3, 1));
        assert_eq!(slots.turns()[0].why.as_deref(), Some("exit code 1"));
    }

    #[test]
    fn what_is_interrupted_as_the_machine_goes_waits_for_the_next() {
        let mut slots = Slots::new(&[Before::Nothing; 3], 2);
        slots.start();
        slots.start();
        slots.end();
        slots.ended(0, Some(75));
        assert!(!slots.is_over() && slots.start().is_none());
        slots.ended(1, Some(0));
        assert!(slots.is_over());
        assert_eq!((slots.count(RunState::Waiting), slots.count(RunState::Completed)), (2, 1));
    }

    #[test]
    fn a_checkpoint_that_never_gets_away_fails_its_run_in_the_end() {
        let mut slots = Slots::new(&[Before::Nothing], 1);
        let mut starts = 0;
        while slots.start().is_some() {
            starts += 1;
            slots.ended(0, Some(75));
        }
        assert_eq!((starts, slots.count(RunState::Failed)), (4, 1));
    }
}
