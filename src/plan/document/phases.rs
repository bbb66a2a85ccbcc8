//! Phases one after the other, in a plan document: each one's recommended plan, and the total.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use crate::document::error::DocumentError;
use crate::document::plans::RecordedPlan;
use crate::document::processing::ProcessingRecord;
use crate::document::reading::OptionalGroup;
use crate::document::record::PlanRecord;
use crate::document::remark::Remark;
use crate::document::view::{PlanView, Recommended};
use crate::money::phases::Total;
use gpuplan_units::{Bytes, Hours, Quantiles, Usd};

/// All phases and what they take together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhasesRecord {
    /// In the order in which they run.
    pub phases: Vec<PhaseRecord>,
    /// All phases together.
    pub total: TotalRecord,
}

impl OptionalGroup for PhasesRecord {
    const KEY: &'static str = "phases";
}

/// What is recommended for one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseRecord {
    /// Name of the phase.
    pub name: String,
    /// What the next phase gets from it.
    #[serde(default)]
    pub hands_over_bytes: Option<Bytes>,
    /// Its part of a deadline of all.
    #[serde(default)]
    pub deadline_hours: Option<Hours>,
    /// The plan of the phase.
    pub recommendation: Option<AnyPlan>,
    /// The cheapest plan of the phase on each other cloud, cheapest first; absent in documents of before it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<AnyPlan>,
    /// What else is worth knowing, as sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The notes with their figures, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// What nobody said and was assumed, as sentences.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// The same with figures, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<Remark>,
}

/// All phases together. Their percentiles are added, which is too wide where the phases do not err together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TotalRecord {
    /// Hours of all phases.
    pub run_hours: Quantiles<f64>,
    /// Of all phases.
    pub cost_usd: Quantiles<Usd>,
    /// For all phases; `null`: none was given.
    #[serde(default)]
    pub deadline_hours: Option<Hours>,
}

/// The plan of a phase, with or without GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyPlan {
    /// Training, or a model that answers requests.
    Gpu(Box<PlanRecord>),
    /// Data processing, which has a `work`.
    Processing(Box<ProcessingRecord>),
}

impl PhaseRecord {
    /// Its plan.
    ///
    /// # Errors
    ///
    /// Where nothing is recommended for it.
    pub fn recommended(&self) -> Result<Recommended<'_>, DocumentError> {
        let plan = self.recommendation.as_ref().ok_or(DocumentError::NoRecommendation)?.view();
        Ok(Recommended { phase: &self.name, plan })
    }
}

impl AnyPlan {
    /// What both kinds have in common.
    pub fn view(&self) -> PlanView<'_> {
        match self {
            Self::Gpu(plan) => plan.view(),
            Self::Processing(plan) => plan.view(),
        }
    }
}

impl From<PlanRecord> for AnyPlan {
    fn from(plan: PlanRecord) -> Self {
        Self::Gpu(Box::new(plan))
    }
}

impl From<ProcessingRecord> for AnyPlan {
    fn from(plan: ProcessingRecord) -> Self {
        Self::Processing(Box::new(plan))
    }
}

impl<'de> Deserialize<'de> for AnyPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let read = if value.get("work").is_some() {
            ProcessingRecord::read(&value).map(|plan| Self::Processing(Box::new(plan)))
        } else {
            PlanRecord::read(&value).map(|plan| Self::Gpu(Box::new(plan)))
        };
        read.map_err(D::Error::custom)
    }
}

impl TotalRecord {
    /// What all phases take, and the deadline of all.
    pub fn new(total: Total, deadline: Option<Hours>) -> Self {
        Self { run_hours: total.run_hours, cost_usd: total.cost_usd, deadline_hours: deadline }
    }
}
