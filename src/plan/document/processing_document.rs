//! `ProcessingDocument`: the plan document of work without GPU, on machines that have none. Its schema is
//! `docs/schema/plan-processing.json`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::error::{DocumentError, VERSION, check_version};
use crate::document::phases::PhasesRecord;
use crate::document::plans::Plans;
use crate::document::processing::ProcessingRecord;
use crate::document::reading::{optional_group, read};
use crate::document::refused::RejectionRecord;
use crate::document::remark::{Remark, sentences};
use crate::document::words::Words;
use crate::document::workload::{InputsRecord, assumptions, stated};
use crate::processing::answer::{ProcessingPlan, ProcessingSet};
use gpuplan_estimate::processing::cpu_seconds;
use gpuplan_units::{Bytes, Seconds};
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::{Assumption, Processing};

/// The whole answer of `gpuplan plan` for data processing: the fields of a plan document that have a meaning for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessingDocument {
    /// As of every plan document.
    pub version: u64,
    /// When the plan was made.
    pub generated_at: Timestamp,
    /// The last moment at which the price of the recommended plan is not stale; `null` where nothing is recommended.
    #[serde(default)]
    pub valid_until: Option<Timestamp>,
    /// What the answer rests on.
    #[serde(default)]
    pub inputs: InputsRecord,
    /// What was asked, and what was assumed where nothing was said.
    pub workload: ProcessingWorkload,
    /// Limits as the workload file and the flags state them, without those that nobody gave.
    #[serde(default)]
    pub limits: Map<String, Value>,
    /// The plans of the answer.
    #[serde(flatten)]
    pub plans: Plans<ProcessingRecord>,
    /// The same work on the CPUs of machines with GPUs, which stand idle.
    #[serde(default)]
    pub on_gpu_machines: Option<ProcessingRecord>,
    /// What is not in the answer, and why.
    #[serde(default)]
    pub rejected: Vec<RejectionRecord>,
    /// How much was looked at.
    #[serde(default)]
    pub counts: ProcessingCounts,
    /// What else is worth knowing, as sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The notes with their figures, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
    /// For a workload with `[[phase]]` whose costliest phase is this one.
    #[serde(flatten, deserialize_with = "optional_group")]
    pub phases: Option<PhasesRecord>,
}

/// What was asked and what was assumed; `file` alone is enough to ask again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessingWorkload {
    /// Name of the workload.
    pub name: String,
    /// Always `processing`.
    pub task: ProcessingTask,
    /// What is done to the data.
    pub processing: AskedProcessing,
    /// What nobody said and was assumed, as sentences.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// The same with figures, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<Remark>,
    /// The workload file with all flags, without keys that nobody gave.
    pub file: Map<String, Value>,
}

/// The word by which a document of this kind is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessingTask {
    /// Work on data, without GPU.
    Processing,
}

/// What is done to the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedProcessing {
    /// Samples in all.
    pub samples: f64,
    /// Of one core; `null` where nobody knows.
    pub cpu_seconds_per_sample: Option<Seconds>,
    /// All samples together.
    pub reads_bytes: Bytes,
    /// All results together.
    pub writes_bytes: Bytes,
    /// Work that is stored together, and lost together where a machine is taken back.
    pub shard_seconds: Seconds,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcessingCounts {
    /// Offers of machines without GPU.
    pub offers: u64,
    /// Plans that keep every limit.
    pub candidates: u64,
}

impl ProcessingDocument {
    /// Of JSON whose version is not checked yet.
    pub fn from_value(value: &Value) -> Result<Self, DocumentError> {
        check_version(value)?;
        let document = read(value).map_err(|error| Plans::<ProcessingRecord>::misread(value).unwrap_or(error))?;
        Ok(document)
    }
}

/// Whether a plan document is one of this kind.
pub(super) fn is_processing(value: &Value) -> bool {
    value.pointer("/workload/task").and_then(Value::as_str) == Some("processing")
}

/// Data processing that was asked for, and what its answer rests on.
pub struct ProcessingContext<'a> {
    /// Complete, with what was assumed.
    pub work: &'a Processing,
    /// As it was asked, flags included.
    pub file: &'a WorkloadFile,
    /// What nobody said.
    pub assumed: &'a [Assumption],
    /// The moment of the answer.
    pub now: Timestamp,
    /// Hashes of catalog and prices.
    pub inputs: InputsRecord,
    /// The language of its sentences.
    pub words: &'a dyn Words,
}

impl ProcessingDocument {
    /// The document of an answer of the planner.
    pub fn new(set: &ProcessingSet, context: &ProcessingContext) -> Self {
        let warnings: Vec<Remark> =
            set.warnings.iter().map(|one| Remark::new(one, context.words.warning(one))).collect();
        let plain = |plan: &ProcessingPlan| ProcessingRecord::new(plan, &[], context.words);
        let best = |plan| ProcessingRecord::new(plan, &set.reasons, context.words);
        Self {
            version: VERSION,
            generated_at: context.now,
            valid_until: set.recommendation.as_ref().map(ProcessingPlan::valid_until),
            inputs: context.inputs.clone(),
            workload: ProcessingWorkload::new(context),
            limits: stated(&context.file.limits),
            plans: Plans {
                recommendation: set.recommendation.as_ref().map(best),
                frontier: set.frontier.iter().map(plain).collect(),
                alternatives: set.alternatives.iter().map(plain).collect(),
            },
            on_gpu_machines: set.on_gpu_machines.as_ref().map(plain),
            rejected: set.rejected.iter().map(|rejected| RejectionRecord::new(rejected, context.words)).collect(),
            counts: ProcessingCounts { offers: set.offers as u64, candidates: set.candidates as u64 },
            notes: sentences(&warnings),
            warnings,
            phases: None,
        }
    }
}

impl ProcessingWorkload {
    fn new(context: &ProcessingContext) -> Self {
        let work = context.work;
        let assumptions = assumptions(context.assumed, context.words);
        Self {
            name: work.name.clone(),
            task: ProcessingTask::Processing,
            processing: AskedProcessing {
                samples: work.samples,
                cpu_seconds_per_sample: cpu_seconds(work).map(Seconds),
                reads_bytes: work.reads,
                writes_bytes: work.writes,
                shard_seconds: work.shard,
            },
            assumed: sentences(&assumptions),
            assumptions,
            file: stated(context.file),
        }
    }
}
