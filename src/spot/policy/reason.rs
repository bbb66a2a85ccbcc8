//! Why a decision was taken, in one line.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    AlwaysOnDemand,
    /// The spot machine runs and its pool is up.
    StayOnSpot,
    SpotIsUp,
    /// Spot is down and there is time to wait.
    WaitForSpot,
    /// Spot is down and the time to wait is used up.
    NoTimeToWait,
    BehindSchedule,
    AheadOfSchedule,
    /// Leaving on-demand would cost more changeover than it saves.
    StayOnDemand,
    /// Spot has lasted long enough to be worth the move.
    SpotHasLasted,
    KeepDeadline,
    /// Another start of spot that is lost before it does any work could make the run too dear.
    KeepCost,
    SoldOut,
    SoldOutTakeSpot,
    /// Spot is up, but too young to be expected to pay for its changeover.
    SpotTooShort,
    WaitForSteadySpot,
    /// A cheaper pool is up and worth the move.
    CheaperPool,
    /// The run ends here.
    BudgetReached,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlwaysOnDemand => "only on-demand is allowed",
            Self::StayOnSpot => "spot still runs",
            Self::SpotIsUp => "spot is up and there is time for its changeover",
            Self::WaitForSpot => "spot is down and there is time to wait for it",
            Self::NoTimeToWait => "spot is down and the time left to wait is needed as reserve",
            Self::BehindSchedule => "less is done than the schedule asks",
            Self::AheadOfSchedule => "more is done than the schedule asks",
            Self::StayOnDemand => "leaving on-demand would cost more than spot saves",
            Self::SpotHasLasted => "spot has been up long enough to be worth leaving on-demand",
            Self::KeepDeadline => "anything else could miss the deadline",
            Self::KeepCost => "another spot machine, lost before it does any work, could make the run too dear",
            Self::SoldOut => "on-demand is sold out and no spot is up",
            Self::SoldOutTakeSpot => "on-demand is sold out, spot is up",
            Self::SpotTooShort => "spot is up but not expected to last long enough to pay for its changeover",
            Self::WaitForSteadySpot => "spot is up but not expected to last, and there is time to wait",
            Self::BudgetReached => "the next step would cost more than the budget has left",
            Self::CheaperPool => "a cheaper pool is up and pays for the move",
        })
    }
}
