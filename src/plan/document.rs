//! `PlanDocument`: the one plan document, as `plan --output json` writes it and every other command reads it.
//!
//! Its JSON Schema is `docs/schema/plan.json`. Names, units and meanings change only with [`VERSION`]; fields may be added, so
//! readers ignore those that they do not know, and what was added later may be absent.

pub mod bill;
pub mod error;
pub mod input;
pub mod phases;
pub mod plans;
pub mod processing;
pub mod processing_document;
pub mod record;
pub mod refused;
pub mod remark;
pub mod serving;
pub mod spot;
pub mod workload;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use bill::{BillLineRecord, CostRecord};
pub use error::{DocumentError, VERSION};
pub use input::{FixKind, FixRecord, InputRecord};
pub use phases::{AnyPlan, PhaseRecord, PhasesRecord, TotalRecord};
pub use plans::{Identified, Plans};
pub use processing::ProcessingRecord;
pub use processing_document::ProcessingDocument;
pub use record::{
    CheckpointRecord, Explanation, LayoutRecord, MachinesRecord, NoticeRecord, PlanRecord, PriceRecord, PurchaseTerms,
    StagingRecord, StepPart, StepRecord, SweepRecord, TimeRecord, WaitRecord,
};
pub use refused::{FindingRecord, RejectionReason, RejectionRecord, TermsOutcome, TermsRecord};
pub use remark::Remark;
pub use serving::{LatencyRecord, ServingDetail, ServingRecord, StandbyPlace, StandbyRecord};
pub use spot::{CostBar, PoolRecord, SpotRecord};
pub use workload::{AskedServing, InputsRecord, WorkloadRecord};

use gpuplan_workload::file::WorkloadFile;

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
    pub counts: CountsRecord,
    /// What a profile of the run found, with what mending it would save of the recommended plan.
    #[serde(default)]
    pub findings: Vec<FindingRecord>,
    /// What else is worth knowing, as sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The notes with their figures, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// For a workload with `[[phase]]`: each phase and their total. The rest of the document is then about the costliest one.
    #[serde(flatten)]
    pub phases: Option<PhasesRecord>,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CountsRecord {
    /// Offers of the market.
    pub offers: u64,
    /// Different machines, each with a number of them.
    pub shapes: u64,
    /// Layouts whose memory and time were estimated.
    pub layouts_estimated: u64,
    /// Plans that were priced or refused.
    pub candidates: u64,
}

impl PlanDocument {
    /// Reads the text of a plan file; the version is checked before anything else.
    pub fn read(text: &str) -> Result<Self, DocumentError> {
        Self::from_value(error::checked(text)?)
    }

    /// The same of JSON whose version is not checked yet.
    pub fn from_value(value: Value) -> Result<Self, DocumentError> {
        error::check_version(&value)?;
        if processing_document::is_processing(&value) {
            return Err(DocumentError::Processing);
        }
        serde_json::from_value(value).map_err(|error| DocumentError::Malformed { detail: error.to_string() })
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
        let value = error::checked(text)?;
        if processing_document::is_processing(&value) {
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

    /// The question, to be asked again.
    pub fn workload_file(&self) -> Result<WorkloadFile, DocumentError> {
        workload::workload_file(match self {
            Self::Gpu(document) => &document.workload.file,
            Self::Processing(document) => &document.workload.file,
        })
    }
}
