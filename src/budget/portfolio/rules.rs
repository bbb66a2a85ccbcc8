//! `BudgetRule`: what a budget has to keep, and who may allow that it does not.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::portfolio::calendar::Month;
use gpuplan_units::Usd;

/// One rule, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetRule {
    pub scope: RuleScope,
    /// `None`: that of the portfolio or of the team.
    pub budget: Option<Usd>,
    pub limit: RuleLimit,
    pub on_break: OnBreak,
    pub approval: Option<Approval>,
    pub origin: RuleOrigin,
    /// Of its file.
    pub line: usize,
}

/// What of a portfolio a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleScope {
    Everything,
    Team(String),
    EachTeam,
    Month(Month),
    EachMonth,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RuleLimit {
    /// Least probability that the budget is kept.
    MinChance(f64),
    /// Most of the money that may rest on prices that are older than so many days.
    PriceAge { days: f64, share: f64 },
    /// Most of the budget that may be spent already.
    MaxSpent(f64),
}

/// What comes of a broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnBreak {
    Fail,
    Warn,
}

/// Who allows that a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub by: String,
    /// The first moment at which it no longer counts.
    pub until: Timestamp,
}

/// The file that a rule is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleOrigin {
    Portfolio,
    Policy,
}

/// What was spent before a forecast begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpentSoFar {
    pub total: Usd,
    pub by_team: BTreeMap<String, Usd>,
    pub by_month: BTreeMap<Month, Usd>,
}
