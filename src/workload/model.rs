//! `Model`: the sizes of a network that decide memory and time, and the parameter counts that follow from them.

pub mod catalog;
pub mod deviations;
pub mod huggingface;
pub mod names;
pub mod operators;
pub mod pipeline;
pub mod safetensors;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::deviations::Deviations;
use crate::model::pipeline::Pipeline;
use crate::serving::StoredFormat;

/// Family by its mix of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    Decoder,
    Encoder,
    Encdec,
    Moe,
    MoeEncdec,
    Vit,
    Cnn,
    CnnDetection,
    CnnTts,
    RnnSeq2seq,
    RnnTts,
    Diffusion,
}

impl ModelKind {
    /// Built of transformer layers, so that the layer formulas apply.
    #[inline]
    pub fn is_transformer(self) -> bool {
        matches!(self, Self::Decoder | Self::Encoder | Self::Encdec | Self::Moe | Self::MoeEncdec | Self::Vit)
    }

    /// Keeps activations that can be computed again in the backward pass instead.
    #[inline]
    pub fn can_recompute(self) -> bool {
        self.is_transformer() || self == Self::Diffusion
    }

    /// Counts its work in images or sequences of fixed size rather than in tokens.
    #[inline]
    pub fn counts_samples(self) -> bool {
        !matches!(self, Self::Decoder | Self::Moe | Self::Encoder | Self::Encdec | Self::MoeEncdec)
    }
}

/// Feed-forward block: three matrices with a gate (SwiGLU, GeGLU) or two (GELU, ReLU).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MlpKind {
    Glu,
    Gelu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NormKind {
    Rms,
    Layer,
}

/// What follows the convolutions of a network that is built of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConvolutionNorm {
    #[default]
    Batch,
    Layer,
    None,
}

/// Norms of queries and keys before their scores (Henry et al. 2020, arXiv 2010.04245).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryKeyNorm {
    /// Each head for itself.
    Head,
    /// Over all heads of a layer: GPUs that share the heads out add their squares up first.
    Layer,
}

/// Mixture of experts: every layer but the first `dense_layers` has `experts` feed-forward blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Experts {
    pub experts: u32,
    pub experts_per_token: u32,
    pub shared_experts: u32,
    pub ffn_hidden: u32,
    pub dense_layers: u32,
}

/// Latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values are kept as one low-rank vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatentAttention {
    pub kv_rank: u32,
    /// Zero: queries are a plain projection.
    pub q_rank: u32,
    pub rope_head: u32,
    pub nope_head: u32,
    pub value_head: u32,
}

/// One of the two stacks of an encoder-decoder: they run on tokens of their own, and cross attention joins them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LayerStack {
    /// Its output becomes keys and values of the cross attention of every layer of the decoder.
    Encoder { decoder_layers: u32 },
    /// Its layers attend to the encoder's tokens too.
    Decoder { encoder_tokens: f64 },
}

/// The text tower of an image model that is trained on pictures with captions (CLIP, SigLIP): it reads every caption once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextTower {
    pub layers: u32,
    pub hidden: u32,
    pub heads: u32,
    pub ffn_hidden: u32,
    /// Of a caption, padded.
    pub tokens: u32,
}

/// A network. Counts are plain numbers; a zero `vocab` means there is no token embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub name: String,
    pub kind: ModelKind,
    /// All parameters, as stated by the source, else by `counted_parameters`.
    pub parameters: f64,
    pub layers: u32,
    pub hidden: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub ffn_hidden: u32,
    pub vocab: u32,
    pub mlp: MlpKind,
    pub norm: NormKind,
    pub parallel_residual: bool,
    pub attention_softcap: bool,
    pub tied_embeddings: bool,
    pub experts: Option<Experts>,
    pub latent: Option<LatentAttention>,
    /// Encoder layers of an encoder-decoder.
    pub encoder_layers: u32,
    /// Tokens that the encoder of an encoder-decoder sees of every sample, however long the sequence of its decoder: 1,500 for the
    /// 30 seconds of sound of Whisper. Zero: as many as the decoder, as T5 does.
    pub encoder_tokens: u32,
    /// Its parameters are among the deviations' other parameters.
    pub text_tower: Option<TextTower>,
    /// Tokens that the encoder sees of a second of sound; zero: it hears none.
    pub audio_tokens_per_second: f64,
    /// Set where this is one stack of an encoder-decoder, looked at by itself.
    pub stack: Option<LayerStack>,
    /// Longest sequence the model was made for; zero: not known.
    pub max_context: u32,
    /// Native image side of vision families.
    pub sample_side: u32,
    /// Forward FLOPs of one sample at its native size, for families that are not transformers.
    pub forward_flops_per_sample: f64,
    /// Elements that convolutions, products, gates and concatenations write for one sample at its native size, for the same families. `None`:
    /// not known.
    pub forward_elements_per_sample: Option<f64>,
    pub convolution_norm: ConvolutionNorm,
    pub query_key_norm: Option<QueryKeyNorm>,
    /// How the weights of the published files are stored.
    pub published: StoredFormat,
    pub deviations: Deviations,
    /// How a diffusion model makes pictures; `None`: it is none, or nothing is known.
    pub pipeline: Option<Pipeline>,
    /// Only the number of parameters is known, and the shape is that of another model of about this size.
    pub shape_is_guessed: bool,
}

impl Model {
    /// Sizes of zero and nothing special, for those who know the sizes to set them. Named `custom`.
    pub fn blank(kind: ModelKind, mlp: MlpKind, norm: NormKind, tied_embeddings: bool) -> Self {
        Self {
            name: "custom".to_owned(),
            kind,
            parameters: 0.0,
            layers: 0,
            hidden: 0,
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            ffn_hidden: 0,
            vocab: 0,
            mlp,
            norm,
            parallel_residual: false,
            attention_softcap: false,
            tied_embeddings,
            experts: None,
            latent: None,
            encoder_layers: 0,
            encoder_tokens: 0,
            text_tower: None,
            audio_tokens_per_second: 0.0,
            stack: None,
            max_context: 0,
            sample_side: 0,
            forward_flops_per_sample: 0.0,
            forward_elements_per_sample: None,
            convolution_norm: ConvolutionNorm::Batch,
            query_key_norm: None,
            published: StoredFormat::Bf16,
            deviations: Deviations::default(),
            pipeline: None,
            shape_is_guessed: false,
        }
    }

    /// Width of all query heads together.
    #[inline]
    pub fn query_width(&self) -> f64 {
        f64::from(self.heads) * f64::from(self.head_dim)
    }

    /// Width of keys (or values) of all KV heads together.
    #[inline]
    pub fn kv_width(&self) -> f64 {
        f64::from(self.kv_heads) * f64::from(self.head_dim)
    }

    /// Weight matrices of a feed-forward block.
    #[inline]
    pub fn mlp_matrices(&self) -> f64 {
        match self.mlp {
            MlpKind::Glu => 3.0,
            MlpKind::Gelu => 2.0,
        }
    }

    /// Attention weights of an average layer, those of a recurrence in its place included.
    #[inline]
    pub fn attention_parameters(&self) -> f64 {
        let full = self.full_attention_parameters();
        self.deviations.hybrid.map_or(full, |hybrid| {
            let all = f64::from(hybrid.attention_layers) * full
                + f64::from(hybrid.recurrent_layers) * hybrid.recurrent_parameters;
            all / f64::from(self.layers.max(1))
        })
    }

    /// Share of layers that have a feed-forward block.
    pub fn feed_forward_share(&self) -> f64 {
        let layers = f64::from(self.layers.max(1));
        self.deviations.hybrid.map_or(1.0, |hybrid| f64::from(hybrid.feed_forward_layers) / layers)
    }

    /// Weights of a layer with attention: h*a*d + 2*h*k*d + a*d*h; latent attention by its own projections.
    fn full_attention_parameters(&self) -> f64 {
        let hidden = f64::from(self.hidden);
        match self.latent {
            None => hidden * (2.0 * self.query_width() + 2.0 * self.kv_width()),
            Some(latent) => {
                let heads = f64::from(self.heads);
                let query = heads * f64::from(latent.nope_head + latent.rope_head);
                let queries = match latent.q_rank {
                    0 => hidden * query,
                    rank => f64::from(rank) * (hidden + query),
                };
                let keys = hidden * f64::from(latent.kv_rank + latent.rope_head)
                    + f64::from(latent.kv_rank) * heads * f64::from(latent.nope_head + latent.value_head);
                queries + keys + heads * f64::from(latent.value_head) * hidden
            }
        }
    }

    /// Feed-forward weights that live in an average layer (all experts).
    #[inline]
    pub fn mlp_parameters(&self) -> f64 {
        self.mlp_weights(|experts| f64::from(experts.experts + experts.shared_experts))
    }

    /// Feed-forward weights that a token meets in an average layer (routed and shared experts).
    #[inline]
    pub fn active_mlp_parameters(&self) -> f64 {
        self.mlp_weights(|experts| f64::from(experts.experts_per_token + experts.shared_experts))
    }

    fn mlp_weights(&self, count: impl Fn(&Experts) -> f64) -> f64 {
        let hidden = f64::from(self.hidden);
        let dense = self.mlp_matrices() * hidden * f64::from(self.ffn_hidden);
        // Layers without a block are left out of the average at the end.
        let layers = (f64::from(self.layers) * self.feed_forward_share()).max(1.0);
        let average = self.experts.map_or(dense, |experts| {
            let dense_share = f64::from(experts.dense_layers) / layers;
            let one = self.mlp_matrices() * hidden * f64::from(experts.ffn_hidden);
            dense_share * dense + (1.0 - dense_share) * (one * count(&experts) + hidden * f64::from(experts.experts))
        });
        average * self.feed_forward_share()
    }

    /// Matrix weights of one layer.
    #[inline]
    pub fn layer_parameters(&self) -> f64 {
        self.attention_parameters() + self.mlp_parameters() + self.idle_parameters()
    }

    /// Of these what no token meets.
    #[inline]
    pub fn idle_parameters(&self) -> f64 {
        self.deviations.diffusion.map_or(0.0, |layer| layer.idle_parameters)
    }

    /// Matrix weights of one layer that a token meets.
    #[inline]
    pub fn active_layer_parameters(&self) -> f64 {
        self.attention_parameters() + self.active_mlp_parameters()
    }

    /// One embedding matrix: vocabulary x hidden.
    #[inline]
    pub fn embedding_parameters(&self) -> f64 {
        f64::from(self.vocab) * f64::from(self.hidden)
    }

    /// Matrices and embeddings by the closed form, and other parts; an encoder-decoder adds its encoder and the cross attention.
    pub fn counted_parameters(&self) -> f64 {
        let embeddings = self.embedding_parameters() * if self.tied_embeddings { 1.0 } else { 2.0 };
        let layers = f64::from(self.layers + self.encoder_layers) * self.layer_parameters();
        layers + self.cross_attention_parameters() + embeddings + self.deviations.other_parameters
    }

    /// Matrix weights by which all layers of a decoder attend to the encoder; none where there is no encoder.
    pub fn cross_attention_parameters(&self) -> f64 {
        if self.encoder_layers > 0 { f64::from(self.layers) * self.attention_parameters() } else { 0.0 }
    }

    /// The stacks of an encoder-decoder, the encoder first, or the towers of a model of pictures and captions, with the tokens that each
    /// sees of a sample; `None`: the model is one stack.
    #[inline]
    pub fn stacks(&self, sequence_length: f64) -> Option<[(Self, f64); 2]> {
        if let Some(tower) = self.text_tower {
            let images = Self { text_tower: None, ..self.clone() };
            let texts = Self {
                layers: tower.layers,
                hidden: tower.hidden,
                heads: tower.heads,
                kv_heads: tower.heads,
                head_dim: tower.hidden / tower.heads.max(1),
                ffn_hidden: tower.ffn_hidden,
                ..images.clone()
            };
            return Some([(texts, f64::from(tower.tokens)), (images, sequence_length)]);
        }
        if self.encoder_layers == 0 {
            return None;
        }
        let encoder_tokens = if self.encoder_tokens == 0 { sequence_length } else { f64::from(self.encoder_tokens) };
        let encoder = Self {
            kind: ModelKind::Encoder,
            layers: self.encoder_layers,
            encoder_layers: 0,
            vocab: 0,
            stack: Some(LayerStack::Encoder { decoder_layers: self.layers }),
            ..self.clone()
        };
        let decoder = Self { encoder_layers: 0, stack: Some(LayerStack::Decoder { encoder_tokens }), ..self.clone() };
        Some([(encoder, encoder_tokens), (decoder, sequence_length)])
    }

    /// Weights of cross attention that meet this stack's tokens, in an average layer: queries and output in a decoder, keys and
    /// values of the decoder's layers in an encoder.
    fn cross_parameters(&self) -> f64 {
        let hidden = f64::from(self.hidden);
        match self.stack {
            None => 0.0,
            Some(LayerStack::Decoder { .. }) => 2.0 * hidden * self.query_width(),
            Some(LayerStack::Encoder { decoder_layers }) => {
                2.0 * hidden * self.kv_width() * f64::from(decoder_layers) / f64::from(self.layers.max(1))
            }
        }
    }

    /// Parameters that take part in a token's matrix products, with the output head and without the input embedding.
    pub fn active_matmul_parameters(&self) -> f64 {
        f64::from(self.layers) * (self.active_layer_parameters() + self.cross_parameters())
            + self.embedding_parameters()
    }

    /// Training FLOPs of one sample: 6 per token and matmul weight, and the attention scores, of which a causal layer needs half.
    /// Kaplan et al. 2020 (arXiv 2001.08361) section 2.1; PaLM (arXiv 2204.02311) appendix B. An encoder-decoder adds up its stacks.
    pub fn training_flops_per_sample(&self, sequence_length: f64) -> f64 {
        if let Some(stacks) = self.stacks(sequence_length) {
            return stacks.iter().map(|(stack, tokens)| stack.training_flops_per_sample(*tokens)).sum();
        }
        let is_causal = !matches!(self.kind, ModelKind::Encoder | ModelKind::Vit);
        let met = sequence_length * if is_causal { 0.5 } else { 1.0 };
        let crossed = if let Some(LayerStack::Decoder { encoder_tokens }) = self.stack { encoder_tokens } else { 0.0 };
        let scores = 12.0 * f64::from(self.layers) * self.query_width() * (met + crossed);
        sequence_length * (6.0 * self.active_matmul_parameters() + scores)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Llama-2-7B: 32 layers of 4096 with 11008, vocabulary 32000, untied.
    pub(crate) fn llama_2_7b() -> Model {
        Model {
            name: "llama-2-7b".to_owned(),
            parameters: 6_738_415_616.0,
            layers: 32,
            hidden: 4096,
            heads: 32,
            kv_heads: 32,
            head_dim: 128,
            ffn_hidden: 11008,
            vocab: 32000,
            max_context: 4096,
            ..Model::blank(ModelKind::Decoder, MlpKind::Glu, NormKind::Rms, false)
        }
    }

    #[test]
    fn the_closed_form_counts_a_known_model() {
        let model = llama_2_7b();
        assert!((model.counted_parameters() / model.parameters - 1.0).abs() < 1e-3);
        // 6 N with N without the input embedding, and 6 L h s: 39.6 + 3.2 GFLOP at 4096 tokens.
        let flops = model.training_flops_per_sample(4096.0) / 4096.0;
        assert!((flops / (6.0 * 6.607e9 + 6.0 * 32.0 * 4096.0 * 4096.0) - 1.0).abs() < 1e-3, "{flops}");
    }
    /// Two stacks of the same sizes as Llama-2-7B, the encoder on 1,000 tokens of every sample.
    fn encoder_decoder() -> Model {
        Model { kind: ModelKind::Encdec, encoder_layers: 32, encoder_tokens: 1000, ..llama_2_7b() }
    }

    /// The text tower of CLIP ViT-B/32 reads 77 tokens where its image tower sees 50, with 38 of 86 million weights.
    #[test]
    fn a_text_tower_reads_every_caption() {
        let model = catalog::Models::embedded().unwrap().find("openai/clip-vit-base-patch32").unwrap().to_model();
        let [(texts, tokens), (images, patches)] = model.stacks(50.0).unwrap();
        assert_eq!((texts.layers, texts.hidden, tokens), (12, 512, 77.0));
        assert_eq!((images.layers, images.hidden, patches), (12, 768, 50.0));
        assert!(images.stacks(50.0).is_none());
        let share = texts.training_flops_per_sample(77.0) / model.training_flops_per_sample(50.0);
        assert!((0.38..0.42).contains(&share), "{share}");
    }

    #[test]
    fn each_stack_computes_on_its_own_tokens() {
        let [(encoder, encoder_tokens), (decoder, tokens)] = encoder_decoder().stacks(100.0).unwrap();
        assert_eq!((encoder_tokens, tokens, encoder.vocab, decoder.vocab), (1000.0, 100.0, 0, 32000));
        // Six per weight: of a layer 4 h h + 3 h f; of cross attention half meets each side.
        let (h, f) = (4096.0, 11008.0);
        let (layer, cross) = (4.0 * h * h + 3.0 * h * f, 2.0 * h * h);
        let of_encoder = 1000.0 * (6.0 * 32.0 * (layer + cross) + 12.0 * 32.0 * h * 1000.0);
        let of_decoder = 100.0 * (6.0 * (32.0 * (layer + cross) + 32000.0 * h) + 12.0 * 32.0 * h * (50.0 + 1000.0));
        let flops = encoder_decoder().training_flops_per_sample(100.0);
        assert!((flops / (of_encoder + of_decoder) - 1.0).abs() < 1e-9, "{flops}");
        // Where nothing is said, the encoder sees what the decoder writes.
        let as_long = Model { encoder_tokens: 0, ..encoder_decoder() };
        assert_eq!(as_long.stacks(512.0).unwrap().map(|(_, tokens)| tokens), [512.0, 512.0]);
        assert_eq!(llama_2_7b().stacks(512.0), None);
    }
}
