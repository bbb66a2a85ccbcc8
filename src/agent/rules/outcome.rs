//! `Outcome`: how a run of the program ended, by evidence. Exit codes alone lie: some frameworks end with 0 and work unfinished.

use std::fmt;

use serde::Serialize;

/// Why the program was asked to end, if it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// By a notice or a signal to the agent.
    Interruption,
    /// By a budget or a lifetime.
    Cap,
    /// It was stalled, and that was to end the run.
    Stall,
    /// Somebody else owns the run.
    Fenced,
}

/// How the program ended, as the system says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Completed,
    /// Worth starting again elsewhere.
    Interrupted,
    Fenced,
    CapReached,
    /// It was stalled, saved what it could, and is not to be started again.
    Stalled,
    /// The data of the job cannot be had, so the program was not started.
    Unprepared,
    Failed(Exit),
}

/// Exit codes of the agent itself. A program's own are passed on, except these.
pub const AGENT_FAULT: u8 = 70;
pub const INTERRUPTED: u8 = 75;
pub const FENCED: u8 = 76;
pub const CAP_REACHED: u8 = 77;

impl Outcome {
    /// A program that was asked to end was interrupted, whatever code it ends with.
    pub fn judge(reason: Option<StopReason>, exit: Exit) -> Self {
        match (reason, exit) {
            (Some(StopReason::Fenced), _) => Self::Fenced,
            (Some(StopReason::Cap), _) => Self::CapReached,
            (Some(StopReason::Stall), _) => Self::Stalled,
            (Some(StopReason::Interruption), _) => Self::Interrupted,
            (None, Exit::Code(0)) => Self::Completed,
            (None, exit) => Self::Failed(exit),
        }
    }

    /// For people.
    pub fn words(self) -> String {
        match self {
            Self::Completed => "completed".to_owned(),
            Self::Interrupted => "interrupted, to be started again".to_owned(),
            Self::Fenced => "taken over by another owner".to_owned(),
            Self::CapReached => "stopped at its budget or lifetime".to_owned(),
            Self::Stalled => "stopped because it was stalled".to_owned(),
            Self::Unprepared => "not started: its data cannot be had".to_owned(),
            Self::Failed(exit) => format!("failed with {exit}"),
        }
    }

    /// Exit code of the agent.
    pub fn code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::Interrupted => INTERRUPTED,
            Self::Fenced => FENCED,
            Self::CapReached | Self::Stalled => CAP_REACHED,
            Self::Unprepared => AGENT_FAULT,
            // 128 and more is how a shell says signals.
            Self::Failed(Exit::Signal(number)) => u8::try_from(128 + number).unwrap_or(1),
            Self::Failed(Exit::Code(code)) => match u8::try_from(code) {
                Ok(0 | AGENT_FAULT | INTERRUPTED | FENCED | CAP_REACHED) | Err(_) => 1,
                Ok(code) => code,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_decides_before_the_code() {
        for code in [0, 1, 75, 143] {
            assert_eq!(
                Outcome::judge(Some(StopReason::Interruption), Exit::Code(code)),
                Outcome::Interrupted,
                "{code}"
            );
        }
        assert_eq!(Outcome::judge(None, Exit::Code(0)), Outcome::Completed);
        assert_eq!(Outcome::judge(Some(StopReason::Cap), Exit::Code(0)).code(), CAP_REACHED);
        assert_eq!(Outcome::judge(Some(StopReason::Stall), Exit::Code(0)), Outcome::Stalled);
        assert_eq!(Outcome::judge(Some(StopReason::Fenced), Exit::Signal(9)).code(), FENCED);
    }

    #[test]
    fn a_failure_never_looks_like_an_answer_of_the_agent() {
        for (exit, code) in
            [(Exit::Code(3), 3), (Exit::Code(75), 1), (Exit::Code(70), 1), (Exit::Signal(15), 143), (Exit::Code(-1), 1)]
        {
            assert_eq!(Outcome::judge(None, exit).code(), code, "{exit:?}");
        }
    }
}
