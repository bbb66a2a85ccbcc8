//! The sections of a workload file, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::scalar::{Scalar, Words, optional_words, plain_text, switch_or_rate, switch_or_rate_schema, words};

/// A named model, a `config.json`, or sizes; sizes beside a named model replace its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSection {
    pub preset: Option<String>,
    /// Path of a Hugging Face `config.json`.
    pub config: Option<String>,
    /// Path of a `model.safetensors.index.json` beside `config`.
    pub index: Option<String>,
    pub kind: Option<String>,
    pub parameters: Option<Scalar>,
    pub layers: Option<Scalar>,
    pub encoder_layers: Option<Scalar>,
    pub hidden: Option<Scalar>,
    pub heads: Option<Scalar>,
    pub kv_heads: Option<Scalar>,
    pub head_dim: Option<Scalar>,
    pub ffn_hidden: Option<Scalar>,
    pub vocab: Option<Scalar>,
    pub max_context: Option<Scalar>,
    pub mlp: Option<String>,
    pub norm: Option<String>,
    pub tied_embeddings: Option<bool>,
    pub parallel_residual: Option<bool>,
    pub experts: Option<Scalar>,
    pub experts_per_token: Option<Scalar>,
    pub expert_ffn_hidden: Option<Scalar>,
    pub shared_experts: Option<Scalar>,
    pub dense_layers: Option<Scalar>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrainingSection {
    pub task: Option<String>,
    /// One of `tokens`, `samples`, `epochs` and `steps` says how much.
    pub tokens: Option<Scalar>,
    pub samples: Option<Scalar>,
    pub epochs: Option<Scalar>,
    pub steps: Option<Scalar>,
    pub sequence_length: Option<Scalar>,
    /// Sequences (or images) of one optimizer step.
    pub global_batch: Option<Scalar>,
    pub global_batch_tokens: Option<Scalar>,
    pub micro_batch: Option<Scalar>,
    pub grad_accumulation: Option<Scalar>,
    pub precision: Option<String>,
    pub base_weights: Option<String>,
    pub optimizer: Option<String>,
    pub optimizer_in_backward: Option<bool>,
    pub recompute: Option<String>,
    pub attention: Option<String>,
    pub loss: Option<String>,
    pub compile: Option<bool>,
    pub cuda_graphs: Option<bool>,
    #[serde(deserialize_with = "switch_or_rate")]
    #[schemars(schema_with = "switch_or_rate_schema")]
    pub dropout: Option<bool>,
    pub offload: Option<String>,
    pub framework: Option<String>,
    pub head_quantized: Option<bool>,
    pub fsdp: Option<Scalar>,
    /// Traffic that the stack hides behind arithmetic: tensor-parallel, weight-gather.
    #[serde(deserialize_with = "optional_words")]
    #[schemars(with = "Option<Words>")]
    pub overlap: Option<Vec<String>>,
    /// Bytes of gradients over bytes sent, such as 4 for 8 bits instead of 32.
    pub gradient_compression: Option<f64>,
    /// Optimizer steps between synchronisations of whole copies of the model (local SGD).
    pub local_steps: Option<u32>,
    pub lora: LoraSection,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoraSection {
    pub rank: Option<Scalar>,
    #[serde(deserialize_with = "optional_words")]
    #[schemars(with = "Option<Words>")]
    pub targets: Option<Vec<String>>,
    #[serde(deserialize_with = "switch_or_rate")]
    #[schemars(schema_with = "switch_or_rate_schema")]
    pub dropout: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DataSection {
    /// What a launch brings to the machines: `s3://bucket/prefix`, `gs://bucket/prefix` or a folder here.
    pub location: Option<String>,
    /// Amount of data with its unit, such as `1.2TB`.
    pub size: Option<String>,
    pub samples: Option<Scalar>,
    pub tokens: Option<Scalar>,
    /// `cloud/region`.
    pub place: Option<String>,
    pub cpu_seconds_per_sample: Option<Scalar>,
    /// jpeg, webp, raw, text, tokens, audio or video: what a sample costs the host where the above is not stated.
    pub kind: Option<String>,
    /// disk, network-disk or object-store.
    pub storage: Option<String>,
    /// Kind of the network disk, such as gp3.
    pub disk: Option<String>,
    pub disk_iops: Option<Scalar>,
    /// Of the network disk, bytes of a second with their unit, such as `500MB`.
    pub disk_throughput: Option<String>,
    /// Of audio: length of the sound.
    pub seconds_per_sample: Option<Scalar>,
    /// Of video: frames that are decoded for a sample.
    pub frames_per_sample: Option<Scalar>,
    /// Of video: lines of a frame.
    pub frame_height: Option<Scalar>,
    /// one-each or shards.
    pub files: Option<String>,
    /// Loader processes a GPU.
    pub workers: Option<Scalar>,
    /// cpu or gpu.
    pub decode: Option<String>,
    /// Whether batches leave for the GPU from locked memory.
    pub pinned: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointSection {
    pub size: Option<String>,
    /// A length of time, or `choose`.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub interval: Option<String>,
}

/// The job many times, with an index that the command turns into settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SweepSection {
    pub runs: Option<Scalar>,
    /// At most so many at a time, on one machine.
    pub parallel: Option<Scalar>,
    /// Whole cards, or the share of one that a run shares with others, such as 0.5.
    pub gpus_per_run: Option<Scalar>,
}

/// What the choice must keep to, as text: the plan reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsSection {
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub deadline: Option<String>,
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub budget: Option<String>,
    /// Certainty with which deadline and budget are kept.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub confidence: Option<String>,
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub max_price: Option<String>,
    /// Dollars that an hour sooner is worth.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub value_of_time: Option<String>,
    #[serde(deserialize_with = "words")]
    #[schemars(with = "Words")]
    pub clouds: Vec<String>,
    #[serde(deserialize_with = "words")]
    #[schemars(with = "Words")]
    pub regions: Vec<String>,
    pub gpus: Option<String>,
    pub objective: Option<String>,
    pub purchase: Option<String>,
    pub max_nodes: Option<u32>,
    /// Offers with a suspicion may be recommended.
    pub include_suspect: Option<bool>,
    /// Several machines may be joined by a network that GPUs cannot use directly.
    pub allow_slow_network: Option<bool>,
}

/// A model that answers. One of the first six says how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServingSection {
    pub requests_per_second: Option<Scalar>,
    /// Of prompts and answers together.
    pub tokens_per_day: Option<Scalar>,
    pub images_per_second: Option<Scalar>,
    /// To get done.
    pub requests: Option<Scalar>,
    /// To get done, of prompts and answers together.
    pub tokens: Option<Scalar>,
    pub images: Option<Scalar>,
    pub prompt_tokens: Option<Scalar>,
    pub answer_tokens: Option<Scalar>,
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub time_to_first_token: Option<String>,
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub time_per_token: Option<String>,
    /// Of a month.
    pub hours: Option<Scalar>,
    /// In place of `hours`: once, such as `3d`.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub duration: Option<String>,
    pub weights: Option<String>,
    pub kv_cache: Option<String>,
    pub availability: Option<Scalar>,
}

/// Work for machines without GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessingSection {
    /// Else those of the data.
    pub samples: Option<Scalar>,
    /// Of one core; else those of the data, or what is published for its kind.
    pub cpu_seconds_per_sample: Option<Scalar>,
    /// Side of the pictures that are made of compressed ones.
    pub pixels: Option<Scalar>,
    /// All samples together, such as `150GB`; else the size of the data.
    pub reads: Option<String>,
    /// All results together; else what the phase hands over.
    pub writes: Option<String>,
    /// Work of a machine that is stored together, such as `10m`.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub shard: Option<String>,
}

/// `[[phase]]` as written: what it says is laid over the sections above it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PhaseSection {
    pub name: String,
    /// Amount of data that the next phase reads, such as `200GB`.
    pub hands_over: Option<String>,
    pub model: ModelSection,
    pub training: TrainingSection,
    #[serde(skip_serializing_if = "ServingSection::is_empty")]
    pub serving: ServingSection,
    /// Work for machines without GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing: Option<ProcessingSection>,
    pub data: DataSection,
    pub checkpoint: CheckpointSection,
    #[serde(skip_serializing_if = "SweepSection::is_empty")]
    pub sweep: SweepSection,
    pub limits: LimitsSection,
}

/// Takes each named field from the second where it is stated there.
macro_rules! lay_over {
    ($base:expr, $over:expr; $($field:ident)*) => {
        $( if $over.$field.is_some() { $base.$field = $over.$field; } )*
    };
}

impl ModelSection {
    pub(super) fn overlay(&mut self, over: Self) {
        if over.preset.is_some() || over.config.is_some() {
            // Another model: the sizes that were stated belonged to the first.
            *self = over;
            return;
        }
        lay_over!(*self, over; index kind parameters layers encoder_layers hidden heads kv_heads head_dim ffn_hidden vocab max_context
            mlp norm tied_embeddings parallel_residual experts experts_per_token expert_ffn_hidden shared_experts dense_layers);
    }
}

impl TrainingSection {
    pub(super) fn overlay(&mut self, over: Self) {
        if [&over.tokens, &over.samples, &over.epochs, &over.steps].iter().any(|amount| amount.is_some()) {
            (self.tokens, self.samples, self.epochs, self.steps) = (None, None, None, None);
        }
        if over.global_batch.is_some() || over.global_batch_tokens.is_some() {
            (self.global_batch, self.global_batch_tokens) = (None, None);
        }
        lay_over!(*self, over; task tokens samples epochs steps sequence_length global_batch global_batch_tokens micro_batch
            grad_accumulation precision base_weights optimizer optimizer_in_backward recompute attention loss compile cuda_graphs dropout offload
            framework head_quantized fsdp overlap gradient_compression local_steps);
        lay_over!(self.lora, over.lora; rank targets dropout);
    }
}

impl DataSection {
    pub(super) fn overlay(&mut self, over: Self) {
        lay_over!(*self, over; location size samples tokens place cpu_seconds_per_sample kind storage disk disk_iops disk_throughput
            seconds_per_sample frames_per_sample frame_height files workers decode pinned);
    }
}

impl CheckpointSection {
    pub(super) fn overlay(&mut self, over: Self) {
        lay_over!(*self, over; size interval);
    }
}

impl SweepSection {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn overlay(&mut self, over: Self) {
        lay_over!(*self, over; runs parallel gpus_per_run);
    }
}

impl LimitsSection {
    pub(super) fn overlay(&mut self, over: Self) {
        lay_over!(*self, over; deadline budget confidence max_price value_of_time gpus objective purchase max_nodes include_suspect allow_slow_network);
        for (mine, theirs) in [(&mut self.clouds, over.clouds), (&mut self.regions, over.regions)] {
            if !theirs.is_empty() {
                *mine = theirs;
            }
        }
    }
}

impl ServingSection {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn overlay(&mut self, over: Self) {
        if !over.is_empty() {
            *self = over;
        }
    }
}
