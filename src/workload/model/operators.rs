//! The matrix products of a transformer on one rank under a layout: what the estimate times and a calibration measures.

use crate::model::{LayerStack, Model};
use crate::training::layout::Layout;

/// `count` products of M x K by K x N.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    pub m: f64,
    pub n: f64,
    pub k: f64,
    pub count: f64,
}

impl Gemm {
    #[inline]
    pub fn new(m: f64, n: f64, k: f64, count: f64) -> Self {
        Self { m, n, k, count }
    }

    /// Product for the gradient of the input: M x N by N x K.
    #[inline]
    pub fn input_gradient(self) -> Self {
        Self { n: self.k, k: self.n, ..self }
    }

    /// Product for the gradient of the weight: K x M by M x N.
    #[inline]
    pub fn weight_gradient(self) -> Self {
        Self { m: self.k, k: self.m, ..self }
    }

    /// One multiplication and one addition for every triple.
    #[inline]
    pub fn flops(self) -> f64 {
        2.0 * self.m * self.n * self.k * self.count
    }

    /// Elements of the three matrices.
    #[inline]
    pub fn elements(self) -> f64 {
        self.count * (self.m * self.k + self.k * self.n + self.m * self.n)
    }
}

/// A forward product of a layer with its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    pub what: &'static str,
    /// In an average layer: a fraction where some layers have it and others do not.
    pub gemm: Gemm,
}

impl Product {
    /// The routed experts of a rank are multiplied together, by one grouped product.
    pub fn is_grouped(&self) -> bool {
        matches!(self.what, EXPERT_UP | EXPERT_DOWN)
    }
}

const EXPERT_UP: &str = "expert up";
const EXPERT_DOWN: &str = "expert down";

/// Forward products of an average layer for `tokens` of one rank, split over tensor- and expert-parallel ranks. A search asks
/// this many thousand times, so nothing is allocated.
#[inline]
pub fn layer_products(model: &Model, layout: &Layout, tokens: f64) -> impl Iterator<Item = Product> {
    let (hidden, t) = (f64::from(model.hidden), f64::from(layout.tensor));
    let out_width = model.latent.map_or(model.query_width(), |latent| f64::from(model.heads * latent.value_head));
    // Latent attention as one product of the same number of weights.
    let in_width = model.attention_parameters() / hidden - out_width;
    let gates = model.mlp_matrices() - 1.0;
    let blocks = model.feed_forward_share();
    let dense_layers =
        model.experts.map_or(blocks, |experts| f64::from(experts.dense_layers) / f64::from(model.layers.max(1)));
    let mixtures = (blocks - dense_layers).max(0.0);
    let experts = model.experts.unwrap_or_default();
    // A rank holds experts / e of them, and each sees the tokens of all e ranks that chose it.
    let held = (f64::from(experts.experts) / f64::from(layout.expert)).max(1.0);
    let routed = (tokens * f64::from(experts.experts_per_token) / held).max(1.0);
    let (dense_width, expert_width) = (f64::from(model.ffn_hidden) / t, f64::from(experts.ffn_hidden) / t);
    let shared = f64::from(experts.shared_experts) * mixtures;
    let cross = CrossAttention::from_model(model);
    let all = [
        ("queries, keys, values", Gemm::new(tokens, in_width / t, hidden, 1.0)),
        ("attention output", Gemm::new(tokens, hidden, out_width / t, 1.0)),
        ("feed-forward up", Gemm::new(tokens, dense_width, hidden, gates * dense_layers)),
        ("feed-forward down", Gemm::new(tokens, hidden, dense_width, dense_layers)),
        (EXPERT_UP, Gemm::new(routed, expert_width, hidden, gates * held * mixtures)),
        (EXPERT_DOWN, Gemm::new(routed, hidden, expert_width, held * mixtures)),
        ("shared expert up", Gemm::new(tokens, expert_width, hidden, gates * shared)),
        ("shared expert down", Gemm::new(tokens, hidden, expert_width, shared)),
        ("cross attention queries", Gemm::new(tokens, out_width / t, hidden, cross.decoders)),
        ("cross attention keys, values", Gemm::new(tokens, (in_width - out_width) / t, hidden, cross.encoders)),
        ("cross attention scores", Gemm::new(tokens, cross.tokens, out_width / t, 2.0 * cross.decoders)),
        ("cross attention out", Gemm::new(tokens, hidden, out_width / t, cross.decoders)),
    ];
    all.into_iter().map(|(what, gemm)| Product { what, gemm }).filter(|product| product.gemm.flops() > 0.0)
}

/// Cross attention of an average layer.
struct CrossAttention {
    /// Layers that ask, of each that meets these tokens.
    decoders: f64,
    /// Layers that are asked, likewise.
    encoders: f64,
    /// Tokens that each asking one looks at, where they are known. Its scores and the mixing of values are fused in one kernel.
    tokens: f64,
}

impl CrossAttention {
    fn from_model(model: &Model) -> Self {
        let layers = f64::from(model.layers);
        match model.stack {
            Some(LayerStack::Decoder { encoder_tokens }) => {
                Self { decoders: 1.0, encoders: 0.0, tokens: encoder_tokens }
            }
            Some(LayerStack::Encoder { decoder_layers }) => {
                Self { decoders: 0.0, encoders: f64::from(decoder_layers) / layers.max(1.0), tokens: 0.0 }
            }
            None if model.encoder_layers > 0 => {
                let share = layers / f64::from(model.layers + model.encoder_layers);
                Self { decoders: share, encoders: share, tokens: 0.0 }
            }
            None => Self { decoders: 0.0, encoders: 0.0, tokens: 0.0 },
        }
    }
}

/// The product with the vocabulary; `None` for models without one.
#[inline]
pub fn head_product(model: &Model, layout: &Layout, tokens: f64) -> Option<Product> {
    let vocab = f64::from(model.vocab) / f64::from(layout.tensor);
    (vocab > 0.0).then(|| Product { what: "output head", gemm: Gemm::new(tokens, vocab, f64::from(model.hidden), 1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::deviations::{Deviations, Hybrid};
    use crate::model::{Experts, tests::llama_2_7b};

    fn flops(model: &Model, layout: &Layout) -> f64 {
        layer_products(model, layout, 4096.0).map(|product| product.gemm.flops()).sum()
    }

    #[test]
    fn gradients_multiply_the_same_volume() {
        let gemm = Gemm::new(4096.0, 11008.0, 4096.0, 1.0);
        for other in [gemm.input_gradient(), gemm.weight_gradient()] {
            assert_eq!(other.flops(), gemm.flops());
            assert_eq!(other.elements(), gemm.elements());
        }
    }

    #[test]
    fn a_layer_multiplies_each_weight_once_and_ranks_share_it() {
        let model = llama_2_7b();
        let whole = flops(&model, &Layout::default());
        assert!((whole / (2.0 * 4096.0 * model.layer_parameters()) - 1.0).abs() < 1e-12);
        let split = flops(&model, &Layout { tensor: 8, ..Layout::default() });
        assert!((whole / split / 8.0 - 1.0).abs() < 1e-12);
    }

    /// Two layers of four have attention, one a recurrence, and three a feed-forward block.
    #[test]
    fn a_hybrid_multiplies_the_weights_that_it_has() {
        let hybrid =
            Hybrid { attention_layers: 16, recurrent_layers: 8, recurrent_parameters: 1e8, feed_forward_layers: 24 };
        let deviations = Deviations { hybrid: Some(hybrid), ..Deviations::default() };
        let model = Model { deviations, ..llama_2_7b() };
        let attention = 16.0 * 4.0 * 4096.0 * 4096.0 + 8.0 * 1e8;
        let weights = attention + 24.0 * 3.0 * 4096.0 * 11008.0;
        assert!((flops(&model, &Layout::default()) * 32.0 / (2.0 * 4096.0 * weights) - 1.0).abs() < 1e-12);
        let embeddings = 2.0 * 32000.0 * 4096.0;
        assert!((model.counted_parameters() / (weights + embeddings) - 1.0).abs() < 1e-12);
        // The first of its blocks may be dense, the others mixtures.
        let experts =
            Experts { experts: 4, experts_per_token: 1, shared_experts: 0, ffn_hidden: 11008, dense_layers: 4 };
        let mixture = Model { experts: Some(experts), ..model };
        let one = 3.0 * 4096.0 * 11008.0;
        let counted = attention + 4.0 * one + 20.0 * (4.0 * one + 4.0 * 4096.0) + embeddings;
        assert!((mixture.counted_parameters() / counted - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_mixture_multiplies_the_active_weights() {
        let experts =
            Experts { experts: 8, experts_per_token: 2, shared_experts: 1, ffn_hidden: 11008, dense_layers: 2 };
        let model = Model { experts: Some(experts), ..llama_2_7b() };
        // The router's product, hidden x experts, is too small to count.
        let router = 4096.0 * 8.0 * (1.0 - 2.0 / 32.0);
        assert!(
            (flops(&model, &Layout::default()) / (2.0 * 4096.0 * (model.active_layer_parameters() - router)) - 1.0)
                .abs()
                < 1e-9
        );
    }
}
