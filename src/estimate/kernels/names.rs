//! What a packed table of measured kernels holds: the name of each of its parts, as the type that a question is asked with.

use crate::kernels::surface::Form;
use gpuplan_hardware::{Gpu, NumberFormat};

/// Whose kernels were measured: what the serving engine picks for a shape. For 16-bit products both end in cuBLAS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    TensorRtLlm,
    Vllm,
}

/// Formats of the factors of a product, or of attention and its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelPrecision {
    Bf16,
    /// One scale a tensor.
    Fp8,
    /// One scale for each block of 128 x 128 weights, and for 128 activations in a row.
    Fp8Block,
    Nvfp4,
    /// Both factors in 8-bit integers (SmoothQuant).
    Int8,
    /// 8-bit weights, 16-bit activations.
    Int8Weights,
    Int4Weights,
    Mxfp4Weights,
    /// 4-bit weights, 8-bit activations, both with a scale for every 32 values.
    Mxfp4Mxfp8,
}

impl KernelPrecision {
    /// Bytes of an element of the inputs, scales of blocks included.
    pub(super) fn bytes(self) -> f64 {
        match self {
            Self::Bf16 | Self::Int8Weights | Self::Int4Weights | Self::Mxfp4Weights => 2.0,
            Self::Fp8 | Self::Fp8Block | Self::Int8 | Self::Mxfp4Mxfp8 => 1.0,
            Self::Nvfp4 => 0.5625,
        }
    }

    /// The units that multiply.
    pub(super) fn format(self) -> NumberFormat {
        match self {
            Self::Bf16 | Self::Int8Weights | Self::Int4Weights | Self::Mxfp4Weights => NumberFormat::Bf16,
            Self::Fp8 | Self::Fp8Block | Self::Mxfp4Mxfp8 => NumberFormat::Fp8,
            Self::Nvfp4 => NumberFormat::Fp4,
            Self::Int8 => NumberFormat::Int8,
        }
    }

    /// Dense TFLOP/s of a card in it; `None` without units for it.
    pub(super) fn peak(self, gpu: &Gpu) -> Option<f64> {
        match self {
            Self::Fp8Block | Self::Mxfp4Mxfp8 => gpu.peak_tflops.block_scaled(),
            _ => gpu.peak_tflops.get(self.format()),
        }
    }

    /// Bytes of a weight, without scales where their blocks may differ.
    pub(super) fn weight_bytes(self) -> f64 {
        match self {
            Self::Int8Weights => 1.0,
            Self::Int4Weights | Self::Mxfp4Weights | Self::Mxfp4Mxfp8 => 0.5,
            Self::Bf16 | Self::Fp8 | Self::Fp8Block | Self::Int8 | Self::Nvfp4 => self.bytes(),
        }
    }
}

/// How evenly tokens spread over experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routing {
    Balanced,
    /// A power law with exponent 1.2.
    Skewed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
}

/// Whose collective: NCCL's, or the all-reduce that an engine brings for small messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    Nccl,
    Engine(Engine),
}

/// One part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Gemm(Engine, KernelPrecision),
    /// Prefill, causal. `window` is 0 without one.
    Context {
        engine: Engine,
        arithmetic: KernelPrecision,
        cache: KernelPrecision,
        head_dim: u32,
        window: u32,
    },
    /// Attention without a mask.
    Encoder {
        engine: Engine,
        arithmetic: KernelPrecision,
        head_dim: u32,
    },
    /// One new token for each sequence.
    Decode {
        engine: Engine,
        cache: KernelPrecision,
        head_dim: u32,
        window: u32,
    },
    LatentContext(Engine, KernelPrecision),
    LatentDecode(Engine, KernelPrecision),
    Experts(Engine, KernelPrecision, Routing),
    Collective(Library, Collective),
}

const PRECISIONS: [(&str, KernelPrecision); 9] = [
    ("bf16", KernelPrecision::Bf16),
    ("fp8", KernelPrecision::Fp8),
    ("fp8_block", KernelPrecision::Fp8Block),
    ("nvfp4", KernelPrecision::Nvfp4),
    ("int8", KernelPrecision::Int8),
    ("int8_weights", KernelPrecision::Int8Weights),
    ("int4_weights", KernelPrecision::Int4Weights),
    ("mxfp4_weights", KernelPrecision::Mxfp4Weights),
    ("mxfp4_mxfp8", KernelPrecision::Mxfp4Mxfp8),
];

fn precision(name: &str) -> Option<KernelPrecision> {
    PRECISIONS.iter().find(|(known, _)| *known == name).map(|(_, precision)| *precision)
}

fn engine(name: &str) -> Option<Engine> {
    match name {
        "trtllm" => Some(Engine::TensorRtLlm),
        "vllm" => Some(Engine::Vllm),
        _ => None,
    }
}

impl Part {
    /// From the words that a table names it by.
    pub(super) fn named(name: &str) -> Option<Self> {
        let words: Vec<&str> = name.split(' ').collect();
        Some(match *words.as_slice() {
            ["gemm", who, factors] => Self::Gemm(engine(who)?, precision(factors)?),
            ["context", who, arithmetic, cache, head, window] => Self::Context {
                engine: engine(who)?,
                arithmetic: precision(arithmetic)?,
                cache: precision(cache)?,
                head_dim: head.parse().ok()?,
                window: window.parse().ok()?,
            },
            ["encoder", who, arithmetic, head] => {
                Self::Encoder { engine: engine(who)?, arithmetic: precision(arithmetic)?, head_dim: head.parse().ok()? }
            }
            ["decode", who, cache, head, window] => Self::Decode {
                engine: engine(who)?,
                cache: precision(cache)?,
                head_dim: head.parse().ok()?,
                window: window.parse().ok()?,
            },
            ["mla_context", who, cache] => Self::LatentContext(engine(who)?, precision(cache)?),
            ["mla_decode", who, cache] => Self::LatentDecode(engine(who)?, precision(cache)?),
            ["moe", who, factors, "balanced"] => Self::Experts(engine(who)?, precision(factors)?, Routing::Balanced),
            ["moe", who, factors, "skewed"] => Self::Experts(engine(who)?, precision(factors)?, Routing::Skewed),
            ["collective", who, operation] => {
                let library = if who == "nccl" { Library::Nccl } else { Library::Engine(engine(who)?) };
                Self::Collective(library, collective(operation)?)
            }
            _ => return None,
        })
    }

    pub(super) fn form(self) -> Form {
        let growth = match self {
            // n, k, m.
            Self::Gemm(..) => [1.0, 1.0, 1.0],
            // Heads that share keys and values, sequences times heads, tokens of a sequence.
            Self::Context { window: 0, .. } | Self::Encoder { .. } => [0.0, 1.0, 2.0],
            Self::Context { .. } => [0.0, 1.0, 1.0],
            Self::Decode { window: 0, .. } => [0.0, 1.0, 1.0],
            Self::Decode { .. } => [0.0, 1.0, 0.0],
            // Heads, sequences, tokens of a sequence.
            Self::LatentContext(..) => [1.0, 1.0, 2.0],
            Self::LatentDecode(..) => [1.0, 1.0, 1.0],
            // Parts of the experts, tokens: more parts never take longer.
            Self::Experts(..) => [0.0, 0.0, 1.0],
            // GPUs, bytes.
            Self::Collective(..) => [0.0, 0.0, 1.0],
        };
        Form { growth, is_curved: !matches!(self, Self::Gemm(..)) }
    }
}

fn collective(name: &str) -> Option<Collective> {
    match name {
        "all_reduce" => Some(Collective::AllReduce),
        "all_gather" => Some(Collective::AllGather),
        "reduce_scatter" => Some(Collective::ReduceScatter),
        "all_to_all" => Some(Collective::AllToAll),
        _ => None,
    }
}
