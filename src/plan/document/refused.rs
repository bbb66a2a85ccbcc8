//! What a plan document says of what is not recommended: rejections, other ways to buy, findings of a profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::remark::Remark;
use crate::filters::{Reason, Rejection};
use crate::terms::Terms;
use crate::what_if::PricedFinding;
use gpuplan_units::{Hours, Quantiles, Usd};
use gpuplan_workload::profile::Finding;

/// Candidates of one machine type and terms that are not in the answer, told by the one that came closest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RejectionRecord {
    /// The machines, such as `aws/p5.48xlarge x2 on-demand`.
    pub what: String,
    /// Why, as a word.
    pub reason: RejectionReason,
    /// Why, as a sentence with figures.
    pub detail: String,
    /// What would let it in.
    #[serde(default)]
    pub nearest_fix: String,
    /// Why, with figures; its sentence is `detail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Remark>,
    /// Candidates that this line is about.
    #[serde(default = "one")]
    pub count: u64,
}

fn one() -> u64 {
    1
}

/// Why a candidate is not in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RejectionReason {
    /// A limit of the question or a rule of `policy.toml` excludes it.
    Policy,
    /// The cloud does not sell it.
    NotOffered,
    /// Its price may be wrong.
    PriceSuspect,
    /// Its price is too old.
    PriceStale,
    /// The cloud says that it has none.
    NoCapacity,
    /// Its machines have no fast network between them.
    NoNetwork,
    /// It has too little GPU memory.
    Memory,
    /// No layout fits its number of GPUs.
    Layout,
    /// Requests would wait too long.
    Latency,
    /// A service would be down too often.
    Availability,
    /// The estimate does not cover it.
    Unsupported,
    /// It ends too late.
    Deadline,
    /// A machine costs more an hour than is allowed.
    MaxPrice,
    /// The run costs too much.
    Budget,
    /// Another plan is cheaper and no slower.
    Dominated,
    /// A reason that a newer program wrote.
    #[serde(other)]
    Other,
}

/// The recommended machines on one way to buy them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TermsRecord {
    /// The way, such as `on-demand` or `commitment 1y`.
    pub purchase: String,
    /// The run on these terms, or why there is none.
    #[serde(flatten)]
    pub outcome: TermsOutcome,
}

/// What a run on some terms takes, or why it cannot be had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TermsOutcome {
    /// It keeps every limit.
    Kept {
        /// Hours from the request to the last save.
        run_hours: Quantiles<f64>,
        /// Of the whole run.
        cost_usd: Quantiles<Usd>,
        /// `null`: no deadline was given.
        #[serde(default)]
        chance_by_deadline: Option<f64>,
        /// What is paid whether the machines are used or not, where that is more than the run.
        #[serde(default)]
        bound_to_usd: Option<Usd>,
    },
    /// It does not.
    Refused {
        /// Why, as a sentence.
        refused: String,
    },
}

/// Something that a profile found, and what mending it would save of the recommended plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingRecord {
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// At best; `null`: see `why_unpriced`.
    #[serde(default)]
    pub saves_usd: Option<Usd>,
    /// At best; `null`: see `why_unpriced`.
    #[serde(default)]
    pub saves_hours: Option<Hours>,
    /// Why nobody can say what it would save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_unpriced: Option<String>,
}

impl RejectionRecord {
    pub(super) fn new(rejection: &Rejection) -> Self {
        Self {
            what: rejection.what.clone(),
            reason: rejection.reason.into(),
            detail: rejection.detail.clone(),
            nearest_fix: rejection.nearest_fix.clone(),
            why: None,
            count: rejection.count,
        }
    }
}

impl From<Reason> for RejectionReason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Policy => Self::Policy,
            Reason::NotOffered => Self::NotOffered,
            Reason::PriceSuspect => Self::PriceSuspect,
            Reason::PriceStale => Self::PriceStale,
            Reason::NoCapacity => Self::NoCapacity,
            Reason::NoNetwork => Self::NoNetwork,
            Reason::Memory => Self::Memory,
            Reason::Layout => Self::Layout,
            Reason::Latency => Self::Latency,
            Reason::Availability => Self::Availability,
            Reason::Unsupported => Self::Unsupported,
            Reason::Deadline => Self::Deadline,
            Reason::MaxPrice => Self::MaxPrice,
            Reason::Budget => Self::Budget,
            Reason::Dominated => Self::Dominated,
        }
    }
}

impl TermsRecord {
    pub(super) fn new(terms: &Terms) -> Self {
        let outcome = match &terms.outcome {
            Ok(plan) => TermsOutcome::Kept {
                run_hours: plan.run.hours,
                cost_usd: plan.cost,
                chance_by_deadline: plan.chance_by_deadline,
                bound_to_usd: terms.bound_to,
            },
            Err(why) => TermsOutcome::Refused { refused: why.clone() },
        };
        Self { purchase: terms.purchase.to_owned(), outcome }
    }
}

impl FindingRecord {
    pub(super) fn new(priced: &PricedFinding) -> Self {
        Self {
            finding: priced.finding.clone(),
            saves_usd: priced.saves_usd,
            saves_hours: priced.saves_hours.map(Hours),
            why_unpriced: priced.why_unpriced.map(str::to_owned),
        }
    }
}
