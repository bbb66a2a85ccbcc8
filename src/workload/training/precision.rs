//! `Precision` of the arithmetic, what a recipe of few bits does beside it, and `BaseWeights` of a quantised frozen base.

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

/// What has one scale in fp8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// A tensor: the recipes `delayed` and `tensorwise` of Transformer Engine.
    #[default]
    Tensor,
    /// A block of 128 x 128 weights, and 128 activations in a row: the recipe `blockwise` (DeepSeek-V3, arXiv 2412.19437, section 3.3).
    Block,
}

/// What a recipe of 8 bits and fewer does beside its format; in 16 bits it is the default, and counts for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LowPrecision {
    /// Attention multiplies in 8 bits too.
    pub attention: bool,
    /// Part of the linear layers that stays in 16 bits.
    pub half_share: f64,
    /// Of fp8; the other formats scale blocks by their definition.
    pub scaling: Scaling,
}

/// Why the keys of a recipe of few bits do not fit together: the key, and what is wrong with it.
pub type LowPrecisionError = (&'static str, String);

impl LowPrecision {
    /// From what is stated beside a precision.
    pub fn read(
        precision: Precision,
        attention: Option<bool>,
        half_share: Option<f64>,
        scaling: Option<Scaling>,
    ) -> Result<Self, LowPrecisionError> {
        let stated = [
            ("fp8_attention", attention.is_some()),
            ("half_precision_share", half_share.is_some()),
            ("fp8_scaling", scaling.is_some()),
        ];
        if let Some((key, _)) = stated.iter().find(|(_, is_stated)| *is_stated && !precision.is_eight_bit_or_less()) {
            return Err((key, "only recipes in fp8, mxfp8 and nvfp4 have it; state one as `precision`".to_owned()));
        }
        if scaling.is_some() && precision != Precision::Fp8 {
            let why = "mxfp8 and nvfp4 scale blocks of their own size; only `precision = \"fp8\"` has a choice";
            return Err(("fp8_scaling", why.to_owned()));
        }
        let half_share = half_share.unwrap_or(0.0);
        if !(0.0..1.0).contains(&half_share) {
            let why = format!("`{half_share}` is not a part of the linear layers from 0 to below 1, such as 0.16");
            return Err(("half_precision_share", why));
        }
        Ok(Self { attention: attention.unwrap_or(false), half_share, scaling: scaling.unwrap_or_default() })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_few_bits_fit_their_precision() {
        let read = LowPrecision::read;
        assert_eq!(read(Precision::Bf16, None, None, None), Ok(LowPrecision::default()));
        let blocks = read(Precision::Fp8, Some(true), Some(0.16), Some(Scaling::Block)).unwrap();
        assert!(blocks.attention && blocks.half_share == 0.16 && blocks.scaling == Scaling::Block);
        for (precision, attention, half_share, scaling, key) in [
            (Precision::Bf16, Some(true), None, None, "fp8_attention"),
            (Precision::Fp16, None, Some(0.1), None, "half_precision_share"),
            (Precision::Mxfp8, None, None, Some(Scaling::Block), "fp8_scaling"),
            (Precision::Nvfp4, None, Some(1.0), None, "half_precision_share"),
            (Precision::Nvfp4, None, Some(f64::NAN), None, "half_precision_share"),
        ] {
            assert_eq!(read(precision, attention, half_share, scaling).unwrap_err().0, key);
        }
    }
}
