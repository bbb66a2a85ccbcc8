//! `WorkloadFile`: what to run as a person writes it, in TOML or as flags laid over it.

mod batch;
mod data;
mod network;
mod phases;
mod processing;
mod resolve;
mod scalar;
mod serving;
mod settings;

use serde::{Deserialize, Serialize};

pub use crate::file::phases::{Phase, PhaseSection};
pub use crate::file::processing::{ProcessingSection, ResolvedProcessing};
pub use crate::file::resolve::Resolved;
pub use crate::file::scalar::Scalar;
use crate::file::scalar::{optional_words, plain_text, switch_or_rate, words};
pub use crate::file::serving::ServingSection;
use gpuplan_units::names::did_you_mean;

/// Why a workload file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadFileError {
    #[error("line {line}, column {column}: {detail}")]
    Syntax { line: usize, column: usize, detail: String, suggestion: Option<String> },
    #[error("no model is called `{name}`")]
    UnknownModel { name: String, suggestion: Option<String> },
    #[error("`{key}`: {detail}")]
    Invalid { key: String, detail: String },
    #[error("`{first}` and `{second}` exclude each other")]
    Conflict { first: String, second: String },
    #[error("`{key}` is missing: {detail}")]
    Missing { key: String, detail: String },
}

/// A workload as written. Everything may be absent, so that flags and files have one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadFile {
    pub name: Option<String>,
    pub model: ModelSection,
    pub training: TrainingSection,
    #[serde(skip_serializing_if = "ServingSection::is_empty")]
    pub serving: ServingSection,
    /// Work for machines without GPU, in place of training and serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing: Option<ProcessingSection>,
    pub data: DataSection,
    pub checkpoint: CheckpointSection,
    #[serde(skip_serializing_if = "SweepSection::is_empty")]
    pub sweep: SweepSection,
    pub limits: LimitsSection,
    /// Parts that run one after the other, each on machines of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phase: Vec<PhaseSection>,
}

/// A named model, a `config.json`, or sizes; sizes beside a named model replace its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub dropout: Option<bool>,
    pub offload: Option<String>,
    pub framework: Option<String>,
    pub head_quantized: Option<bool>,
    pub fsdp: Option<Scalar>,
    /// Traffic that the stack hides behind arithmetic: tensor-parallel, weight-gather.
    #[serde(deserialize_with = "optional_words")]
    pub overlap: Option<Vec<String>>,
    /// Bytes of gradients over bytes sent, such as 4 for 8 bits instead of 32.
    pub gradient_compression: Option<f64>,
    /// Optimizer steps between synchronisations of whole copies of the model (local SGD).
    pub local_steps: Option<u32>,
    pub lora: LoraSection,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoraSection {
    pub rank: Option<Scalar>,
    #[serde(deserialize_with = "optional_words")]
    pub targets: Option<Vec<String>>,
    #[serde(deserialize_with = "switch_or_rate")]
    pub dropout: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointSection {
    pub size: Option<String>,
    /// A length of time, or `choose`.
    #[serde(deserialize_with = "plain_text")]
    pub interval: Option<String>,
}

/// The job many times, with an index that the command turns into settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SweepSection {
    pub runs: Option<Scalar>,
    /// At most so many at a time, on one machine.
    pub parallel: Option<Scalar>,
    /// Whole cards, or the share of one that a run shares with others, such as 0.5.
    pub gpus_per_run: Option<Scalar>,
}

/// What the choice must keep to, as text: the plan reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsSection {
    #[serde(deserialize_with = "plain_text")]
    pub deadline: Option<String>,
    #[serde(deserialize_with = "plain_text")]
    pub budget: Option<String>,
    /// Certainty with which deadline and budget are kept.
    #[serde(deserialize_with = "plain_text")]
    pub confidence: Option<String>,
    #[serde(deserialize_with = "plain_text")]
    pub max_price: Option<String>,
    /// Dollars that an hour sooner is worth.
    #[serde(deserialize_with = "plain_text")]
    pub value_of_time: Option<String>,
    #[serde(deserialize_with = "words")]
    pub clouds: Vec<String>,
    #[serde(deserialize_with = "words")]
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

impl SweepSection {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Takes each named field from the second where it is stated there.
macro_rules! lay_over {
    ($base:expr, $over:expr; $($field:ident)*) => {
        $( if $over.$field.is_some() { $base.$field = $over.$field; } )*
    };
}

impl WorkloadFile {
    pub fn parse(text: &str) -> Result<Self, WorkloadFileError> {
        toml::from_str(text).map_err(|error| syntax_error(text, &error))
    }

    /// This file with flags laid over it. A flag replaces what it contradicts: `steps` a stated `tokens`, `preset` a `config`.
    pub fn overlay(mut self, over: Self) -> Self {
        lay_over!(self, over; name processing);
        self.model.overlay(over.model);
        self.training.overlay(over.training);
        self.serving.overlay(over.serving);
        lay_over!(self.data, over.data; location size samples tokens place cpu_seconds_per_sample kind storage disk disk_iops disk_throughput
            seconds_per_sample frames_per_sample frame_height files workers decode pinned);
        lay_over!(self.checkpoint, over.checkpoint; size interval);
        lay_over!(self.sweep, over.sweep; runs parallel gpus_per_run);
        self.limits.overlay(over.limits);
        self
    }
}

impl ModelSection {
    fn overlay(&mut self, over: Self) {
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
    fn overlay(&mut self, over: Self) {
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

impl LimitsSection {
    fn overlay(&mut self, over: Self) {
        lay_over!(*self, over; deadline budget confidence max_price value_of_time gpus objective purchase max_nodes include_suspect allow_slow_network);
        for (mine, theirs) in [(&mut self.clouds, over.clouds), (&mut self.regions, over.regions)] {
            if !theirs.is_empty() {
                *mine = theirs;
            }
        }
    }
}

fn syntax_error(text: &str, error: &toml::de::Error) -> WorkloadFileError {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..at).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let detail = error.message().trim().replace('\n', "; ");
    // `unknown field `a`, expected one of `b`, `c``: the known keys stand in the message.
    let mut quoted = detail.split('`').skip(1).step_by(2);
    let suggestion = match quoted.next() {
        Some(unknown) if detail.starts_with("unknown field") => did_you_mean(unknown, quoted).map(str::to_owned),
        _ => None,
    };
    let (line, column) = (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
    WorkloadFileError::Syntax { line, column, detail, suggestion }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Models;
    use crate::huggingface::read_config;
    use crate::training::Task;
    use proptest::prelude::*;

    const PRETRAIN: &str = r#"
name = "my-8b"
[model]
preset = "llama-3.1-8b"
[training]
task = "pretrain"
tokens = "300B"
sequence_length = 8192
global_batch_tokens = "4M"
[data]
size = "1.2TB"
place = "aws/us-east-1"
[checkpoint]
size = "110GB"
interval = "choose"
[limits]
deadline = 2026-12-24T12:00:00Z
budget = 250000
max_price = 2.5
clouds = ["aws", "gcp"]
regions = "us-east-1, us-west-2"
gpus = "H100:8..64"
max_nodes = 8
"#;
    const LORA: &str = r#"
[model]
config = "models/config.json"
index = "models/model.safetensors.index.json"
[training]
task = "lora"
epochs = 3
[training.lora]
rank = 8
targets = ["q_proj", "v_proj"]
dropout = 0.05
[data]
samples = 52_002
"#;
    const SIZES: &str = r#"
[model]
kind = "moe"
parameters = "46.7B"
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
ffn_hidden = 14336
vocab = 32000
experts = 8
experts_per_token = 2
[training]
task = "full-ft"
samples = "1M"
fsdp = 2
"#;
    const VISION: &str =
        "[model]\npreset = \"resnet-50\"\n[training]\ntask = \"train\"\nepochs = 90\n[data]\nsamples = 1_281_167\n";

    #[test]
    fn what_was_read_can_be_written_and_read_again() {
        for text in [PRETRAIN, LORA, SIZES, VISION, ""] {
            let file = WorkloadFile::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let written = toml::to_string(&file).unwrap();
            assert_eq!(WorkloadFile::parse(&written).unwrap(), file, "{written}");
        }
        let limits = WorkloadFile::parse(PRETRAIN).unwrap().limits;
        assert_eq!((limits.budget.as_deref(), limits.max_price.as_deref()), (Some("250000"), Some("2.5")));
        assert_eq!(limits.deadline.as_deref(), Some("2026-12-24T12:00:00Z"));
        assert_eq!(limits.regions, ["us-east-1", "us-west-2"]);
    }

    #[test]
    fn every_type_of_example_resolves() {
        let models = Models::embedded().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/huggingface/llama.json");
        let read = || Some(read_config(&std::fs::read(path).unwrap()[..], "local").unwrap());
        for (text, task, name) in [
            (PRETRAIN, Task::Pretrain, "my-8b"),
            (LORA, Task::Lora, "local-lora"),
            (SIZES, Task::FullFineTune, "custom-full-fine-tune"),
            (VISION, Task::Train, "resnet-50-train"),
        ] {
            let resolved = WorkloadFile::parse(text).unwrap().resolve(&models, read()).unwrap();
            assert_eq!((resolved.workload.training.task, resolved.workload.name.as_str()), (task, name));
            assert!(
                resolved.assumed.iter().all(|line| line.contains('=') && line.ends_with(')')),
                "{:?}",
                resolved.assumed
            );
        }
    }

    #[test]
    fn a_wrong_line_is_pointed_at() {
        let error = WorkloadFile::parse("[training]\ntask = \"lora\"\n  precison = \"bf16\"\n").unwrap_err();
        let WorkloadFileError::Syntax { line, column, detail, suggestion } = error else { panic!("{error}") };
        assert_eq!((line, column, suggestion.as_deref()), (3, 3, Some("precision")));
        assert!(detail.starts_with("unknown field `precison`"), "{detail}");
        let at = |text: &str| match WorkloadFile::parse(text).unwrap_err() {
            WorkloadFileError::Syntax { line, column, detail, .. } => (line, column, detail),
            other => panic!("{other}"),
        };
        assert_eq!((at("name = \"\u{e4}\"\ntokens").0, at("a = ").0), (2, 1));
        let (line, column, detail) = at("[training]\ntokens = [1]\n");
        assert_eq!((line, column, detail.as_str()), (2, 10, "expected a number or text, found an array"));
        assert_eq!(at("limits.max_nodes = -1").0, 1);
        assert_eq!(at("name = \"a\"\nname = \"b\"").0, 2);
        at(&"[".repeat(100_000));
        at(&format!("name = {}", "[".repeat(100_000)));
        at(&"a.".repeat(100_000));
    }

    #[test]
    fn a_flag_replaces_what_it_contradicts() {
        let base = WorkloadFile::parse(PRETRAIN).unwrap();
        let flags = "training = { steps = 10, global_batch = 8 }\nlimits.clouds = [\"azure\"]\nmodel.layers = 4";
        let mixed = base.clone().overlay(WorkloadFile::parse(flags).unwrap());
        assert_eq!((mixed.training.steps, mixed.training.tokens), (Some(Scalar::Whole(10)), None));
        assert_eq!((mixed.training.global_batch_tokens, mixed.limits.clouds), (None, vec!["azure".to_owned()]));
        assert_eq!((mixed.model.preset.as_deref(), mixed.model.layers), (Some("llama-3.1-8b"), Some(Scalar::Whole(4))));
        assert_eq!(base.clone().overlay(WorkloadFile::default()), base);
        assert_eq!(WorkloadFile::default().overlay(base.clone()), base);
        let other =
            WorkloadFile::parse(SIZES).unwrap().overlay(WorkloadFile::parse("model.preset = \"gpt-2\"").unwrap());
        assert_eq!(other.model, ModelSection { preset: Some("gpt-2".to_owned()), ..ModelSection::default() });
    }

    /// What is read is written and read again; what is refused is refused at a place in the text.
    fn read_or_refused(text: &str) -> Result<Option<WorkloadFile>, TestCaseError> {
        match WorkloadFile::parse(text) {
            Ok(file) => {
                let written = toml::to_string(&file).unwrap();
                let again = WorkloadFile::parse(&written).map(|again| toml::to_string(&again).unwrap());
                prop_assert_eq!(again, Ok(written));
                Ok(Some(file))
            }
            Err(WorkloadFileError::Syntax { line, column, detail, .. }) => {
                let told = text.split('\n').nth(line - 1).is_some_and(|line| column <= line.chars().count() + 1);
                prop_assert!(told && !detail.is_empty(), "line {line}, column {column}: {detail}");
                Ok(None)
            }
            Err(other) => Err(TestCaseError::fail(other.to_string())),
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC|\n){0,120}") {
            read_or_refused(&text)?;
        }

        #[test]
        fn any_damage_to_a_file_is_read_or_refused(at in 0..SIZES.len(), junk in "\\PC{0,4}") {
            let text = format!("{}{junk}{}", &SIZES[..at], &SIZES[(at + 3).min(SIZES.len())..]);
            if let Some(file) = read_or_refused(&text)? {
                match file.resolve(&Models::embedded().unwrap(), None) {
                    Ok(Resolved { workload, .. }) => {
                        prop_assert!(workload.model.parameters.is_finite() && workload.model.parameters > 0.0);
                        prop_assert!(workload.training.sequence_length > 0 && workload.training.global_batch.unwrap() > 0);
                    }
                    Err(error) => prop_assert!(error.to_string().contains('`'), "{error}"),
                }
            }
        }
    }
}
