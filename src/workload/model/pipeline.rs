//! What stands around the network of a diffusion model when it makes pictures: steps, guidance, text encoders, decoder.

pub mod u_net;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::pipeline::u_net::UNet;
use crate::model::{ConvolutionNorm, MlpKind, Model, ModelKind, NormKind};

/// Tokens of a prompt that CLIP reads (Radford et al. 2021, arXiv 2103.00020, section 2.4).
pub const CLIP_TOKENS: u32 = 77;
/// Pixels of the side of a picture for one of the tokens of a transformer: 8 of the autoencoder, patches of 2 (arXiv 2403.03206).
const TOKEN_SIDE: f64 = 16.0;

/// What comes out, and of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Makes {
    /// Pictures of a prompt.
    #[default]
    Pictures,
    /// Pictures of a prompt and of other pictures, which are read as tokens too.
    Edits,
    Videos,
}

/// A published network that reads prompts for diffusion models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TextEncoder {
    /// openai/clip-vit-large-patch14.
    #[serde(rename = "clip-l")]
    ClipL,
    /// laion/CLIP-ViT-H-14-laion2B-s32B-b79K, without its last layer.
    #[serde(rename = "openclip-h")]
    OpenClipH,
    /// laion/CLIP-ViT-bigG-14-laion2B-39B-b160k.
    #[serde(rename = "openclip-g")]
    OpenClipG,
    /// google/t5-v1_1-xxl, its encoder.
    #[serde(rename = "t5-xxl")]
    T5Xxl,
    /// Qwen/Qwen2.5-VL-7B-Instruct.
    #[serde(rename = "qwen2.5-vl-7b")]
    Qwen25Vl7b,
}

/// How a model is run to make pictures, as far as it is published.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pipeline {
    pub makes: Makes,
    /// Usual steps of the sampler; `None`: nobody says.
    pub steps: Option<u32>,
    /// Every step runs the network with and without the prompt (Ho and Salimans, arXiv 2207.12598); distilled models run it once.
    pub guidance: Option<bool>,
    /// Who says both.
    pub source: String,
    /// Side of the pictures that it was made for, where the operations of the row are of another one.
    pub side: Option<u32>,
    pub u_net: Option<UNet>,
    /// Layers of a transformer; zero: it is none.
    pub layers: u32,
    pub hidden: u32,
    pub heads: u32,
    /// Tokens of a prompt that a transformer attends to beside the picture's.
    pub prompt_tokens: u32,
    /// Elements a token and hidden unit that eager operators of a layer read and write beside products and attention, in 16 bits.
    pub eager_elements: f64,
    /// Operators of a pass, as PyTorch launches them one by one.
    pub operators: f64,
    pub text_encoders: Vec<TextEncoder>,
}

impl Pipeline {
    /// A transformer whose layers are known.
    pub fn is_transformer(&self) -> bool {
        self.layers > 0 && self.heads > 0
    }

    /// Tokens of a picture and its prompt.
    pub fn tokens(&self, side: f64) -> f64 {
        (side / TOKEN_SIDE).powi(2) + f64::from(self.prompt_tokens)
    }

    /// The transformer as a stack of layers that see every token.
    pub fn transformer(&self) -> Model {
        encoder(self.layers, self.hidden, self.heads, 4 * self.hidden, MlpKind::Gelu)
    }
}

impl TextEncoder {
    pub fn word(self) -> &'static str {
        match self {
            Self::ClipL => "clip-l",
            Self::OpenClipH => "openclip-h",
            Self::OpenClipG => "openclip-g",
            Self::T5Xxl => "t5-xxl",
            Self::Qwen25Vl7b => "qwen2.5-vl-7b",
        }
    }

    /// Sizes of its `config.json` with the parameters of its file; those of Qwen2.5-VL include its image tower, which is loaded with it.
    pub fn model(self) -> Model {
        let (parameters, model) = match self {
            Self::ClipL => (123_060_480.0, encoder(12, 768, 12, 3072, MlpKind::Gelu)),
            Self::OpenClipH => (340_387_840.0, encoder(23, 1024, 16, 4096, MlpKind::Gelu)),
            Self::OpenClipG => (694_659_840.0, encoder(32, 1280, 20, 5120, MlpKind::Gelu)),
            Self::T5Xxl => (4_762_310_656.0, encoder(24, 4096, 64, 10_240, MlpKind::Glu)),
            Self::Qwen25Vl7b => (8_292_166_656.0, Model { kv_heads: 4, ..encoder(28, 3584, 28, 18_944, MlpKind::Glu) }),
        };
        Model { name: self.word().to_owned(), parameters, ..model }
    }

    /// Tokens that it reads of a prompt of so many.
    pub fn tokens(self, prompt_tokens: u32) -> f64 {
        match self {
            Self::ClipL | Self::OpenClipH | Self::OpenClipG => f64::from(CLIP_TOKENS),
            Self::T5Xxl | Self::Qwen25Vl7b => f64::from(prompt_tokens.max(CLIP_TOKENS)),
        }
    }
}

fn encoder(layers: u32, hidden: u32, heads: u32, ffn_hidden: u32, mlp: MlpKind) -> Model {
    Model {
        layers,
        hidden,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads.max(1),
        ffn_hidden,
        ..Model::blank(ModelKind::Encoder, mlp, NormKind::Layer, false)
    }
}

/// The decoder of `AutoencoderKL`, from latents to pixels (Rombach et al., arXiv 2112.10752, as Stable Diffusion and FLUX have it: 128 channels
/// times 1, 2, 4 and 4, three residual blocks each). Parameters, multiply-adds as two and what its convolutions write were counted layer by layer
/// for a picture of 1024.
pub fn decoder() -> Model {
    Model {
        name: "autoencoder-kl".to_owned(),
        parameters: 49.54e6,
        sample_side: 1024,
        forward_flops_per_sample: 10.472e12,
        forward_elements_per_sample: Some(2.184e9),
        convolution_norm: ConvolutionNorm::Batch,
        ..Model::blank(ModelKind::Cnn, MlpKind::Gelu, NormKind::Layer, false)
    }
}

#[cfg(test)]
mod tests {
    use crate::Models;

    /// The same of U-Nets, whose heads kernels compute wider than they are.
    #[test]
    fn stages_do_the_operations_of_their_row() {
        let models = Models::embedded().unwrap();
        let rows = models.rows().iter().map(crate::model::catalog::ModelRow::to_model);
        let mut seen = 0;
        for model in rows {
            let Some(u_net) = model.pipeline.and_then(|pipeline| pipeline.u_net) else { continue };
            let flops = u_net.work(f64::from(model.sample_side), 77.0).flops();
            let ratio = flops / model.forward_flops_per_sample;
            assert!((0.97..1.12).contains(&ratio), "{}: {ratio}", model.name);
            seen += 1;
        }
        assert!(seen >= 5, "{seen}");
    }

    /// The layers of a transformer and the operations of its row are two ways to the same number; Stable Diffusion 3.5 Medium attends twice in 13
    /// of its layers, which the layers leave out.
    #[test]
    fn layers_do_the_operations_of_their_row() {
        let models = Models::embedded().unwrap();
        let mut seen = 0;
        for row in models.rows() {
            let model = row.to_model();
            let Some(pipeline) = model.pipeline.filter(super::Pipeline::is_transformer) else { continue };
            let tokens = pipeline.tokens(f64::from(model.sample_side));
            let flops = pipeline.transformer().training_flops_per_sample(tokens) / 3.0;
            let ratio = flops / model.forward_flops_per_sample;
            let least = if row.id == "stable-diffusion-3.5-medium" { 0.75 } else { 0.95 };
            assert!((least..1.05).contains(&ratio), "{}: {ratio}", row.id);
            seen += 1;
        }
        assert!(seen >= 6, "{seen}");
    }
}
