//! `Precision` of the arithmetic and `BaseWeights` of a quantised frozen base.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Recipe of a training run's arithmetic, by the names the frameworks use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    Fp32,
    /// On a GPU older than compute capability 8 this is plain fp32.
    Tf32,
    /// 16-bit weights with an fp32 master copy and loss scaling.
    Fp16,
    /// fp32 weights, autocast to fp16.
    AmpFp16,
    /// 16-bit weights with an fp32 master copy.
    Bf16,
    /// Weights, gradients and optimizer all in bf16.
    PureBf16,
    Fp8,
    Mxfp8,
    Nvfp4,
}

impl Precision {
    pub const ALL: [Self; 9] = [
        Self::Fp32,
        Self::Tf32,
        Self::Fp16,
        Self::AmpFp16,
        Self::Bf16,
        Self::PureBf16,
        Self::Fp8,
        Self::Mxfp8,
        Self::Nvfp4,
    ];

    /// Bytes of an activation element.
    #[inline]
    pub fn activation_bytes(self) -> f64 {
        match self {
            Self::Fp32 | Self::Tf32 => 4.0,
            _ => 2.0,
        }
    }

    #[inline]
    pub fn needs_loss_scaling(self) -> bool {
        matches!(self, Self::Fp16 | Self::AmpFp16)
    }

    #[inline]
    pub fn is_eight_bit_or_less(self) -> bool {
        matches!(self, Self::Fp8 | Self::Mxfp8 | Self::Nvfp4)
    }
}

/// Storage of a frozen base model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BaseWeights {
    Nf4,
    /// Double quantisation: the block constants are quantised too.
    Nf4Dq,
    Int8,
    Int4,
}

impl BaseWeights {
    /// Bytes of a weight: NF4 with 64-blocks and fp32 constants is 4.5 bits, double quantised 4.127
    /// (Dettmers et al. 2023, arXiv 2305.14314, section 3).
    #[inline]
    pub fn bytes_per_weight(self) -> f64 {
        match self {
            Self::Nf4 | Self::Int4 => 0.5625,
            Self::Nf4Dq => 0.516,
            Self::Int8 => 1.0,
        }
    }

    /// Bytes of the packed digits alone, which sharding can divide.
    pub fn packed_bytes(self) -> f64 {
        if self == Self::Int8 { 1.0 } else { 0.5 }
    }
}
