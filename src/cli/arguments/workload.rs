//! The workload on the command line: a file, flags, or a file with flags laid over it.

use std::path::PathBuf;

use clap::Args;

/// A workload as a file, as flags, or as a file with flags laid over it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Workload (each replaces the file's own value)")]
pub struct WorkloadArguments {
    /// Workload file (TOML), or a plan (JSON) whose question is asked again
    pub file: Option<PathBuf>,
    /// This one of the file's `[[phase]]`s, as a workload of its own
    #[arg(long, value_name = "NAME", requires = "file")]
    pub phase: Option<String>,
    /// Named model, such as llama-3.1-8b (see `gpuplan catalog models`)
    #[arg(short, long)]
    pub model: Option<String>,
    /// Hugging Face config.json of the model
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// model.safetensors.index.json beside the config, for the exact size
    #[arg(long, value_name = "FILE")]
    pub index: Option<PathBuf>,
    /// pretrain, full-fine-tune, lora, qlora or train
    #[arg(long)]
    pub task: Option<String>,
    /// Tokens to train on, such as 300B
    #[arg(long)]
    pub tokens: Option<String>,
    /// Samples (sequences, images) to train on
    #[arg(long)]
    pub samples: Option<String>,
    /// Passes over the data set
    #[arg(long)]
    pub epochs: Option<String>,
    /// Optimizer steps
    #[arg(long)]
    pub steps: Option<String>,
    /// Tokens in a sequence, or the image side
    #[arg(long, value_name = "N")]
    pub sequence_length: Option<String>,
    /// Sequences in an optimizer step
    #[arg(long, value_name = "N")]
    pub global_batch: Option<String>,
    /// Tokens in an optimizer step, such as 4M
    #[arg(long, value_name = "N")]
    pub global_batch_tokens: Option<String>,
    /// Sequences of one GPU in one pass
    #[arg(long, value_name = "N")]
    pub micro_batch: Option<String>,
    /// fp32, tf32, fp16, amp-fp16, bf16, pure-bf16, fp8, mxfp8 or nvfp4
    #[arg(long)]
    pub precision: Option<String>,
    /// adamw, adamw-bf16, adamw-8bit, adamw-paged, lamb, sgd ...
    #[arg(long)]
    pub optimizer: Option<String>,
    /// fsdp, megatron, hf-trainer, litgpt, torchtune, pytorch-eager ...
    #[arg(long)]
    pub framework: Option<String>,
    /// none, selective, full or offload
    #[arg(long)]
    pub recompute: Option<String>,
    /// flash or eager
    #[arg(long)]
    pub attention: Option<String>,
    /// The model is compiled
    #[arg(long)]
    pub compile: bool,
    /// Micro-steps of an optimizer step
    #[arg(long, value_name = "N")]
    pub grad_accumulation: Option<String>,
    /// Storage of a frozen base: nf4, nf4-dq, int8 or int4
    #[arg(long, value_name = "FORMAT")]
    pub base_weights: Option<String>,
    /// fp32, bf16-chunked, chunked, compiled or hf-upcast
    #[arg(long)]
    pub loss: Option<String>,
    /// parameters or activations, kept on the host
    #[arg(long)]
    pub offload: Option<String>,
    /// Rank of the adapters
    #[arg(long, value_name = "N")]
    pub lora_rank: Option<String>,
    /// Matrices with adapters: q,v or all-linear
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub lora_targets: Vec<String>,
    /// Size of the data set, such as 1.2TB
    #[arg(long, value_name = "SIZE")]
    pub data_size: Option<String>,
    /// Where the data lies: cloud/region
    #[arg(long, value_name = "PLACE")]
    pub data_place: Option<String>,
    /// Samples in the data set
    #[arg(long, value_name = "N")]
    pub data_samples: Option<String>,
    /// What samples are: jpeg, webp, raw, text, tokens, audio, video
    #[arg(long, value_name = "KIND")]
    pub data_kind: Option<String>,
    /// Host CPU time to load and decode one sample
    #[arg(long, value_name = "SECONDS")]
    pub cpu_seconds_per_sample: Option<String>,
    /// Size of a checkpoint, such as 110GB
    #[arg(long, value_name = "SIZE")]
    pub checkpoint_size: Option<String>,
    /// Checkpoint interval, such as 30m, or choose
    #[arg(long, value_name = "TIME")]
    pub checkpoint_interval: Option<String>,
}
