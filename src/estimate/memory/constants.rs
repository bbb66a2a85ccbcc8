//! `MemoryConstants`: what the memory model cannot count, each with its prior, its unit and its reason. The values are in
//! `benchmarks/results/memory_constants.toml`; `accuracy::memory_fit::refit` writes them anew.
//!
//! Fitted together (maximum a posteriori, robust log error) on the published peaks of `benchmarks/published`. A width of
//! zero means judged: no published run decides it, so it keeps its prior.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parameters::{Parameter, Scale, constants};

/// Values of the last fit, with what it rested on.
static FITTED: &str = include_str!("../../../benchmarks/results/memory_constants.toml");

constants! {
    MemoryConstants, MEMORY_PARAMETERS;
    /// Reserved over allocated, less one, on several GPUs: blocks that the allocator holds and cannot use. PyTorch's own
    /// figures for ragged shapes are 5 to 20 %.
    fragmentation: Log 0.12 +- 0.4 "";
    /// The same on one GPU with regular shapes. No published rows.
    fragmentation_single: Log 0.04 +- 0.0 "";
    /// CUDA context and cuBLAS workspace.
    context_bytes: Log 0.45e9 +- 0.0 "bytes";
    /// NCCL buffers.
    nccl_bytes: Log 0.9e9 +- 0.0 "bytes";
    /// NCCL buffers that a full card cannot do without, for the fit decision.
    nccl_least_bytes: Log 0.6e9 +- 0.0 "bytes";
    /// Small tensors that nobody counts.
    workspace_bytes: Log 0.02e9 +- 0.0 "bytes";
    /// Margin of the fit decision over live tensors: fragments that no released cache gives back.
    fit_margin: Log 0.10 +- 0.0 "";
    /// Flat unfused fp32 Adam beside 16-bit weights and gradients: fp32 gradients 4, master copy 4, moments 8, and the
    /// denominator of an unfused step 4.
    flat_fp32_bytes: Log 20.0 +- 0.1 "bytes/parameter";
    /// Copies of the root unit's gradient under FSDP1: the gradient itself and the input of its reduce-scatter.
    root_gradient_copies: Log 2.0 +- 0.3 "";
    /// Copies of a whole layer's flat gradient when adapters share an FSDP1 unit with frozen weights: zeros for the frozen
    /// views, their concatenation, and the input of the reduce-scatter.
    flat_gradient_copies: Log 3.0 +- 0.2 "";
    /// Logits kept in chunks: 16-bit logits and one of eight chunks in fp32.
    loss_chunked_bytes: Log 2.5 +- 0.15 "bytes/entry";
    /// 16-bit logits and their gradient.
    loss_half_chunked_bytes: Log 4.0 +- 0.0 "bytes/entry";
    /// 16-bit logits, then fp32 log-softmax and the gradients of the two backward steps, fp32 too: 2 + 4 + 4 + 4.
    loss_fp32_bytes: Log 14.0 +- 0.15 "bytes/entry";
    /// The same compiled: 16-bit logits, fp32 logits and one fp32 gradient.
    loss_compiled_bytes: Log 10.0 +- 0.15 "bytes/entry";
    /// Hugging Face: 16-bit and fp32 logits, their shifted copy, log-softmax and its gradient: 2 + 4 + 4 + 4 + 4.
    loss_upcast_bytes: Log 18.0 +- 0.15 "bytes/entry";
    /// Of these the fp32 logits, which the model's output holds through the backward pass.
    loss_upcast_kept_bytes: Log 4.0 +- 0.0 "bytes/entry";
    /// Bytes per token, layer and hidden unit that bitsandbytes layers keep beyond the counted tensors: two 16-bit copies.
    quantised_surplus_bytes: Log 4.0 +- 0.3 "bytes/(token hidden)";
    /// Share of the down-projection input that a frozen plain linear keeps; seen in the micro-batch slopes of peaks.
    frozen_down_share: Log 0.8 +- 0.15 "";
    /// Bytes per head and score of soft-capped attention, which has no fused kernel: eight 16-bit tensors.
    softcap_score_bytes: Log 16.0 +- 0.15 "bytes/score";
}

/// The constants file: values with the fit they came from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FittedMemory {
    /// Published peaks that were fitted.
    pub runs: usize,
    /// Mean absolute error in sample, percent.
    pub error_percent: f64,
    /// The same for sources that the constants never saw.
    pub held_out_error_percent: f64,
    pub values: MemoryConstants,
    pub held_out_sources: Vec<HeldOutSource>,
    /// Peaks of strangers inside bands that never saw them.
    #[serde(default)]
    pub coverage: MemoryCoverage,
    /// Half-widths of those bands.
    #[serde(default)]
    pub bands: Vec<MemoryWidth>,
}

/// Error of one source when it was left out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeldOutSource {
    pub name: String,
    pub runs: usize,
    pub mape_percent: f64,
}

/// What measured peaks are off by, more than expected and less.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemoryWidth {
    pub name: String,
    pub more: f64,
    pub less: f64,
    /// Sources that it rests on.
    pub sources: usize,
}

/// What the widths hold of looks that they never saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCoverage {
    /// Peaks of `benchmarks/unfitted` that the widths are of.
    pub runs: usize,
    /// Of these, inside a band whose widths were fitted on the other looks, and the mean over sources.
    pub inside_percent: f64,
    pub inside_by_source_percent: f64,
    /// Median of high over low.
    pub high_over_low: f64,
}

impl MemoryConstants {
    /// The values inside this binary.
    pub fn embedded() -> &'static Self {
        &FittedMemory::embedded().values
    }
}

impl FittedMemory {
    /// The fit inside this binary.
    pub fn embedded() -> &'static Self {
        static READ: OnceLock<FittedMemory> = OnceLock::new();
        READ.get_or_init(|| {
            toml::from_str(FITTED).expect("the test of this file reads the constants that the binary holds")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_file_is_read_and_physical() {
        let fitted = FittedMemory::embedded();
        for parameter in MEMORY_PARAMETERS {
            let value = (parameter.get)(&fitted.values);
            assert!(value > 0.0 && value.is_finite(), "{}: {value}", parameter.name);
            assert!(
                parameter.width > 0.0 || (value / parameter.prior - 1.0).abs() < 1e-9,
                "{} is judged",
                parameter.name
            );
        }
    }
}
