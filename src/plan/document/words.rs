//! `Words`: the sentences of a document, which are made from the figures outside of this crate.

use crate::choice::picks::PickReason;
use crate::explanation::{Advice, Reason, Rejection, Warning};
use crate::input::fix::InputChange;
use crate::input::store_path::StoreLimit;
use crate::money::bill::Basis;
use crate::spot::promise::Promise;
use crate::training::what_if::Unpriced;
use gpuplan_workload::Assumption;

/// One sentence, or part of one, for each thing that a plan document says to people.
pub trait Words {
    /// What was taken where nobody said anything.
    fn assumption(&self, assumption: &Assumption) -> String;
    /// Why a plan is recommended.
    fn reason(&self, reason: &Reason) -> String;
    /// Why somebody would take one of the three plans.
    fn pick(&self, why: &PickReason) -> String;
    /// What to do to run a plan well.
    fn advice(&self, advice: &Advice) -> String;
    /// What to know beside a plan.
    fn warning(&self, warning: &Warning) -> String;
    /// Why a candidate is not in the answer.
    fn rejection(&self, rejection: &Rejection) -> String;
    /// What would let it in.
    fn rejection_fix(&self, rejection: &Rejection) -> String;
    /// What a line of a bill, or a rate of losses, rests on.
    fn basis(&self, basis: &Basis) -> String;
    /// When a plan on spot machines ends, under which conditions and at which cost.
    fn promise(&self, promise: &Promise) -> String;
    /// A change that shortens the waiting for samples.
    fn input_change(&self, change: &InputChange) -> String;
    /// What holds up the bringing of the data.
    fn staging_limit(&self, limit: StoreLimit) -> String;
    /// Why nobody can say what fixing a finding saves.
    fn unpriced(&self, why: Unpriced) -> String;
}
