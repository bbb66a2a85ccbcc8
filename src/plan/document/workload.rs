//! What a plan document says of its question: the workload, what was assumed, and what the answer rests on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::context::Context;
use crate::document::error::DocumentError;
use crate::document::reading::read;
use crate::document::remark::{Remark, sentences};
use crate::document::words::Words;
use crate::limits::KnownQuota;
use gpuplan_estimate::OwnRun;
use gpuplan_estimate::constants::Fitted;
use gpuplan_market::own::OwnPool;
use gpuplan_units::{Hours, Seconds};
use gpuplan_workload::file::WorkloadFile;
use gpuplan_workload::{Assumption, Load, Precision, Sampling, Serving, StoredFormat, Task, Transcription};

/// What an answer rests on: hashes of catalog, prices and measurements, and the seed of all draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InputsRecord {
    /// Of the catalog of machines and models.
    pub catalog_sha256: String,
    /// Of the prices.
    pub offers_sha256: String,
    /// Version of the fitted constants of the estimate.
    pub constants_version: String,
    /// Of the calibrations and profiles that corrected the estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_sha256: Option<String>,
    /// The user's own finished runs that the time goes by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_runs: Vec<OwnRun>,
    /// What the user's own launches saw of pools of spot machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_pools: Vec<OwnPool>,
    /// What the user's accounts may run, as their clouds last said it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<KnownQuota>,
    /// Of the organisation's `policy.toml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_sha256: Option<String>,
    /// Of every draw.
    pub seed: u64,
}

/// What was asked and what was assumed; `file` alone is enough to ask again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRecord {
    /// Name of the workload.
    pub name: String,
    /// Name of the model.
    pub model: String,
    /// Parameters of the model.
    #[serde(default)]
    pub parameters: Option<f64>,
    /// What is done with the model.
    pub task: Task,
    /// Number format of the arithmetic.
    pub precision: Precision,
    /// Tokens of a sequence; of image models the side in pixels.
    pub sequence_length: u32,
    /// Sequences of an optimizer step, where they were stated.
    #[serde(default)]
    pub global_batch: Option<u64>,
    /// What is asked of a model that answers requests; `null` for training.
    #[serde(default)]
    pub serving: Option<AskedServing>,
    /// What nobody said and was assumed, as sentences.
    #[serde(default)]
    pub assumed: Vec<String>,
    /// The same with figures, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<Remark>,
    /// The workload file with all flags, without keys that nobody gave.
    pub file: Map<String, Value>,
}

/// What is asked of a model that answers requests: a service (a rate, for hours) or a job (a number of requests).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedServing {
    /// Of a service; `null` for a job.
    pub requests_per_second: Option<f64>,
    /// Of a service; `null` for a job.
    pub hours: Option<Hours>,
    /// Of a job; `null` for a service.
    pub requests: Option<f64>,
    /// Tokens of a request.
    pub prompt_tokens: u32,
    /// Tokens of an answer; 0 for models that answer in one pass.
    pub answer_tokens: u32,
    /// Nine of ten requests see their first token by then.
    pub time_to_first_token_seconds: Option<Seconds>,
    /// Mean time between two tokens of an answer.
    pub time_per_token_seconds: Option<Seconds>,
    /// How weights are stored.
    pub weights: StoredFormat,
    /// How keys and values are stored.
    pub kv_cache: StoredFormat,
    /// Share of time that as many replicas run as the load needs.
    pub availability: f64,
    /// How a diffusion model makes an image; absent of other models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Sampling>,
    /// Sound of a request, of a model that hears; absent of other models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<Transcription>,
}

/// The workload file of a document, as the program reads it.
pub(super) fn workload_file(stated: &Map<String, Value>) -> Result<WorkloadFile, DocumentError> {
    let file = read(&Value::Object(stated.clone())).map_err(|error| error.below(".workload.file"))?;
    Ok(file)
}

impl WorkloadRecord {
    /// The question, to be asked again.
    pub fn workload_file(&self) -> Result<WorkloadFile, DocumentError> {
        workload_file(&self.file)
    }
}

impl InputsRecord {
    /// A calibration or a profile corrected the estimate.
    pub fn is_measured(&self) -> bool {
        self.measured_sha256.is_some()
    }
}

impl InputsRecord {
    pub(super) fn new(context: &Context) -> Self {
        let own_runs = context.world.correction.own_runs();
        Self {
            catalog_sha256: context.catalog_sha256.clone(),
            offers_sha256: context.offers_sha256.clone(),
            constants_version: Fitted::embedded().version.clone(),
            measured_sha256: context.measured_sha256.clone(),
            own_runs: own_runs.map(|own| own.runs().to_vec()).unwrap_or_default(),
            own_pools: context.world.market.own_pools.clone(),
            quotas: Vec::new(),
            policy_sha256: None,
            seed: context.seed,
        }
    }
}

impl WorkloadRecord {
    pub(super) fn new(context: &Context) -> Self {
        let workload = context.workload;
        let assumptions = assumptions(context.assumed, context.words);
        Self {
            name: workload.name.clone(),
            model: workload.model.name.clone(),
            parameters: Some(workload.model.parameters),
            task: workload.training.task,
            precision: workload.training.precision,
            sequence_length: workload.training.sequence_length,
            global_batch: workload.training.global_batch,
            serving: workload.serving.as_ref().map(AskedServing::new),
            assumed: sentences(&assumptions),
            assumptions,
            file: stated(context.file),
        }
    }
}

impl AskedServing {
    fn new(serving: &Serving) -> Self {
        let (requests_per_second, hours, requests) = match serving.load {
            Load::Steady { requests_per_second, hours } => (Some(requests_per_second), Some(hours), None),
            Load::Job { requests } => (None, None, Some(requests)),
        };
        Self {
            requests_per_second,
            hours,
            requests,
            prompt_tokens: serving.prompt_tokens,
            answer_tokens: serving.answer_tokens,
            time_to_first_token_seconds: serving.time_to_first_token,
            time_per_token_seconds: serving.time_per_token,
            weights: serving.weights,
            kv_cache: serving.kv_cache,
            availability: serving.availability,
            images: serving.images,
            audio: serving.audio,
        }
    }
}

/// What nobody said, in words and figures.
pub(super) fn assumptions(assumed: &[Assumption], words: &dyn Words) -> Vec<Remark> {
    assumed.iter().map(|one| Remark::new(one, words.assumption(one))).collect()
}

/// What was said and nothing else: keys that nobody gave are left out.
pub fn stated(section: &impl Serialize) -> Map<String, Value> {
    fn strip(fields: Map<String, Value>) -> Map<String, Value> {
        let said = fields.into_iter().filter(|(_, value)| !value.is_null());
        said.map(|(key, value)| match value {
            Value::Object(inner) => (key, Value::Object(strip(inner))),
            other => (key, other),
        })
        .collect()
    }
    match serde_json::to_value(section).expect("sections of a workload file have text keys") {
        Value::Object(fields) => strip(fields),
        _ => Map::new(),
    }
}
