//! What a plan document says of what is not recommended: rejections, other ways to buy, findings of a profile.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::choice::terms::Terms;
use crate::document::remark::Remark;
use crate::document::words::Words;
use crate::explanation::{Rejected, RejectionReason};
use crate::limits::policy::BrokenRule;
use crate::training::what_if::PricedFinding;
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

impl RejectionRecord {
    /// The rule of `policy.toml` that they break; `None` where something else lets them out.
    pub fn broken_rule(&self) -> Option<BrokenRule> {
        let why = self.why.as_ref().filter(|why| why.kind == "policy")?;
        BrokenRule::deserialize(&Value::Object(why.figures.clone())).ok()
    }
}

/// The recommended machines on one way to buy them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TermsRecord {
    /// The way, such as `on-demand` or `commitment 1y`.
    pub purchase: String,
    /// The run on these terms, or why there is none.
    #[serde(flatten)]
    pub outcome: TermsOutcome,
    /// Why there is none, with figures; its sentence is `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Remark>,
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
    #[serde(default, with = "gpuplan_units::money::signed_usd_or_none")]
    #[schemars(with = "Option<Usd>")]
    pub saves_usd: Option<Usd>,
    /// At best; `null`: see `why_unpriced`.
    #[serde(default)]
    pub saves_hours: Option<Hours>,
    /// Why nobody can say what it would save.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_unpriced: Option<String>,
}

impl RejectionRecord {
    pub(super) fn new(rejected: &Rejected, words: &dyn Words) -> Self {
        let detail = words.rejection(&rejected.why);
        Self {
            what: rejected.what.clone(),
            reason: rejected.why.reason(),
            detail: detail.clone(),
            nearest_fix: words.rejection_fix(&rejected.why),
            why: Some(Remark::new(&rejected.why, detail)),
            count: rejected.count,
        }
    }
}

impl TermsRecord {
    pub(super) fn new(terms: &Terms, words: &dyn Words) -> Self {
        let why = terms.outcome.as_ref().err().map(|why| Remark::new(why, words.rejection(why)));
        let outcome = match &terms.outcome {
            Ok(plan) => TermsOutcome::Kept {
                run_hours: plan.run.hours,
                cost_usd: plan.cost,
                chance_by_deadline: plan.chance_by_deadline,
                bound_to_usd: terms.bound_to,
            },
            Err(why) => TermsOutcome::Refused { refused: words.rejection(why) },
        };
        Self { purchase: terms.purchase.to_owned(), outcome, why }
    }
}

impl FindingRecord {
    pub(super) fn new(priced: &PricedFinding, words: &dyn Words) -> Self {
        let savings = priced.savings.ok();
        Self {
            finding: priced.finding.clone(),
            saves_usd: savings.map(|savings| savings.cost),
            saves_hours: savings.map(|savings| savings.hours),
            why_unpriced: priced.savings.err().map(|why| words.unpriced(why)),
        }
    }
}
