//! The networks around a diffusion model, and its transformer, as models of their own.

use crate::model::deviations::{Deviations, DiffusionLayer};
use crate::model::pipeline::{Pipeline, TextEncoder};
use crate::model::{ConvolutionNorm, LayerStack, MlpKind, Model, ModelKind, NormKind, QueryKeyNorm};

impl Pipeline {
    /// The transformer as a stack of layers that see every token.
    pub fn transformer(&self) -> Model {
        let ffn_hidden = self.ffn_hidden.unwrap_or(4 * self.hidden);
        let meets_prompt = self.cross_attention && self.prompt_tokens > 0;
        let prompt = LayerStack::Decoder { encoder_tokens: f64::from(self.prompt_tokens) };
        Model {
            stack: meets_prompt.then_some(prompt),
            ..encoder(self.layers, self.hidden, self.heads, ffn_hidden, MlpKind::Gelu)
        }
    }

    /// The same with all its parameters, as it is trained: those that a token does not meet are held, gathered and updated all the same.
    pub fn trained(&self, model: &Model) -> Model {
        let transformer = self.transformer();
        let parameters = model.parameters / f64::from(self.networks.max(1));
        let layers = f64::from(self.layers.max(1));
        let layer = DiffusionLayer {
            idle_parameters: (parameters / layers - transformer.layer_parameters()).max(0.0),
            eager_elements: self.eager_elements,
            operators: self.operators / layers,
            residual_in_fp32: self.residual_in_fp32,
        };
        Model {
            name: model.name.clone(),
            parameters,
            query_key_norm: self.query_key_norm.then_some(QueryKeyNorm::Head),
            deviations: Deviations { diffusion: Some(layer), ..Deviations::default() },
            shape_is_guessed: model.shape_is_guessed,
            ..transformer
        }
    }
}

impl TextEncoder {
    /// Sizes of its `config.json` with the parameters of its file; those of Qwen2.5-VL and Mistral Small include an image tower, which is loaded
    /// with them.
    pub fn model(self) -> Model {
        let (parameters, model) = match self {
            Self::ClipL => (123_060_480.0, encoder(12, 768, 12, 3072, MlpKind::Gelu)),
            Self::OpenClipH => (340_387_840.0, encoder(23, 1024, 16, 4096, MlpKind::Gelu)),
            Self::OpenClipG => (694_659_840.0, encoder(32, 1280, 20, 5120, MlpKind::Gelu)),
            Self::T5Xxl => (4_762_310_656.0, encoder(24, 4096, 64, 10_240, MlpKind::Glu)),
            Self::Qwen25Vl7b => (8_292_166_656.0, Model { kv_heads: 4, ..encoder(28, 3584, 28, 18_944, MlpKind::Glu) }),
            Self::Qwen34b => {
                let model = encoder(36, 2560, 32, 9728, MlpKind::Glu);
                (4_022_468_096.0, Model { kv_heads: 8, head_dim: 128, ..model })
            }
            Self::Qwen38b => {
                let model = encoder(36, 4096, 32, 12_288, MlpKind::Glu);
                (8_190_735_360.0, Model { kv_heads: 8, ..model })
            }
            Self::MistralSmall24b => {
                let model = encoder(40, 5120, 32, 32_768, MlpKind::Glu);
                (24_011_361_280.0, Model { kv_heads: 8, head_dim: 128, ..model })
            }
        };
        Model { name: self.word().to_owned(), parameters, ..model }
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

/// The encoder of the same, from pixels to latents: two residual blocks each. Counted in the same way.
pub fn picture_encoder() -> Model {
    Model {
        name: "autoencoder-kl-encoder".to_owned(),
        parameters: 34.16e6,
        forward_flops_per_sample: 4.879e12,
        forward_elements_per_sample: Some(1.334e9),
        ..decoder()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    /// of its layers, which the layers leave out, and SANA's linear attention is less than they take for it.
    #[test]
    fn layers_do_the_operations_of_their_row() {
        let models = Models::embedded().unwrap();
        let mut seen = 0;
        for row in models.rows() {
            let model = row.to_model();
            let Some(pipeline) = model.pipeline.filter(Pipeline::is_transformer) else { continue };
            let tokens = pipeline.tokens(f64::from(model.sample_side));
            let flops = pipeline.transformer().training_flops_per_sample(tokens) / 3.0;
            let ratio = flops / model.forward_flops_per_sample;
            let least = if row.id == "stable-diffusion-3.5-medium" { 0.75 } else { 0.95 };
            let most = if row.id.starts_with("sana") { 1.10 } else { 1.05 };
            assert!((least..most).contains(&ratio), "{}: {ratio}", row.id);
            seen += 1;
        }
        assert!(seen >= 6, "{seen}");
    }
}
