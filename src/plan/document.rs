//! `PlanDocument`: the one plan document, as `plan --output json` writes it and every other command reads it.
//!
//! Its JSON Schema is `docs/schema/plan.json`. Names, units and meanings change only with [`VERSION`]; fields may be added, so
//! readers ignore those that they do not know, and what was added later may be absent.

pub mod choice;
pub mod context;
pub mod error;
pub mod job_record;
pub mod phases;
pub mod plans;
pub mod processing;
pub mod processing_document;
pub mod reading;
pub mod record;
pub mod refused;
pub mod remark;
pub mod view;
pub mod words;
pub mod workload;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use choice::{ChoiceRecord, ValueOfTimeRecord};
pub use context::Context;
pub use error::{DocumentError, VERSION};
pub use job_record::{JobComparison, JobRecord, KeyRecord, NodeRange, PlanDifference};
pub use phases::{AnyPlan, PhaseRecord, PhasesRecord, TotalRecord};
pub use plans::{Plans, RecordedPlan};
pub use processing::{ProcessingRecord, processing_id};
pub use processing_document::{ProcessingContext, ProcessingDocument};
pub use record::cost::{BillLineRecord, CostRecord};
pub use record::energy::{EnergyRecord, GridRecord, PueRecord};
pub use record::input::{FixKind, FixRecord, InputRecord};
pub use record::machines::{MachinesRecord, PriceRecord, PurchaseTerms};
pub use record::run::{CheckpointRecord, NoticeRecord, StagingRecord, SweepRecord, TimeRecord, WaitRecord};
pub use record::serving::{
    LatencyRecord, PrefillRecord, ServingDetail, ServingRecord, StandbyPlace, StandbyRecord, per_token_band,
};
pub use record::spot::{CostBar, PoolRecord, SpotRecord};
pub use record::step::{LayoutRecord, StepPart, StepRecord, time_parts};
pub use record::{Explanation, PlanRecord};
pub use refused::{FindingRecord, RejectionRecord, TermsOutcome, TermsRecord};
pub use remark::Remark;
pub use view::{PlanView, Recommended};
pub use words::Words;
pub use workload::{AskedServing, InputsRecord, WorkloadRecord, stated};

use crate::candidate::Plan;
use crate::explanation::Rejected;
pub use crate::explanation::RejectionReason;
use crate::explanation::evidence::{Evidence, evidence};
use crate::plan_set::{Counts, PlanSet};
use gpuplan_units::{Bytes, Hours};
use gpuplan_workload::file::WorkloadFile;
use reading::{optional_group, read};
use remark::sentences;

/// The whole answer of `gpuplan plan` for work on GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDocument {
    /// See [`VERSION`].
    pub version: u64,
    /// When the plan was made.
    pub generated_at: Timestamp,
    /// The last moment at which no price of the recommended plan is stale; `null` where nothing is recommended.
    #[serde(default)]
    pub valid_until: Option<Timestamp>,
    /// What the answer rests on; `plan --locked` starts again from here.
    #[serde(default)]
    pub inputs: InputsRecord,
    /// What was asked, and what was assumed where nothing was said.
    pub workload: WorkloadRecord,
    /// Limits as the workload file and the flags state them, without those that nobody gave.
    #[serde(default)]
    pub limits: Map<String, Value>,
    /// The plans of the answer.
    #[serde(flatten)]
    pub plans: Plans<PlanRecord>,
    /// The cheapest, the recommended and the fastest plan that is sensible, each once.
    #[serde(default)]
    pub choices: Vec<ChoiceRecord>,
    /// What an hour until the result counts in the choice.
    #[serde(default)]
    pub value_of_time: Option<ValueOfTimeRecord>,
    /// The recommended machines on every way to buy them.
    #[serde(default)]
    pub terms: Vec<TermsRecord>,
    /// What is not in the answer, and why.
    #[serde(default)]
    pub rejected: Vec<RejectionRecord>,
    /// The rejections that came closest, where nothing is left.
    #[serde(default)]
    pub nearest: Vec<RejectionRecord>,
    /// How much was looked at.
    #[serde(default)]
    pub counts: Counts,
    /// What a profile of the run found, with what mending it would save of the recommended plan.
    #[serde(default)]
    pub findings: Vec<FindingRecord>,
    /// What the recommended plan rests on beside the hardware, and how old each kind of it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// What else is worth knowing, as sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The notes with their figures, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// For a workload with `[[phase]]`: each phase and their total. The rest of the document is then about the costliest one.
    #[serde(flatten, deserialize_with = "optional_group")]
    pub phases: Option<PhasesRecord>,
    /// For `plan --from JOB`: the existing job, its plan on its own machines, and the difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<JobComparison>,
}

impl PlanDocument {
    /// The document of an answer of the planner.
    pub fn new(set: &PlanSet, context: &Context) -> Self {
        let words = context.words;
        let record = |plan: &Plan| PlanRecord::new(plan, context);
        let rejected = |rejected: &Rejected| RejectionRecord::new(rejected, words);
        let warnings: Vec<Remark> = set.warnings.iter().map(|one| Remark::new(one, words.warning(one))).collect();
        Self {
            version: VERSION,
            generated_at: context.now,
            valid_until: set.recommendation.as_ref().map(|plan| plan.valid_until(context.world.market)),
            inputs: InputsRecord { quotas: set.quotas.clone(), ..InputsRecord::new(context) },
            workload: WorkloadRecord::new(context),
            limits: stated(&context.file.limits),
            plans: Plans {
                recommendation: set.recommendation.as_ref().map(record),
                frontier: set.frontier.iter().map(record).collect(),
                alternatives: set.alternatives.iter().map(record).collect(),
            },
            choices: set.picks.iter().map(|pick| ChoiceRecord::new(pick, context)).collect(),
            value_of_time: Some(ValueOfTimeRecord::new(set.value_of_time)),
            terms: set.terms.iter().map(|terms| TermsRecord::new(terms, words)).collect(),
            rejected: set.rejected.iter().map(rejected).collect(),
            nearest: set.nearest.iter().map(rejected).collect(),
            counts: set.counts,
            findings: set.findings.iter().map(|priced| FindingRecord::new(priced, words)).collect(),
            evidence: set.recommendation.iter().flat_map(|plan| evidence(plan, context.world, context.now)).collect(),
            notes: sentences(&warnings),
            warnings,
            phases: None,
            from: None,
        }
    }

    /// Reads the text of a plan file; the version is checked before anything else.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        Self::from_value(&error::checked(text)?)
    }

    /// The same of JSON whose version is not checked yet.
    pub fn from_value(value: &Value) -> Result<Self, DocumentError> {
        error::check_version(value)?;
        if processing_document::is_processing(value) {
            return Err(DocumentError::Processing);
        }
        let document = read(value).map_err(|error| Plans::<PlanRecord>::misread(value).unwrap_or(error))?;
        Ok(document)
    }

    /// The plan with this id, else the recommended one.
    pub fn pick(&self, id: Option<&str>) -> Result<&PlanRecord, DocumentError> {
        self.plans.pick(id)
    }

    /// What the workload file or a flag says of one limit, such as `deadline`.
    pub fn limit(&self, name: &str) -> Option<&str> {
        self.limits.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

/// A plan document of either kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyDocument {
    /// Training, or a model that answers requests.
    Gpu(Box<PlanDocument>),
    /// Data processing on machines without GPU.
    Processing(Box<ProcessingDocument>),
}

impl AnyDocument {
    /// Reads the text of a plan file; the version is checked before anything else.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        Self::from_value(&error::checked(text)?)
    }

    /// The same of JSON whose version is not checked yet.
    pub fn from_value(value: &Value) -> Result<Self, DocumentError> {
        if processing_document::is_processing(value) {
            ProcessingDocument::from_value(value).map(|document| Self::Processing(Box::new(document)))
        } else {
            PlanDocument::from_value(value).map(|document| Self::Gpu(Box::new(document)))
        }
    }

    /// When the plan was made.
    pub fn generated_at(&self) -> Timestamp {
        match self {
            Self::Gpu(document) => document.generated_at,
            Self::Processing(document) => document.generated_at,
        }
    }

    /// What the answer rests on.
    pub fn inputs(&self) -> &InputsRecord {
        match self {
            Self::Gpu(document) => &document.inputs,
            Self::Processing(document) => &document.inputs,
        }
    }

    /// Each phase and their total, where the workload has phases.
    pub fn phases(&self) -> Option<&PhasesRecord> {
        match self {
            Self::Gpu(document) => document.phases.as_ref(),
            Self::Processing(document) => document.phases.as_ref(),
        }
    }

    /// All that it recommends, in the order of its phases.
    ///
    /// # Errors
    ///
    /// Where it recommends nothing, or nothing for one of its phases.
    pub fn recommended(&self) -> Result<Vec<Recommended<'_>>, DocumentError> {
        if let Some(all) = self.phases() {
            return all.phases.iter().map(PhaseRecord::recommended).collect();
        }
        let plan = match self {
            Self::Gpu(document) => document.pick(None)?.view(),
            Self::Processing(document) => document.plans.pick(None)?.view(),
        };
        Ok(vec![Recommended { phase: "", plan }])
    }

    /// Name of the workload, what its file and the flags say of it, and their limits: without what nobody gave.
    pub fn asked(&self) -> (&str, &Map<String, Value>, &Map<String, Value>) {
        match self {
            Self::Gpu(document) => (&document.workload.name, &document.workload.file, &document.limits),
            Self::Processing(document) => (&document.workload.name, &document.workload.file, &document.limits),
        }
    }

    /// What is not in the answer, and why.
    pub fn rejected(&self) -> &[RejectionRecord] {
        match self {
            Self::Gpu(document) => &document.rejected,
            Self::Processing(document) => &document.rejected,
        }
    }

    /// The question, to be asked again.
    pub fn workload_file(&self) -> Result<WorkloadFile, DocumentError> {
        workload::workload_file(match self {
            Self::Gpu(document) => &document.workload.file,
            Self::Processing(document) => &document.workload.file,
        })
    }
}

impl AnyDocument {
    /// The document of the costliest phase with all phases, their total and the whole question beside it.
    pub fn with_phases(
        mut self,
        name: &str,
        file: &WorkloadFile,
        valid_until: Option<Timestamp>,
        phases: PhasesRecord,
    ) -> Self {
        let (limits, stated) = (stated(&file.limits), stated(file));
        match &mut self {
            Self::Gpu(document) => {
                (document.workload.name, document.workload.file) = (name.to_owned(), stated);
                (document.limits, document.valid_until, document.phases) = (limits, valid_until, Some(phases));
            }
            Self::Processing(document) => {
                (document.workload.name, document.workload.file) = (name.to_owned(), stated);
                (document.limits, document.valid_until, document.phases) = (limits, valid_until, Some(phases));
            }
        }
        self
    }

    /// What a document of several phases says of this one. `hands_over` is what the next phase gets from it, `deadline` its part of a
    /// deadline of all.
    pub fn into_phase(self, name: &str, hands_over: Option<Bytes>, deadline: Option<Hours>) -> PhaseRecord {
        let (recommendation, alternatives) = match &self {
            Self::Gpu(document) => recommended_and_elsewhere(&document.plans),
            Self::Processing(document) => recommended_and_elsewhere(&document.plans),
        };
        let (notes, warnings, assumed, assumptions) = match self {
            Self::Gpu(document) => {
                (document.notes, document.warnings, document.workload.assumed, document.workload.assumptions)
            }
            Self::Processing(document) => {
                (document.notes, document.warnings, document.workload.assumed, document.workload.assumptions)
            }
        };
        PhaseRecord {
            name: name.to_owned(),
            hands_over_bytes: hands_over,
            deadline_hours: deadline,
            recommendation,
            alternatives,
            notes,
            warnings,
            assumed,
            assumptions,
        }
    }
}

/// The recommended plan, and the cheapest on each other cloud.
fn recommended_and_elsewhere<P: RecordedPlan + Clone + Into<AnyPlan>>(
    plans: &Plans<P>,
) -> (Option<AnyPlan>, Vec<AnyPlan>) {
    let best = plans.recommendation.as_ref();
    let elsewhere = best.map(|best| plans.on_other_clouds(best)).unwrap_or_default();
    (best.cloned().map(Into::into), elsewhere.into_iter().cloned().map(Into::into).collect())
}

#[cfg(test)]
mod tests;
