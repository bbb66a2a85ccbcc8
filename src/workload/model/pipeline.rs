//! What stands around the network of a diffusion model when it makes pictures: steps, guidance, text encoders, decoder.

pub mod networks;
pub mod u_net;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens of a prompt that CLIP reads (Radford et al. 2021, arXiv 2103.00020, section 2.4).
pub const CLIP_TOKENS: u32 = 77;
/// Pixels of the side of a picture for one of the tokens of a transformer: 8 of the autoencoder, patches of 2 (arXiv 2403.03206).
const TOKEN_SIDE: u32 = 16;
/// Pictures that an edit is trained with: the one that is made, and the one that it starts from.
const PICTURES_OF_AN_EDIT: f64 = 2.0;

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
    /// Qwen/Qwen3-4B.
    #[serde(rename = "qwen3-4b")]
    Qwen34b,
    /// Qwen/Qwen3-8B.
    #[serde(rename = "qwen3-8b")]
    Qwen38b,
    /// mistralai/Mistral-Small-3.2-24B-Instruct-2506.
    #[serde(rename = "mistral-small-3.2-24b")]
    MistralSmall24b,
}

/// The stages of a U-Net, from the widest picture to the smallest, and back.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UNet {
    /// Channels of each stage.
    pub widths: Vec<u32>,
    /// Transformer layers after each residual block of the stage; zero: none.
    pub layers: Vec<u32>,
    /// Residual blocks of a stage on the way down, one more on the way up.
    pub residuals: u32,
    /// Width of a head of attention; zero: each layer has eight heads.
    pub head: u32,
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
    /// Width of a feed-forward block as two matrices have it, where it is not four times `hidden`.
    pub ffn_hidden: Option<u32>,
    /// Tokens of a prompt that a transformer attends to beside the picture's.
    pub prompt_tokens: u32,
    /// The prompt is met by cross attention in every layer, and not as tokens beside the picture's.
    pub cross_attention: bool,
    /// Queries and keys have norms of their own.
    pub query_key_norm: bool,
    /// The stream that layers add to stays in fp32 whatever they multiply in.
    pub residual_in_fp32: bool,
    /// Pixels of the side of a picture for one token, where they are not sixteen.
    pub token_side: Option<u32>,
    /// Frames of the videos that it was made for; zero: it makes pictures.
    pub frames: u32,
    /// Frames for one of the latent after the first, which stands alone.
    pub frame_stride: u32,
    /// Networks of its parameters, of which a step runs and a training run trains one; zero: there is one.
    pub networks: u32,
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

    /// Tokens of a picture, or of a video as long as it was made for, and of a prompt that stands beside them.
    pub fn tokens(&self, side: f64) -> f64 {
        self.latent_tokens(side, self.frames) + self.prompt_beside()
    }

    /// The same of a sample of a training run. An edit starts from a picture, whose tokens stand beside those of the one that is made.
    pub fn trained_tokens(&self, side: f64, frames: u32) -> f64 {
        let pictures = if self.makes == Makes::Edits { PICTURES_OF_AN_EDIT } else { 1.0 };
        pictures * self.latent_tokens(side, frames) + self.prompt_beside()
    }

    fn prompt_beside(&self) -> f64 {
        if self.cross_attention { 0.0 } else { f64::from(self.prompt_tokens) }
    }

    fn latent_tokens(&self, side: f64, frames: u32) -> f64 {
        let latent_frames = 1 + frames.saturating_sub(1).checked_div(self.frame_stride).unwrap_or(0);
        (side / f64::from(self.token_side.unwrap_or(TOKEN_SIDE))).powi(2) * f64::from(latent_frames)
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
            Self::Qwen34b => "qwen3-4b",
            Self::Qwen38b => "qwen3-8b",
            Self::MistralSmall24b => "mistral-small-3.2-24b",
        }
    }

    /// Tokens that it reads of a prompt of so many.
    pub fn tokens(self, prompt_tokens: u32) -> f64 {
        match self {
            Self::ClipL | Self::OpenClipH | Self::OpenClipG => f64::from(CLIP_TOKENS),
            Self::T5Xxl | Self::Qwen25Vl7b | Self::Qwen34b | Self::Qwen38b | Self::MistralSmall24b => {
                f64::from(prompt_tokens.max(CLIP_TOKENS))
            }
        }
    }
}
