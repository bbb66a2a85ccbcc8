//! `Serving`: a model that answers requests, at a rate for so many hours or a number of them in all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gpuplan_units::{Hours, Seconds};

/// How much is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// A service: requests that come by themselves, for so many hours of a month or in all.
    Steady { requests_per_second: f64, hours: Hours },
    /// A job: requests that are there already, in any order, as fast as it is cheap.
    Job { requests: f64 },
}

/// How weights, or keys and values, are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoredFormat {
    #[default]
    #[serde(alias = "fp16")]
    Bf16,
    /// Multiplied in 8 bits where the GPU can; else unpacked to 16.
    Fp8,
    /// Unpacked to 16 bits before it is multiplied, but for models that answer in one pass, which are multiplied in 8.
    Int8,
    /// Unpacked, in groups of 128 with a 16-bit scale and a 4-bit zero point each (Lin et al., "AWQ", arXiv 2306.00978).
    #[serde(alias = "awq", alias = "gptq")]
    Int4,
    /// Floating point in 4 bits, 32 with an 8-bit scale (OCP, "Microscaling Formats", version 1.0).
    Mxfp4,
    /// The same, 16 with an 8-bit scale (NVIDIA, "Introducing NVFP4"). Multiplied in 4 bits where the GPU can; else unpacked.
    Nvfp4,
}

impl StoredFormat {
    /// Bytes of an element with its share of the scales.
    pub fn bytes(self) -> f64 {
        match self {
            Self::Bf16 => 2.0,
            Self::Fp8 | Self::Int8 => 1.0,
            Self::Int4 => 0.5 + 2.5 / 128.0,
            Self::Mxfp4 => 0.5 + 1.0 / 32.0,
            Self::Nvfp4 => 0.5 + 1.0 / 16.0,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Mxfp4 => "mxfp4",
            Self::Nvfp4 => "nvfp4",
        }
    }
}

/// The program that serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServingEngine {
    #[default]
    Vllm,
    Sglang,
    #[serde(rename = "tensorrt-llm", alias = "trtllm", alias = "trt-llm", alias = "tensorrt")]
    TensorRtLlm,
    /// PyTorch, one operator after the other, of models that answer in one pass and of speech (transformers' pipeline).
    #[serde(rename = "pytorch", alias = "eager", alias = "transformers")]
    PyTorch,
    /// CTranslate2 with batches of windows of sound, of speech alone.
    #[serde(alias = "faster_whisper", alias = "ctranslate2", alias = "whisperx")]
    FasterWhisper,
}

/// How a copy of the model is split over GPUs, as far as somebody says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServingLayout {
    /// GPUs that share the heads of attention and, without attention groups, every matrix.
    pub tensor: Option<u32>,
    /// Stages of layers.
    pub pipeline: Option<u32>,
    /// Groups of GPUs that each attend to sequences of their own, while all of them share the feed-forward blocks; 0 and 1: none.
    pub attention_groups: u32,
    /// Experts are dealt out whole, in place of a part of each for every GPU.
    pub expert_parallel: bool,
}

impl ServingLayout {
    /// Everything is left to choose.
    pub fn fixed_by_nobody() -> Self {
        Self { attention_groups: 1, ..Self::default() }
    }

    /// Groups that attend to sequences of their own.
    pub fn groups(self) -> u32 {
        self.attention_groups.max(1)
    }
}

/// Prompts are read by GPUs of their own, which hand keys and values over to those that write the answers (Zhong et al., "DistServe", OSDI'24,
/// arXiv 2401.09670).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Disaggregation {
    /// Copies that read prompts for so many that write answers; `None`: as many of each as the load wants.
    pub workers: Option<Workers>,
    /// How a copy that reads prompts is split; `Serving::layout` is of those that write answers.
    pub prefill: ServingLayout,
}

/// Copies of both kinds, in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Workers {
    pub prefill: u32,
    pub decode: u32,
}

/// Speculative decoding, or multi-token prediction: tokens are drafted and verified in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Speculation {
    /// Tokens drafted for each sequence and pass.
    pub drafted: u32,
    /// Of them, those that the pass accepts, on average.
    pub accepted: f64,
}

/// How a diffusion model makes a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sampling {
    /// Of the sampler; the network runs once in each, or twice.
    pub steps: u32,
    /// Classifier-free guidance: every step runs the network with and without the prompt (Ho and Salimans, arXiv 2207.12598).
    pub guidance: bool,
    /// Pixels of a side.
    pub side: u32,
    /// Pictures that are made together at most; `None`: as many as fit.
    pub batch: Option<u32>,
}

impl Sampling {
    /// Passes of the network for a picture.
    pub fn passes(self) -> f64 {
        f64::from(self.steps) * self.passes_a_step()
    }

    pub fn passes_a_step(self) -> f64 {
        if self.guidance { 2.0 } else { 1.0 }
    }
}

/// Sound that is written down. A request is a window of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transcription {
    /// Sound that a request is about, without what is heard a second time. Seconds.
    pub seconds: f64,
    /// Transcripts of a window that are followed at once, of which the likeliest is kept (beam search); 1: greedy.
    pub beams: u32,
    /// Windows that are written down together at most; `None`: as many as fit.
    pub batch: Option<u32>,
}

/// What is asked of a served model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Serving {
    pub load: Load,
    /// Tokens of a request; 1 for models that count images.
    pub prompt_tokens: u32,
    /// Tokens of an answer; 0: the model reads and writes none (encoders, classifiers, images).
    pub answer_tokens: u32,
    /// Nine of ten requests see their first token (or their answer, where it has no tokens) by then.
    pub time_to_first_token: Option<Seconds>,
    /// Mean time between two tokens of an answer.
    pub time_per_token: Option<Seconds>,
    pub weights: StoredFormat,
    pub kv_cache: StoredFormat,
    /// Share of time that as many replicas run as the load needs.
    pub availability: f64,
    pub engine: ServingEngine,
    pub layout: ServingLayout,
    pub speculation: Option<Speculation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disaggregation: Option<Disaggregation>,
    /// Of a diffusion model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Sampling>,
    /// Of a model that hears speech; its prompts are tokens of sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<Transcription>,
}

impl Serving {
    /// Tokens of one request and its answer.
    pub fn tokens(&self) -> f64 {
        f64::from(self.prompt_tokens) + f64::from(self.answer_tokens)
    }

    /// Tokens that the layers which write see of a request; an encoder of sound has tokens of its own.
    pub fn written_tokens(&self) -> f64 {
        if self.audio.is_some() && self.answer_tokens > 0 { f64::from(self.answer_tokens) } else { self.tokens() }
    }

    pub fn is_job(&self) -> bool {
        matches!(self.load, Load::Job { .. })
    }

    /// Requests of the whole bill.
    pub fn requests(&self) -> f64 {
        match self.load {
            Load::Steady { requests_per_second, hours } => requests_per_second * hours.0 * 3600.0,
            Load::Job { requests } => requests,
        }
    }
}
