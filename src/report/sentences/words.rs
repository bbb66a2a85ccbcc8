//! `English`: the sentences of a plan document.

use crate::sentences;
use gpuplan_plan::PickReason;
use gpuplan_plan::document::Words;
use gpuplan_plan::explanation::{Advice, Reason, Rejection, Warning};
use gpuplan_plan::input::fix::InputChange;
use gpuplan_plan::input::store_path::StoreLimit;
use gpuplan_plan::money::bill::Basis;
use gpuplan_plan::spot::promise::Promise;
use gpuplan_plan::training::what_if::Unpriced;
use gpuplan_workload::Assumption;

/// Plan documents in English.
#[derive(Clone, Copy, Debug, Default)]
pub struct English;

impl Words for English {
    fn assumption(&self, assumption: &Assumption) -> String {
        sentences::assumption::sentence(assumption)
    }

    fn reason(&self, reason: &Reason) -> String {
        sentences::reason::sentence(reason)
    }

    fn pick(&self, why: &PickReason) -> String {
        sentences::pick::sentence(why)
    }

    fn advice(&self, advice: &Advice) -> String {
        sentences::advice::sentence(advice)
    }

    fn warning(&self, warning: &Warning) -> String {
        sentences::warning::sentence(warning)
    }

    fn rejection(&self, rejection: &Rejection) -> String {
        sentences::rejection::sentence(rejection)
    }

    fn rejection_fix(&self, rejection: &Rejection) -> String {
        sentences::rejection::fix(rejection)
    }

    fn basis(&self, basis: &Basis) -> String {
        sentences::bill::basis(basis)
    }

    fn promise(&self, promise: &Promise) -> String {
        sentences::spot::promise(promise)
    }

    fn input_change(&self, change: &InputChange) -> String {
        sentences::input::change(change)
    }

    fn staging_limit(&self, limit: StoreLimit) -> String {
        sentences::input::staging_limit(limit).to_owned()
    }

    fn unpriced(&self, why: Unpriced) -> String {
        sentences::finding::unpriced(why).to_owned()
    }
}
