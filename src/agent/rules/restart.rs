//! When a program that crashed is started again, and after how long a pause. Pure: what happened goes in, a decision comes out.

use std::time::Duration;

use crate::rules::outcome::Exit;

/// Crashes without progress in between after which it is given up.
const MOST_CRASHES: u32 = 3;
/// Crashes before the first sign of progress after which it is given up: a program that cannot start will not learn to.
const MOST_STARTS: u32 = 1;
/// A shell's words for a command that cannot be run and one that is not there.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// A crash as the agent saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub exit: Exit,
    /// Newest step that is known: reported by the program or of a complete checkpoint.
    pub step: Option<u64>,
    /// The program itself reported the step, so that the same one twice means the same place.
    pub is_exact: bool,
    /// It got further than when it was started.
    pub progressed: bool,
    /// The system killed something for lack of memory meanwhile.
    pub out_of_memory: bool,
    pub disk_full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Again { after: Duration },
    GiveUp { why: &'static str },
}

/// Crashes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    crashes: u32,
    last_exact_step: Option<u64>,
    ever_progressed: bool,
}

impl History {
    /// Decides after a crash. `first_pause` doubles with every crash in a row.
    pub fn after(&mut self, crash: Crash, first_pause: Duration) -> Decision {
        let give_up = |why| Decision::GiveUp { why };
        if crash.progressed {
            self.crashes = 0;
            self.ever_progressed = true;
        }
        self.crashes += 1;
        let same_step = crash.is_exact && crash.step.is_some() && crash.step == self.last_exact_step;
        self.last_exact_step = crash.step.filter(|_| crash.is_exact);
        if matches!(crash.exit, Exit::Code(code) if CANNOT_RUN.contains(&code)) {
            return give_up("the command cannot be run");
        }
        if crash.out_of_memory {
            return give_up("the machine ran out of memory, which another start would repeat");
        }
        if crash.disk_full {
            return give_up("the disk is full, which another start would repeat");
        }
        if same_step {
            return give_up("it crashed twice at the same step");
        }
        if !self.ever_progressed && self.crashes > MOST_STARTS {
            return give_up("it crashed twice before any progress");
        }
        if self.crashes > MOST_CRASHES {
            return give_up("it crashed again and again without progress");
        }
        Decision::Again { after: first_pause.saturating_mul(1 << (self.crashes - 1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);
    const CRASH: Crash = Crash {
        exit: Exit::Code(1),
        step: Some(5),
        is_exact: false,
        progressed: false,
        out_of_memory: false,
        disk_full: false,
    };

    #[test]
    fn a_program_that_makes_progress_is_always_started_again() {
        let mut history = History::default();
        for step in 0..100 {
            let crash = Crash { step: Some(step), is_exact: true, progressed: true, ..CRASH };
            assert_eq!(history.after(crash, PAUSE), Decision::Again { after: PAUSE });
        }
    }

    #[test]
    fn without_progress_the_pauses_double_and_end() {
        let mut history = History::default();
        let mut seconds = Vec::new();
        while let Decision::Again { after } = history.after(Crash { progressed: seconds.is_empty(), ..CRASH }, PAUSE) {
            seconds.push(after.as_secs());
        }
        assert_eq!(seconds, [10, 20, 40]);
    }

    #[test]
    fn a_program_that_cannot_start_is_tried_once_more() {
        let mut history = History::default();
        assert_eq!(history.after(CRASH, PAUSE), Decision::Again { after: PAUSE });
        assert_eq!(history.after(CRASH, PAUSE), Decision::GiveUp { why: "it crashed twice before any progress" });
    }

    #[test]
    fn what_would_only_repeat_is_not_tried_again() {
        for crash in [
            Crash { exit: Exit::Code(127), ..CRASH },
            Crash { out_of_memory: true, exit: Exit::Signal(9), ..CRASH },
            Crash { disk_full: true, ..CRASH },
        ] {
            assert!(matches!(History::default().after(crash, PAUSE), Decision::GiveUp { .. }), "{crash:?}");
        }
        let mut history = History::default();
        let crash = Crash { is_exact: true, progressed: true, ..CRASH };
        assert!(matches!(history.after(crash, PAUSE), Decision::Again { .. }));
        assert_eq!(history.after(crash, PAUSE), Decision::GiveUp { why: "it crashed twice at the same step" });
    }
}
