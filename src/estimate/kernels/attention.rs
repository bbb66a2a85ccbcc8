//! Attention: prefill, without a mask, decode; multi-head, grouped and latent.

use gpuplan_units::Seconds;

use crate::kernels::names::{Engine, KernelPrecision, Part};
use crate::kernels::table::KernelTable;

/// One layer's attention on one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Sequences.
    pub batch: f64,
    /// Of queries, on this GPU.
    pub heads: f64,
    /// Of keys and values, on this GPU.
    pub kv_heads: f64,
    pub head_dim: u32,
    /// Tokens of a sequence; in decode, those that the new token looks at, itself included.
    pub length: f64,
    /// Tokens that a token may look back at.
    pub window: Option<u32>,
}

/// That somebody measured, on one GPU or another.
const HEAD_DIMS: [u32; 7] = [64, 72, 80, 128, 192, 256, 512];

impl Attention {
    /// As it is named in a table: 0 where it cuts nothing.
    fn window(&self) -> u32 {
        self.window.filter(|window| f64::from(*window) < self.length).unwrap_or(0)
    }

    fn group(&self) -> f64 {
        self.heads / self.kv_heads
    }
}

impl KernelTable {
    /// Causal prefill: about 2 b h s^2 d FLOPs.
    pub fn context_seconds(
        &self,
        engine: Engine,
        arithmetic: KernelPrecision,
        cache: KernelPrecision,
        attention: &Attention,
    ) -> Option<Seconds> {
        let window = attention.window();
        let streams = attention.batch * attention.heads;
        let seconds = between_heads(attention.head_dim, |head_dim| {
            let surface = self.packed.surface(Part::Context { engine, arithmetic, cache, head_dim, window })?;
            Some(surface.seconds(attention.group(), streams, attention.length))
        })?;
        let pairs = match window {
            0 => 0.5 * attention.length * attention.length,
            window => (attention.length - 0.5 * f64::from(window)) * f64::from(window),
        };
        Some(self.bounded(seconds, arithmetic, 4.0 * streams * pairs * f64::from(attention.head_dim)))
    }

    /// Without a mask, in 16 bits: 4 b h s^2 d FLOPs. `kv_heads` and `window` do not matter.
    pub fn encoder_seconds(&self, engine: Engine, attention: &Attention) -> Option<Seconds> {
        let arithmetic = KernelPrecision::Bf16;
        let streams = attention.batch * attention.heads;
        let seconds = between_heads(attention.head_dim, |head_dim| {
            let surface = self.packed.surface(Part::Encoder { engine, arithmetic, head_dim })?;
            Some(surface.seconds(1.0, streams, attention.length))
        })?;
        let flops = 4.0 * streams * attention.length * attention.length * f64::from(attention.head_dim);
        Some(self.bounded(seconds, arithmetic, flops))
    }

    /// One new token for each sequence.
    pub fn decode_seconds(&self, engine: Engine, cache: KernelPrecision, attention: &Attention) -> Option<Seconds> {
        let window = attention.window();
        let seconds = between_heads(attention.head_dim, |head_dim| {
            let surface = self.packed.surface(Part::Decode { engine, cache, head_dim, window })?;
            Some(surface.seconds(attention.group(), attention.batch * attention.kv_heads, attention.length))
        })?;
        Some(Seconds(seconds))
    }

    /// Prefill of latent attention with DeepSeek-V3's dimensions (192 a head, 128 of values).
    pub fn latent_context_seconds(
        &self,
        engine: Engine,
        cache: KernelPrecision,
        heads: f64,
        batch: f64,
        length: f64,
    ) -> Option<Seconds> {
        let surface = self.packed.surface(Part::LatentContext(engine, cache))?;
        let flops = batch * heads * length * length * (192.0 + 128.0);
        let fastest = if cache == KernelPrecision::Fp8 { KernelPrecision::Fp8 } else { KernelPrecision::Bf16 };
        Some(self.bounded(surface.seconds(heads, batch, length), fastest, flops))
    }

    /// One new token for each sequence, over latents of 576.
    pub fn latent_decode_seconds(
        &self,
        engine: Engine,
        cache: KernelPrecision,
        heads: f64,
        batch: f64,
        length: f64,
    ) -> Option<Seconds> {
        let surface = self.packed.surface(Part::LatentDecode(engine, cache))?;
        Some(Seconds(surface.seconds(heads, batch, length)))
    }
}

/// At a head dimension, or between the two measured ones around it.
fn between_heads(head_dim: u32, seconds: impl Fn(u32) -> Option<f64>) -> Option<f64> {
    if let Some(exact) = seconds(head_dim) {
        return Some(exact);
    }
    let known = |dim: &u32| Some((f64::from(*dim), seconds(*dim)?));
    let (low, below) = HEAD_DIMS.iter().rev().filter(|dim| **dim < head_dim).find_map(known)?;
    let (high, above) = HEAD_DIMS.iter().filter(|dim| **dim > head_dim).find_map(known)?;
    let share = (f64::from(head_dim) / low).ln() / (high / low).ln();
    Some(below * (above / below).powf(share))
}
