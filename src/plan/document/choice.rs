//! What a plan document says of the plans that a person chooses between, and of what an hour is worth.

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::plan_id;
use crate::choice::picks::{Pick, Role};
use crate::choice::value_of_time::ValueOfTime;
use crate::document::context::Context;
use crate::document::remark::Remark;
use gpuplan_units::{Hours, Quantiles, Usd};

/// One of the cheapest, the recommended and the fastest plan that is sensible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChoiceRecord {
    /// What it is picked for; one plan may be several.
    pub roles: Vec<Role>,
    /// Its identity: it stands in `frontier`.
    pub plan: String,
    /// Of training with what saving and failures of machines take, without waiting and interruptions.
    pub work_hours: Hours,
    /// Everything else until the result: starting and waiting for machines, interruptions and what they cost.
    pub wait_hours: Hours,
    /// Hours from the request to the result.
    pub run_hours: Quantiles<f64>,
    /// When the result is expected, if it is started when the plan is made.
    pub finish_at: Option<Timestamp>,
    /// Of the whole run, as expected today.
    pub cost_usd: Quantiles<Usd>,
    /// Why somebody would take it.
    pub why: Remark,
}

/// What an hour until the result is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueOfTimeRecord {
    /// Dollars an hour; 0 for a service, whose hours are given.
    pub usd_per_hour: Usd,
    /// By the user; else it follows from the amount of work.
    pub is_stated: bool,
}

impl ValueOfTimeRecord {
    pub(super) fn new(value: ValueOfTime) -> Self {
        Self { usd_per_hour: value.usd_per_hour, is_stated: value.is_stated }
    }
}

impl ChoiceRecord {
    pub(super) fn new(pick: &Pick, context: &Context) -> Self {
        let plan = &pick.plan;
        let run = SignedDuration::try_from_secs_f64(plan.run.hours.expected * 3600.0).ok();
        Self {
            roles: pick.roles.clone(),
            plan: plan_id(context.world, plan),
            work_hours: Hours(plan.run.work.expected),
            wait_hours: plan.wait_hours(),
            run_hours: plan.run.hours,
            finish_at: run.and_then(|run| context.now.checked_add(run).ok()),
            cost_usd: plan.cost,
            why: Remark::new(&pick.why, context.words.pick(&pick.why)),
        }
    }
}
