//! Why nobody can say what fixing a finding of a profile would save.

use gpuplan_plan::training::what_if::Unpriced;

/// Why a finding has no price.
pub fn unpriced(why: Unpriced) -> &'static str {
    match why {
        Unpriced::NoPlan => "there is no plan",
        Unpriced::MachineFault => "a fault of the profiled machine; the plan is made without it",
        Unpriced::NotMeasured => "what it costs cannot be told from this measurement",
        Unpriced::SamePrecision => "the plan is made with this format already",
        Unpriced::LargestMicroBatch => "the plan takes the largest micro batch that pays already",
        Unpriced::Limit => "a limit is in the way of comparing",
        Unpriced::NothingSaved => "it would save nothing on the recommended machines",
        Unpriced::SweepRunTooLarge => "a run of the sweep has no room on the recommended machines",
        Unpriced::TooLarge => "it does not fit on the recommended machines",
    }
}
