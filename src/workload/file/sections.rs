//! The sections of a workload file, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::scalar::{Names, Scalar, names, optional_names, plain_text, switch_or_rate, switch_or_rate_schema};

/// A named model, a `config.json`, or sizes; sizes beside a named model replace its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct ModelSection {
    /// Name of a model that the catalog knows, such as `llama-3.1-8b`.
    pub preset: Option<String>,
    /// Path of a Hugging Face `config.json`, or of the `model_index.json` of a diffusers pipeline.
    pub config: Option<String>,
    /// Path of a `model.safetensors.index.json` or of a safetensors file beside `config`.
    pub index: Option<String>,
    /// Family of a model that is described by its sizes: decoder, encoder, encdec, moe, moe-encdec or vit.
    pub kind: Option<String>,
    /// Number of parameters, such as `8.03B`; else counted from the sizes. Alone it stands for a dense language model of about this size,
    /// whose estimate has a wide band.
    pub parameters: Option<Scalar>,
    /// Floating point operations of a forward pass of one sample, such as `4.1G`, a multiply-add counted as two; with `parameters` it
    /// describes a model that is not built of transformer layers.
    pub flops_per_sample: Option<Scalar>,
    /// Transformer layers; of an encoder-decoder, those of the decoder.
    pub layers: Option<Scalar>,
    /// Layers of the encoder of an encoder-decoder.
    pub encoder_layers: Option<Scalar>,
    /// Width of the residual stream.
    pub hidden: Option<Scalar>,
    /// Attention heads.
    pub heads: Option<Scalar>,
    /// Heads of keys and values, fewer than `heads` for grouped-query attention.
    pub kv_heads: Option<Scalar>,
    /// Width of an attention head; else `hidden` over `heads`.
    pub head_dim: Option<Scalar>,
    /// Width of the feed-forward block.
    pub ffn_hidden: Option<Scalar>,
    /// Tokens of the vocabulary.
    pub vocab: Option<Scalar>,
    /// Longest sequence that the model is made for, in tokens.
    pub max_context: Option<Scalar>,
    /// Feed-forward block: glu (gated, three matrices) or gelu (two).
    pub mlp: Option<String>,
    /// Normalisation: rms or layer.
    pub norm: Option<String>,
    /// Whether the output projection shares the weights of the input embedding.
    pub tied_embeddings: Option<bool>,
    /// Whether attention and feed-forward block read the same input, as in GPT-J.
    pub parallel_residual: Option<bool>,
    /// Experts of a mixture of experts, in each such layer.
    pub experts: Option<Scalar>,
    /// Experts that a token is routed to.
    pub experts_per_token: Option<Scalar>,
    /// Width of one expert; else `ffn_hidden`.
    pub expert_ffn_hidden: Option<Scalar>,
    /// Experts that every token passes.
    pub shared_experts: Option<Scalar>,
    /// Layers of a mixture of experts that have no experts.
    pub dense_layers: Option<Scalar>,
}

/// How the model is trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct TrainingSection {
    /// What is done: pretrain, full-fine-tune, lora, qlora or train.
    pub task: Option<String>,
    /// What a step minimises: next-token (the default), dpo (ipo too), orpo (simpo and cpo too), kto, reward, grpo or distill. Samples and
    /// batches of dpo, orpo and reward are pairs.
    pub objective: Option<String>,
    /// Name of the model whose answers the objective `distill` meets.
    pub teacher: Option<String>,
    /// Short samples share a sequence; `data.tokens_per_sample` says how long they are. Else each is padded to `sequence_length`.
    pub packing: Option<bool>,
    /// Tokens to train on, such as `300B`. One of `tokens`, `samples`, `epochs` and `steps` says how much.
    pub tokens: Option<Scalar>,
    /// Samples to train on, such as `10M`.
    pub samples: Option<Scalar>,
    /// Passes over the data set, whose size `data.samples` or `data.tokens` states.
    pub epochs: Option<Scalar>,
    /// Optimizer steps.
    pub steps: Option<Scalar>,
    /// Time that the job spends on anything but training steps, such as evaluation and runs that are done again, over the time of the steps,
    /// such as 0.1. Saving, restarts and failures of machines are counted without it.
    pub overhead: Option<f64>,
    /// Tokens of a sequence, or the side of an image in pixels.
    pub sequence_length: Option<Scalar>,
    /// Sequences (or images) of one optimizer step.
    pub global_batch: Option<Scalar>,
    /// The same in tokens, in place of `global_batch`.
    pub global_batch_tokens: Option<Scalar>,
    /// Sequences that one GPU works on at a time.
    pub micro_batch: Option<Scalar>,
    /// Micro-batches whose gradients are summed before an optimizer step.
    pub grad_accumulation: Option<Scalar>,
    /// Number format: fp32, tf32, fp16, amp-fp16, bf16, pure-bf16, fp8, mxfp8 or nvfp4.
    pub precision: Option<String>,
    /// Whether attention multiplies in 8 bits too, of fp8, mxfp8 and nvfp4.
    pub fp8_attention: Option<bool>,
    /// Part of the linear layers that an fp8, mxfp8 or nvfp4 recipe keeps in 16 bits, such as 0.16.
    pub half_precision_share: Option<f64>,
    /// What has one scale in fp8: tensor or block.
    pub fp8_scaling: Option<String>,
    /// Format of the frozen weights under adapters: nf4, nf4-dq, int8 or int4.
    pub base_weights: Option<String>,
    /// Optimizer, such as adamw, adamw-bf16, adamw-8bit, adamw-paged or lamb.
    pub optimizer: Option<String>,
    /// Whether each weight is updated as soon as its gradient is there.
    pub optimizer_in_backward: Option<bool>,
    /// Whether an exponential moving average (EMA) of the trained weights is kept beside them, in fp32 on the GPU.
    pub ema: Option<bool>,
    /// Activations that are computed again in the backward pass: none, selective, full or offload.
    pub recompute: Option<String>,
    /// Attention kernel: flash, flash3 or eager.
    pub attention: Option<String>,
    /// How logits and loss are computed: fp32, bf16-chunked, chunked, fused-linear, compiled or hf-upcast.
    pub loss: Option<String>,
    /// Whether the model is compiled.
    pub compile: Option<bool>,
    /// Whether kernels are launched from CUDA graphs.
    pub cuda_graphs: Option<bool>,
    /// Whether the channels of a pixel lie side by side (`torch.channels_last`).
    pub channels_last: Option<bool>,
    /// Frames of a video, of a diffusion model that makes them; `sequence_length` is the side of a square as large as a frame.
    pub frames: Option<Scalar>,
    /// Whether prompts and pictures of a diffusion transformer are encoded once, before the training (the default), or in every step.
    pub cache_latents: Option<bool>,
    /// Whether dropout is used; its rate will do.
    #[serde(deserialize_with = "switch_or_rate")]
    #[schemars(schema_with = "switch_or_rate_schema")]
    pub dropout: Option<bool>,
    /// What is kept in the memory of the host: parameters or activations.
    pub offload: Option<String>,
    /// Training stack, such as megatron, nemo, torchtitan or hf-trainer: a name of catalogs/stacks.toml.
    pub framework: Option<String>,
    /// Year of the version of the training stack that runs; today's where nothing is said.
    pub framework_year: Option<u32>,
    /// Whether the output projection is quantised as well.
    pub head_quantized: Option<bool>,
    /// FSDP version and style: 1, 1-no-sync, 1-weights-stay-gathered or 2.
    pub fsdp: Option<Scalar>,
    /// Traffic that the stack hides behind arithmetic: tensor-parallel, weight-gather.
    #[serde(deserialize_with = "optional_names")]
    #[schemars(with = "Option<Names>")]
    pub overlap: Option<Vec<String>>,
    /// Bytes of gradients over bytes sent, such as 4 for 8 bits instead of 32.
    pub gradient_compression: Option<f64>,
    /// Optimizer steps between synchronisations of whole copies of the model (local SGD).
    pub local_steps: Option<u32>,
    /// Low-rank adapters, of the tasks lora and qlora.
    pub lora: LoraSection,
}

/// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct LoraSection {
    /// Rank of the adapters.
    pub rank: Option<Scalar>,
    /// Matrices with adapters, such as q, v or all-linear.
    #[serde(deserialize_with = "optional_names")]
    #[schemars(with = "Option<Names>")]
    pub targets: Option<Vec<String>>,
    /// Whether the adapters have dropout; its rate will do.
    #[serde(deserialize_with = "switch_or_rate")]
    #[schemars(schema_with = "switch_or_rate_schema")]
    pub dropout: Option<bool>,
}

/// The data set, and how samples reach the GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct DataSection {
    /// What a launch copies to the machines: `s3://bucket/prefix`, `gs://bucket/prefix` or a local folder.
    pub location: Option<String>,
    /// Amount of data with its unit, such as `1.2TB`.
    pub size: Option<String>,
    /// Samples of the data set.
    pub samples: Option<Scalar>,
    /// Tokens of the data set.
    pub tokens: Option<Scalar>,
    /// Tokens of a sample on average, without padding.
    pub tokens_per_sample: Option<Scalar>,
    /// Where the data lies, as `cloud/region`.
    pub place: Option<String>,
    /// Seconds of one core of the host for a sample, measured.
    pub cpu_seconds_per_sample: Option<Scalar>,
    /// What a sample is: jpeg, webp, raw, text, tokens, audio or video. It decides what a sample costs the host where that is not stated.
    pub kind: Option<String>,
    /// Where samples are read from: disk, network-disk or object-store.
    pub storage: Option<String>,
    /// Kind of the network disk, such as gp3.
    pub disk: Option<String>,
    /// Provisioned operations a second of the network disk.
    pub disk_iops: Option<Scalar>,
    /// Provisioned throughput of the network disk: data a second with its unit, such as `500MB`.
    pub disk_throughput: Option<String>,
    /// Length of an audio sample.
    pub seconds_per_sample: Option<Scalar>,
    /// Frames of a video that are decoded for a sample.
    pub frames_per_sample: Option<Scalar>,
    /// Lines of a video frame.
    pub frame_height: Option<Scalar>,
    /// How samples are packed: one-each or shards.
    pub files: Option<String>,
    /// Loader processes for each GPU.
    pub workers: Option<Scalar>,
    /// What decodes pictures: cpu or gpu.
    pub decode: Option<String>,
    /// Whether batches are copied to the GPU from pinned (page-locked) memory.
    pub pinned: Option<bool>,
}

/// What is saved, and how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct CheckpointSection {
    /// Size of a checkpoint with its unit, such as `110GB`; else counted from the model.
    pub size: Option<String>,
    /// Time between two checkpoints, such as `30m`, or `choose`: the cheapest for the risk of the machines.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub interval: Option<String>,
}

/// The job is run many times, each with an index that its command turns into settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct SweepSection {
    /// How many times the job runs.
    pub runs: Option<Scalar>,
    /// Most runs at a time on one machine.
    pub parallel: Option<Scalar>,
    /// Whole cards, or the share of one that a run shares with others, such as 0.5.
    pub gpus_per_run: Option<Scalar>,
}

/// What the choice must keep to, as text: the plan reads it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct LimitsSection {
    /// When the run must be done: a duration such as `36h`, or a time in RFC 3339.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub deadline: Option<String>,
    /// The most that the run may cost, in dollars.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub budget: Option<String>,
    /// Probability with which deadline and budget are kept, such as 0.9.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub confidence: Option<String>,
    /// The most that a machine may cost, in dollars an hour.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub max_price: Option<String>,
    /// What finishing an hour sooner is worth, in dollars.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub value_of_time: Option<String>,
    /// Clouds that may be used; all where none is named.
    #[serde(deserialize_with = "names")]
    #[schemars(with = "Names")]
    pub clouds: Vec<String>,
    /// Regions that may be used; all where none is named.
    #[serde(deserialize_with = "names")]
    #[schemars(with = "Names")]
    pub regions: Vec<String>,
    /// GPUs that may be used, such as `H100:8`, `24GB+` or `L4:1/4`; several with `;` between them.
    pub gpus: Option<String>,
    /// What the recommended plan has least of: cost, time, or balanced (the product of both).
    pub objective: Option<String>,
    /// Terms of purchase: any, on-demand, spot, spot-with-fallback, commitment, capacity-block, calendar or flex-start.
    pub purchase: Option<String>,
    /// The most machines of a plan.
    pub max_nodes: Option<u32>,
    /// Offers with a suspicion may be recommended.
    pub include_suspect: Option<bool>,
    /// Several machines may be joined by a network that GPUs cannot use directly.
    pub allow_slow_network: Option<bool>,
}

/// A model that answers. One of the first eight says how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct ServingSection {
    /// Requests that arrive a second.
    pub requests_per_second: Option<Scalar>,
    /// Tokens a day, of prompts and answers together.
    pub tokens_per_day: Option<Scalar>,
    /// Images that arrive a second.
    pub images_per_second: Option<Scalar>,
    /// Hours of sound that arrive a day.
    pub audio_hours_per_day: Option<Scalar>,
    /// Requests to get done.
    pub requests: Option<Scalar>,
    /// To get done, of prompts and answers together.
    pub tokens: Option<Scalar>,
    /// Images to get done.
    pub images: Option<Scalar>,
    /// Hours of sound to get done.
    pub audio_hours: Option<Scalar>,
    /// Tokens of a prompt.
    pub prompt_tokens: Option<Scalar>,
    /// Tokens of an answer; 0 where only the prompt is read.
    pub answer_tokens: Option<Scalar>,
    /// Nine of ten requests see their first token within this time, such as `300ms`.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub time_to_first_token: Option<String>,
    /// Mean time between two tokens of an answer, such as `50ms`.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub time_per_token: Option<String>,
    /// Hours of a month that the service runs.
    pub hours: Option<Scalar>,
    /// How long the service runs, once, such as `3d`; in place of `hours`.
    #[serde(deserialize_with = "plain_text")]
    #[schemars(with = "Option<Scalar>")]
    pub duration: Option<String>,
    /// Format of the weights: bf16, fp8, int8, int4 (AWQ and GPTQ too), mxfp4 or nvfp4; else as the model is published.
    pub weights: Option<String>,
    /// Format of keys and values: bf16, fp8 or int8.
    pub kv_cache: Option<String>,
    /// Share of time that as many replicas run as the load needs, such as 0.99.
    pub availability: Option<Scalar>,
    /// The program that serves: vllm, sglang or tensorrt-llm; of models that answer in one pass tensorrt,
    /// which merges operators, or pytorch, which does not; of speech faster-whisper or pytorch (transformers) too.
    pub engine: Option<String>,
    /// GPUs that share each matrix of a copy; else chosen.
    pub tensor_parallel: Option<Scalar>,
    /// Stages of layers of a copy; else chosen.
    pub pipeline_parallel: Option<Scalar>,
    /// Groups of `tensor_parallel` GPUs that attend to sequences of their own and share the feed-forward blocks.
    pub attention_data_parallel: Option<Scalar>,
    /// Experts are dealt out whole over the GPUs of a copy.
    pub expert_parallel: Option<bool>,
    /// Prompts are read by GPUs of their own, which hand the cache over; the keys above are then of copies that write answers.
    pub disaggregated: Option<bool>,
    /// Copies that read prompts for `decode_workers` that write answers; else as many of each as the load wants.
    pub prefill_workers: Option<Scalar>,
    /// Copies that write answers for `prefill_workers` that read prompts.
    pub decode_workers: Option<Scalar>,
    /// GPUs that share each matrix of a copy that reads prompts; else chosen.
    pub prefill_tensor_parallel: Option<Scalar>,
    /// Groups of `prefill_tensor_parallel` GPUs that read prompts of their own and share the feed-forward blocks.
    pub prefill_attention_data_parallel: Option<Scalar>,
    /// Experts are dealt out whole over the GPUs of a copy that reads prompts.
    pub prefill_expert_parallel: Option<bool>,
    /// Tokens that are drafted for each sequence and pass, by a draft model or by heads of the model itself.
    pub draft_tokens: Option<Scalar>,
    /// Of the drafted tokens, those that are accepted, on average.
    pub accepted_tokens: Option<Scalar>,
    /// Steps of the sampler of a diffusion model for an image; else those that its publisher names.
    pub steps: Option<Scalar>,
    /// Classifier-free guidance: every step runs a diffusion model with and without the prompt.
    pub guidance: Option<bool>,
    /// Side of the images that a diffusion model makes, in pixels.
    pub resolution: Option<Scalar>,
    /// Images that a diffusion model makes, or windows of sound that are written down, together at most; else as many as fit.
    pub batch: Option<Scalar>,
    /// Seconds of sound that a request is about; else all that the model hears at once, 30 of Whisper.
    pub audio_seconds: Option<Scalar>,
    /// Transcripts that are followed at once in a search for the likeliest (beam search); 1: none but the likeliest token is.
    pub beams: Option<Scalar>,
}

/// Work for machines without GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
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
#[serde(default, deny_unknown_fields, expecting = "a table of keys")]
pub struct PhaseSection {
    /// Name of the phase, such as `train`.
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

impl SweepSection {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ServingSection {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
