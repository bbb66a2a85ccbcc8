//! `PlanSet`: the whole answer of the planner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::Plan;
use crate::choice::picks::Pick;
use crate::choice::terms::Terms;
use crate::choice::value_of_time::ValueOfTime;
use crate::explanation::{Rejected, Warning};
use crate::limits::KnownQuota;
use crate::training::what_if::PricedFinding;

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Counts {
    /// Offers of the market.
    pub offers: u64,
    /// Different machines, each with a number of them.
    pub shapes: u64,
    /// Layouts whose memory and time were estimated.
    pub layouts_estimated: u64,
    /// Plans that were priced or refused.
    pub candidates: u64,
}

/// The whole answer.
#[derive(Clone, Debug)]
pub struct PlanSet {
    pub recommendation: Option<Plan>,
    /// The cheapest, the recommended and the fastest that is sensible.
    pub picks: Vec<Pick>,
    pub value_of_time: ValueOfTime,
    /// Nothing else is both cheaper and faster; cheapest first.
    pub frontier: Vec<Plan>,
    /// The best of every GPU that is not on the frontier, cheapest first.
    pub alternatives: Vec<Plan>,
    /// The recommended machines on every way to buy them.
    pub terms: Vec<Terms>,
    pub rejected: Vec<Rejected>,
    /// Closest of what was refused, where nothing is left.
    pub nearest: Vec<Rejected>,
    /// Money alone keeps a plan out.
    pub only_money: bool,
    /// A rule of the house alone keeps a plan out.
    pub only_policy: bool,
    pub counts: Counts,
    /// What was known of the user's accounts.
    pub quotas: Vec<KnownQuota>,
    /// What a profile of the run found, and what fixing it would save of the recommended plan.
    pub findings: Vec<PricedFinding>,
    /// What else to know about the answer: its notes.
    pub warnings: Vec<Warning>,
}
