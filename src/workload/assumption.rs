//! `Assumption`: what was taken where the user stated nothing, with its figures. The sentence is made where it is shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::{DataKind, FileLayout, Storage};
use crate::model::deviations::Simplification;
use crate::model::pipeline::TextEncoder;
use crate::model::{MlpKind, ModelKind, NormKind};
use crate::serving::{ServingEngine, StoredFormat};
use crate::training::precision::{BaseWeights, Precision, Scaling};
use crate::training::{LoraTargets, Optimizer, Recompute, Task};
use gpuplan_units::{Bytes, GpuCount, Hours, Seconds};

/// A value that nobody stated, and what was taken for it. Most are named after their key of the workload file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Assumption {
    /// The sizes are those of a configuration that was downloaded from the Hub before.
    ModelOfCache {
        name: String,
    },
    /// The name contains that of this model, of which it is a fine-tune or another packaging: its sizes are taken.
    ModelOfName {
        like: String,
    },
    /// Of the model only the size is known: the shape of this one, with as many layers as the size takes.
    ModelShape {
        like: String,
        layers: u32,
    },
    /// Of the model only parameters and operations are known: traffic is in proportion, as in this kind of network.
    ModelTraffic {
        model_kind: ModelKind,
    },
    /// The sizes of this named model have not been compared with the text that is said to state them.
    ModelUnverified {
        name: String,
        source: String,
    },
    Task {
        task: Task,
    },
    /// The answers that a step learns from are there: writing them is a phase of its own.
    RolloutsApart,
    SequenceLength {
        /// Tokens of text or patches, or the side of an image in pixels.
        length: u32,
        basis: SequenceBasis,
    },
    GlobalBatch {
        /// Sequences, or images, of an optimizer step.
        sequences: u64,
        basis: BatchBasis,
    },
    /// The batch that GPT-3 used at this size of model, in whole sequences.
    GlobalBatchOfGpt3 {
        sequences: u64,
        tokens: f64,
    },
    /// The batch that was stated in tokens, rounded to sequences that divide over GPUs.
    GlobalBatchRounded {
        sequences: u64,
        tokens: f64,
        sequence_length: u32,
    },
    Precision {
        precision: Precision,
    },
    /// Whether a recipe of 8 bits and fewer multiplies attention in 8 bits.
    Fp8Attention {
        attention: bool,
    },
    /// Part of the linear layers that such a recipe keeps in 16 bits.
    HalfPrecisionShare {
        share: f64,
    },
    /// What has one scale in fp8.
    Fp8Scaling {
        scaling: Scaling,
    },
    BaseWeights {
        base_weights: BaseWeights,
    },
    Optimizer {
        optimizer: Optimizer,
    },
    LoraRank {
        rank: u32,
    },
    /// Every linear layer has adapters.
    LoraTargets,
    /// Queries, keys, values and outputs of attention have adapters.
    LoraTargetsOfAttention,
    /// Of a video that a diffusion model is trained on.
    Frames {
        frames: u32,
    },
    /// Prompts and pictures are encoded once, before the training.
    CachedLatents,
    LoraDropout {
        dropout: bool,
    },
    /// The cheapest interval for the risk of the machines is chosen.
    CheckpointInterval,
    SweepParallel {
        runs: u32,
    },
    SweepGpusPerRun {
        gpus: GpuCount,
    },
    /// Whether the model is dense or a mixture of experts.
    ModelKind {
        model_kind: ModelKind,
    },
    Mlp {
        mlp: MlpKind,
    },
    Norm {
        norm: NormKind,
    },
    TiedEmbeddings {
        tied: bool,
    },
    KvHeads {
        heads: u32,
    },
    HeadDim {
        elements: u32,
    },
    /// Counted from the sizes of the model.
    Parameters {
        parameters: f64,
        /// The sizes replace those of a model that is known by name.
        replaces_own: bool,
    },
    /// The model is more than the estimate computes.
    Simplified {
        simplification: Simplification,
    },
    DataSize {
        bytes: Bytes,
    },
    DataStorage {
        storage: Storage,
    },
    DataFrameHeight {
        lines: u32,
    },
    DataFiles {
        files: FileLayout,
        /// `None`: the kind of the data is not stated either.
        data_kind: Option<DataKind>,
    },
    /// Disks of a machine hold back nothing that their own limits allow.
    DataDiskLink,
    /// Every vCPU but one a GPU loads samples.
    DataWorkers,
    /// What a training sample costs one core of the host.
    DataCpuPerSample {
        seconds: Seconds,
        work: SampleWork,
    },
    ProcessingReads {
        bytes: Bytes,
    },
    ProcessingWrites {
        bytes: Bytes,
    },
    /// Side of the pictures that are made.
    ProcessingPixels {
        side: u32,
    },
    /// Work of a machine that is stored together.
    ProcessingShard {
        seconds: Seconds,
    },
    /// What a sample costs one core of a machine without GPU.
    ProcessingCpuPerSample {
        seconds: Seconds,
        work: SampleWork,
    },
    /// Any latency will do, as long as the machines keep up.
    ServingLatency {
        /// Whether the model answers with tokens, of which the first would have a target.
        writes_tokens: bool,
    },
    /// Of a month.
    ServingHours {
        hours: Hours,
    },
    /// The program that serves.
    ServingEngine {
        engine: ServingEngine,
    },
    ServingWeights {
        format: StoredFormat,
    },
    ServingKvCache {
        format: StoredFormat,
    },
    ServingAvailability {
        /// Share of time that enough replicas run.
        share: f64,
    },
    /// Of the sampler of a diffusion model.
    ServingSteps {
        steps: u32,
        /// Who names them.
        source: String,
    },
    /// Whether every step runs a diffusion model with and without the prompt.
    ServingGuidance {
        guidance: bool,
        /// Who says so.
        source: String,
    },
    /// Side of an image, in pixels.
    ServingResolution {
        side: u32,
    },
    /// Sound that a request is about.
    ServingAudio {
        seconds: Seconds,
        /// Of what is heard in a request, other requests hear the rest too.
        overlaps: bool,
    },
    /// Of the transcript of a request.
    ServingTranscript {
        tokens: u32,
    },
    /// Transcripts that a beam search follows at once.
    ServingBeams {
        beams: u32,
    },
    /// What runs beside a diffusion model for an image: text encoders, and the decoder of `AutoencoderKL`.
    ServingParts {
        /// Empty: nothing is known of them, and none is counted.
        text_encoders: Vec<TextEncoder>,
    },
}

/// What was taken where the job of another engine leaves something open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum JobAssumption {
    /// A Slurm job names no number of machines.
    OneMachine,
    /// Slurm has no word for spot machines.
    OnDemandOnly,
    /// Each pod of Kubernetes runs on a machine of its own.
    MachinePerPod,
    /// No pod asks for spot nodes.
    NoSpotNodes,
    /// Pods run beside each other up to the job's parallelism, until as many are complete.
    PodsAtATime { parallelism: u32, completions: u32 },
    /// The command does not say what is recomputed: its stack's parser decides.
    RecomputeOfStack { stack: String, recompute: Recompute },
    /// The command does not ask for traffic to be hidden, and its stack's parser hides none but gradients.
    OverlapOfStack { stack: String },
    /// The command does not say which matrices have adapters: its stack's parser decides.
    LoraTargetsOfStack { stack: String, targets: LoraTargets },
    /// The command starts from published weights and names no adapters.
    NoAdapters,
    /// The command names no epochs: its stack's parser decides.
    EpochsOfStack { stack: String, epochs: u32 },
    /// A public data set of so many rows.
    RowsOfDataSet { name: String, rows: u64 },
    /// The job takes no more rows than these.
    RowsAtMost { rows: u64 },
    /// The command's batch is taken as that of each GPU.
    BatchOfEachGpu { batch: String },
    /// The job states the batch of each GPU, and how many there are.
    BatchOfAllGpus { sequences: u64, gpus: u32 },
    /// The job states the batch of each GPU, and not how many there are.
    BatchOfOneGpu { sequences: u64 },
    /// How much is trained is not known: the price is that of so many optimizer steps.
    StepsAlone {
        steps: u32,
        /// The data set whose rows are not known, where the job counts epochs of it.
        data: Option<String>,
    },
    /// A model that no catalog has, taken as a dense one of the size in its name.
    ModelOfSize { name: String, parameters: String },
    /// The sizes of a model come without its vocabulary.
    Vocabulary { tokens: u32 },
    /// A served model whose load nobody states.
    NominalLoad { requests_per_second: u32, prompt_tokens: u32, answer_tokens: u32 },
    /// The job counts cards and names none: each kind that is sold in such machines.
    AnyGpu { gpus: u32 },
    /// A script starts its program once and says nothing of machines.
    OneGpu,
    /// The job states degrees of parallelism (`tensor_parallel_size 2`), and the plan chooses its own layout.
    LayoutOfPlan { degrees: String },
}

/// Where an assumed sequence length comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SequenceBasis {
    /// The longest sequence of the model is not known; the context of GPT-3.
    Gpt3,
    /// The longest sequence of the encoder is not known; that of BERT.
    Bert,
    /// The longest sequence of the model.
    LongestOfModel,
    /// The model allows longer ones, at a higher price.
    ShorterThanModel,
    /// Patches and class token of the native image.
    NativePatches,
    /// Side of the native image.
    NativeSide,
}

/// The published recipe whose batch is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BatchBasis {
    /// Dettmers et al. 2023 (arXiv 2305.14314) table 9.
    Qlora,
    /// Goyal et al. 2017 (arXiv 1706.02677).
    Goyal,
    /// The recipe of Stanford Alpaca.
    Alpaca,
    /// Gao et al. 2024 (arXiv 2410.02660), ProLong: 4 Mi tokens.
    ProLong,
    /// Devlin et al. 2018 (arXiv 1810.04805), BERT.
    Devlin,
    /// Raffel et al. 2019 (arXiv 1910.10683), T5.
    Raffel,
    /// Radford et al. 2022 (arXiv 2212.04356), Whisper.
    Radford,
    /// Dosovitskiy et al. 2020 (arXiv 2010.11929), ViT.
    Dosovitskiy,
    /// Grattafiori et al. 2024 (arXiv 2407.21783), Llama 3 405B: 16M tokens.
    Llama3,
}

/// What is done with a sample before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SampleWork {
    /// The GPU decodes it.
    DecodedByGpu,
    /// A compressed picture is decoded and cropped.
    CompressedImage {
        format: DataKind,
        bytes: Bytes,
        side_pixels: f64,
    },
    /// A decoded picture is cropped.
    DecodedImage {
        side_pixels: f64,
    },
    /// Text is split into tokens.
    Text {
        /// Of a sample. `None`: its length in tokens counts.
        bytes: Option<Bytes>,
    },
    Audio,
    Video,
    /// It is copied.
    Copied,
}
