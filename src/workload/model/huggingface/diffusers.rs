//! Networks of diffusers pipelines: parameters and operations of one pass, by the layers that their configurations describe.
//!
//! The text encoders and the autoencoder of a pipeline are not counted: adapters and fine-tuning leave them as they are.

use serde_json::{Map, Value};

use crate::model::huggingface::error::ConfigError;
use crate::model::huggingface::fields::{Fields, HEADS, LAYERS, WIDTH};
use crate::model::pipeline::{Makes, Pipeline};
use crate::model::{MlpKind, Model, ModelKind, NormKind};

/// Pixels of an image for one of the latent of an autoencoder, and latents of a patch of a transformer.
const AUTOENCODER_SIDE: u32 = 8;
const PATCH_SIDE: u32 = 2;
/// Tokens of a prompt that a U-Net attends to (CLIP).
const CLIP_TOKENS: f64 = 77.0;
/// Side of the images that transformers are counted at, and the latent frames of the videos of Wan 2.1: 81 of 832 x 480, each four
/// but the first one latent (arXiv 2503.20314, section 4.1).
const IMAGE_SIDE: u32 = 1024;
const VIDEO: (f64, u32) = (21.0 * 104.0 * 60.0, 640);

/// Folders of a pipeline that may hold its network, in a `model_index.json`.
const PARTS: [&str; 2] = ["transformer", "unet"];

/// The folder beside a `model_index.json` that holds the configuration of the network.
pub(super) fn part(index: &Map<String, Value>) -> Option<&'static str> {
    PARTS
        .into_iter()
        .find(|part| index.get(*part).and_then(Value::as_array).is_some_and(|class| class.iter().any(Value::is_string)))
}

/// The network of a part's configuration.
pub(super) fn read(map: &Map<String, Value>, class: &str, name: &str) -> Result<Model, ConfigError> {
    let fields = Fields { map, prefix: "", defaults: &[] };
    let pipeline = pipeline(&fields, class)?;
    let (counted, side) = match class {
        "UNet2DConditionModel" => unet(&fields)?,
        "FluxTransformer2DModel" => (transformer(&fields, 512.0)?, IMAGE_SIDE),
        "QwenImageTransformer2DModel" => (transformer(&fields, 512.0)?, IMAGE_SIDE),
        // T5's 256 tokens and CLIP's 77.
        "SD3Transformer2DModel" => (transformer(&fields, 256.0 + CLIP_TOKENS)?, IMAGE_SIDE),
        "WanTransformer3DModel" => (video(&fields)?, VIDEO.1),
        _ if alike(&fields, class)?.is_some() => layered(&fields, class, pipeline.as_ref())?,
        _ => return Err(ConfigError::Diffusers { class: class.chars().take(60).collect() }),
    };
    Ok(Model {
        name: name.to_owned(),
        parameters: counted.parameters,
        forward_flops_per_sample: counted.flops,
        sample_side: side,
        pipeline,
        ..Model::blank(ModelKind::Diffusion, MlpKind::Gelu, NormKind::Layer, false)
    })
}

/// A class and what was counted in diffusers' source for it, as for the rows of the catalog: eager operators' elements and launches of a layer.
struct Alike {
    /// Parameters of a layer in squares of its width and in widths, and in squares what brings the time step to all layers.
    parameters: (f64, f64, f64),
    elements: f64,
    operators: f64,
    /// As many as the model was made for, unless the configuration says so; zero: pictures.
    side: u32,
    pipeline: Pipeline,
}

/// Classes whose layers are all alike (arXiv 2212.09748, 2310.00426, 2501.00103, 2408.06072; diffusers 0.36). PixArt and DiT share the class of older
/// releases.
fn alike(fields: &Fields, class: &str) -> Result<Option<Alike>, ConfigError> {
    let norm = fields.string("norm_type")?;
    let videos = Pipeline { makes: Makes::Videos, query_key_norm: true, ..Pipeline::default() };
    let (parameters, elements, operators, side, pipeline) = match (class, norm) {
        ("PixArtTransformer2DModel", _) | ("Transformer2DModel", Some("ada_norm_single")) => {
            let pipeline = Pipeline { prompt_tokens: 120, cross_attention: true, ..Pipeline::default() };
            ((16.0, 0.0, 8.0), 37.0, 32.0, 0, pipeline)
        }
        ("DiTTransformer2DModel", _) | ("Transformer2DModel", Some("ada_norm_zero")) => {
            ((18.0, 0.0, 8.0), 32.0, 22.0, 0, Pipeline::default())
        }
        ("LTXVideoTransformer3DModel", _) => {
            let of = Pipeline { frames: 121, frame_stride: 8, token_side: Some(32), prompt_tokens: 128, ..videos };
            ((16.0, 0.0, 8.0), 164.0, 80.0, 600, Pipeline { cross_attention: true, ..of })
        }
        // Either norm has six widths of a time step of 512.
        ("CogVideoXTransformer3DModel", _) => {
            let of = Pipeline { frames: 49, frame_stride: 4, prompt_tokens: 226, ..videos };
            ((12.0, 12.0 * 512.0, 8.0), 94.0, 65.0, 590, of)
        }
        // Layers of two streams, each with six widths of the time step (HunyuanVideo 1.5).
        ("HunyuanVideo15Transformer3DModel", _) => (
            (36.0, 0.0, 8.0),
            121.0,
            65.0,
            960,
            Pipeline { frames: 121, frame_stride: 4, prompt_tokens: 1000, ..videos },
        ),
        // A stream of sound half as wide stands beside that of pictures, and each attends to the other: 16, 4 and 3 squares of the width.
        ("LTX2Transformer3DModel" | "LTX2VideoTransformer3DModel", _) => {
            let of = Pipeline { frames: 121, frame_stride: 8, token_side: Some(32), prompt_tokens: 1024, ..videos };
            ((23.0, 0.0, 8.0), 164.0, 160.0, 627, Pipeline { cross_attention: true, ..of })
        }
        // Twelve widths of a time step of 512: pictures and text are modulated apart, and computed together.
        ("CogView4Transformer2DModel" | "CogView3PlusTransformer2DModel", _) => {
            let prompt_tokens = if class.starts_with("CogView4") { 1024 } else { 224 };
            let of = Pipeline { prompt_tokens, query_key_norm: true, ..Pipeline::default() };
            ((12.0, 12.0 * 512.0, 0.0), 121.0, 65.0, 0, of)
        }
        _ => return Ok(None),
    };
    Ok(Some(Alike { parameters, elements, operators, side, pipeline }))
}

/// Such a class; what brings time step and prompt to the width of the layers is beside them.
fn layered(fields: &Fields, class: &str, pipeline: Option<&Pipeline>) -> Result<(Counted, u32), ConfigError> {
    let (Some(known), Some(pipeline)) = (alike(fields, class)?, pipeline) else {
        return Err(ConfigError::Diffusers { class: class.chars().take(60).collect() });
    };
    let hidden = width(fields)?;
    let prompt = f64::from(fields.whole(&["caption_channels", "text_embed_dim"], WIDTH)?.unwrap_or(0));
    let side = match known.side {
        0 => fields.required(&["sample_size"], 1..=4096)? * AUTOENCODER_SIDE,
        side => side,
    };
    let layer = known.parameters.0 * hidden * hidden + known.parameters.1 * hidden;
    let parameters = f64::from(pipeline.layers) * layer + known.parameters.2 * hidden * hidden + prompt * hidden;
    let tokens = pipeline.tokens(f64::from(side));
    let flops = pipeline.transformer().training_flops_per_sample(tokens) / 3.0;
    Ok((Counted { parameters, flops }, side))
}

/// How much of making images a configuration says: the layers of a transformer, which are enough for its time. What each launches and moves
/// was counted in diffusers' source, as for the rows of the catalog: a layer without and with norms of queries and keys, and with their rotation.
fn pipeline(fields: &Fields, class: &str) -> Result<Option<Pipeline>, ConfigError> {
    let query_key_norm = fields.string("qk_norm")?.is_some() || class != "SD3Transformer2DModel";
    let of_pictures = Pipeline { query_key_norm, ..Pipeline::default() };
    let (elements, operators, made) = match class {
        "FluxTransformer2DModel" => (121.0, 65.0, Pipeline { prompt_tokens: 512, ..of_pictures }),
        "QwenImageTransformer2DModel" => (92.0, 95.0, Pipeline { prompt_tokens: 512, ..of_pictures }),
        "SD3Transformer2DModel" if query_key_norm => (72.0, 79.0, Pipeline { prompt_tokens: 333, ..of_pictures }),
        "SD3Transformer2DModel" => (38.0, 47.0, Pipeline { prompt_tokens: 333, ..of_pictures }),
        "WanTransformer3DModel" => (175.0, 95.0, wan(fields, of_pictures)?),
        _ => match alike(fields, class)? {
            Some(known) => (known.elements, known.operators, known.pipeline),
            None => return Ok(None),
        },
    };
    let hidden = width(fields)? as u32;
    let layers = fields.required(&["num_layers"], LAYERS)?
        + fields.whole(&["num_single_layers"], 0..=*LAYERS.end())?.unwrap_or(0);
    Ok(Some(Pipeline {
        layers,
        hidden,
        heads: fields.required(&["num_attention_heads"], HEADS)?,
        eager_elements: elements,
        operators: operators * f64::from(layers),
        ..made
    }))
}

/// Videos of 81 frames. The autoencoder of Wan 2.2's 5B has 48 channels and twice the side (Wan-Video/Wan2.2, README).
fn wan(fields: &Fields, pipeline: Pipeline) -> Result<Pipeline, ConfigError> {
    let is_high = fields.whole(&["in_channels"], 1..=4096)? == Some(48);
    Ok(Pipeline {
        makes: Makes::Videos,
        frames: if is_high { 121 } else { 81 },
        frame_stride: 4,
        token_side: is_high.then_some(2 * AUTOENCODER_SIDE * PATCH_SIDE),
        ffn_hidden: Some(fields.required(&["ffn_dim"], WIDTH)?),
        prompt_tokens: 512,
        cross_attention: true,
        residual_in_fp32: true,
        ..pipeline
    })
}

/// Parameters and operations of one pass, a multiply-add counted as two.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    parameters: f64,
    flops: f64,
}

impl Counted {
    /// A product of `tokens` with a matrix.
    fn linear(&mut self, inputs: f64, outputs: f64, tokens: f64, has_bias: bool) {
        self.parameters += inputs * outputs + if has_bias { outputs } else { 0.0 };
        self.flops += 2.0 * inputs * outputs * tokens;
    }

    fn convolution(&mut self, inputs: f64, outputs: f64, pixels: f64, side: f64) {
        self.parameters += side * side * inputs * outputs + outputs;
        self.flops += 2.0 * side * side * inputs * outputs * pixels;
    }

    /// Two convolutions of 3 x 3 with norms, and what brings the time step into them.
    fn residual(&mut self, inputs: f64, outputs: f64, pixels: f64, time: f64) {
        self.parameters += 2.0 * inputs + 2.0 * outputs;
        self.convolution(inputs, outputs, pixels, 3.0);
        self.linear(time, outputs, 1.0, true);
        self.convolution(outputs, outputs, pixels, 3.0);
        if inputs != outputs {
            self.convolution(inputs, outputs, pixels, 1.0);
        }
    }

    /// Transformer layers inside a U-Net: attention to the picture, to the prompt, and a gated feed-forward block.
    fn attention(&mut self, width: f64, layers: u32, prompt: f64, pixels: f64) {
        self.parameters += 2.0 * width;
        self.linear(width, width, pixels, true);
        self.linear(width, width, pixels, true);
        for _ in 0..layers {
            self.parameters += 6.0 * width;
            for (inputs, tokens) in [(width, pixels), (width, pixels), (width, pixels), (width, pixels)] {
                self.linear(inputs, width, tokens, false);
            }
            for tokens in [CLIP_TOKENS, CLIP_TOKENS] {
                self.linear(prompt, width, tokens, false);
            }
            self.linear(width, width, pixels, true);
            self.linear(width, width, pixels, true);
            self.flops += 4.0 * pixels * width * (pixels + CLIP_TOKENS);
            self.linear(width, 8.0 * width, pixels, true);
            self.linear(4.0 * width, width, pixels, true);
        }
    }
}

/// One number for every stage, or a list of them.
fn by_stage(fields: &Fields, key: &'static str, stages: usize, default: u32) -> Result<Vec<u32>, ConfigError> {
    if fields.map.get(key).is_some_and(Value::is_array) {
        let list: Vec<u32> =
            fields.list(key)?.into_iter().filter_map(|one| u32::try_from(one).ok()).filter(|one| *one <= 64).collect();
        let why = || format!("it must name at most 64 for each of {stages} stages");
        return if list.len() == stages { Ok(list) } else { Err(fields.impossible(key, "a list", why())) };
    }
    Ok(vec![fields.whole(&[key], 1..=64)?.unwrap_or(default); stages])
}

/// Rombach et al., arXiv 2112.10752, as diffusers' `UNet2DConditionModel` builds it. Answers the side of its images too.
fn unet(fields: &Fields) -> Result<(Counted, u32), ConfigError> {
    let widths: Vec<f64> =
        fields.list("block_out_channels")?.iter().map(|width| *width as f64).filter(|width| *width < 1e5).collect();
    let (down, up) = (fields.words("down_block_types"), fields.words("up_block_types"));
    let stages = widths.len();
    if stages == 0 || down.len() != stages || up.len() != stages {
        return Err(fields.missing("block_out_channels"));
    }
    let residuals = by_stage(fields, "layers_per_block", stages, 2)?;
    let layers = by_stage(fields, "transformer_layers_per_block", stages, 1)?;
    let prompt = f64::from(fields.required(&["cross_attention_dim"], WIDTH)?);
    let latent = fields.required(&["sample_size"], 1..=4096)?;
    let channels = |key: &'static str| fields.whole(&[key], 1..=4096).map(|stated| f64::from(stated.unwrap_or(4)));
    let time = 4.0 * widths[0];
    let mut counted = Counted::default();
    counted.linear(widths[0], time, 1.0, true);
    counted.linear(time, time, 1.0, true);
    if fields.string("addition_embed_type")? == Some("text_time") {
        let added = fields.required(&["projection_class_embeddings_input_dim"], WIDTH)?;
        counted.linear(f64::from(added), time, 1.0, true);
        counted.linear(time, time, 1.0, true);
    }
    let mut pixels = f64::from(latent).powi(2);
    counted.convolution(channels("in_channels")?, widths[0], pixels, 3.0);
    let (mut width, mut skipped) = (widths[0], vec![widths[0]]);
    for stage in 0..stages {
        for _ in 0..residuals[stage] {
            counted.residual(width, widths[stage], pixels, time);
            width = widths[stage];
            if down[stage].contains("CrossAttn") {
                counted.attention(width, layers[stage], prompt, pixels);
            }
            skipped.push(width);
        }
        if stage + 1 < stages {
            pixels /= 4.0;
            counted.convolution(width, width, pixels, 3.0);
            skipped.push(width);
        }
    }
    counted.residual(width, width, pixels, time);
    counted.attention(width, layers[stages - 1], prompt, pixels);
    counted.residual(width, width, pixels, time);
    for (up, stage) in up.iter().zip((0..stages).rev()) {
        for _ in 0..=residuals[stage] {
            counted.residual(width + skipped.pop().unwrap_or(width), widths[stage], pixels, time);
            width = widths[stage];
            if up.contains("CrossAttn") {
                counted.attention(width, layers[stage], prompt, pixels);
            }
        }
        if stage > 0 {
            pixels *= 4.0;
            counted.convolution(width, width, pixels, 3.0);
        }
    }
    counted.parameters += 2.0 * width;
    counted.convolution(width, channels("out_channels")?, pixels, 3.0);
    Ok((counted, latent * AUTOENCODER_SIDE))
}

fn width(fields: &Fields) -> Result<f64, ConfigError> {
    let heads = fields.required(&["num_attention_heads"], HEADS)?;
    Ok(f64::from(heads) * f64::from(fields.required(&["attention_head_dim"], 1..=4096)?))
}

/// Layers that see the prompt beside the picture (Esser et al., arXiv 2403.03206): each has weights of its own for either, and
/// those of FLUX's second half share them. Every layer is modulated by the time step.
fn transformer(fields: &Fields, prompt_tokens: f64) -> Result<Counted, ConfigError> {
    let hidden = width(fields)?;
    let square = hidden * hidden;
    let layers = f64::from(fields.required(&["num_layers"], LAYERS)?);
    let shared = f64::from(fields.whole(&["num_single_layers"], 0..=*LAYERS.end())?.unwrap_or(0));
    let tokens = f64::from(IMAGE_SIDE / AUTOENCODER_SIDE / PATCH_SIDE).powi(2) + prompt_tokens;
    // Stable Diffusion 3.5 medium attends to the picture alone once more in some of its layers.
    let twice = fields.list("dual_attention_layers")?.len() as f64;
    let prompt = f64::from(fields.whole(&["joint_attention_dim"], WIDTH)?.unwrap_or(0));
    let parameters = layers * 36.0 * square + shared * 15.0 * square + twice * 7.0 * square + prompt * hidden;
    let scores = 4.0 * tokens * tokens * hidden;
    let of_picture = tokens - prompt_tokens;
    let again = 2.0 * 4.0 * square * of_picture + 4.0 * of_picture * of_picture * hidden;
    let flops = (layers + shared) * (2.0 * 12.0 * square * tokens + scores) + twice * again;
    Ok(Counted { parameters, flops })
}

/// Wan (arXiv 2503.20314): attention to the video, to the prompt of 512 tokens, and a feed-forward block.
fn video(fields: &Fields) -> Result<Counted, ConfigError> {
    let hidden = width(fields)?;
    let layers = f64::from(fields.required(&["num_layers"], LAYERS)?);
    let feed_forward = f64::from(fields.required(&["ffn_dim"], WIDTH)?);
    let prompt = f64::from(fields.whole(&["text_dim"], WIDTH)?.unwrap_or(4096));
    let (tokens, prompt_tokens) = (VIDEO.0 / 4.0, 512.0);
    let (square, block) = (hidden * hidden, hidden * feed_forward);
    // Time step and prompt are brought to the width of the layers.
    let beside = 8.0 * square + prompt * hidden;
    let of_token = 2.0 * (6.0 * square + 2.0 * block) + 4.0 * (tokens + prompt_tokens) * hidden;
    let flops = layers * (tokens * of_token + 4.0 * square * prompt_tokens);
    Ok(Counted { parameters: layers * (8.0 * square + 2.0 * block) + beside, flops })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::catalog::Models;

    fn model(text: &str) -> Result<Model, ConfigError> {
        crate::model::huggingface::read_config(text.as_bytes(), "test")
    }

    /// Sizes as the published configurations state them; parameters and operations as the catalog has them, which were counted by other
    /// means.
    #[test]
    fn published_networks_come_out() {
        for (id, text) in [
            (
                "stable-diffusion-1.5",
                r#"{"_class_name":"UNet2DConditionModel","block_out_channels":[320,640,1280,1280],"layers_per_block":2,"cross_attention_dim":768,"sample_size":64,"in_channels":4,"out_channels":4,"down_block_types":["CrossAttnDownBlock2D","CrossAttnDownBlock2D","CrossAttnDownBlock2D","DownBlock2D"],"up_block_types":["UpBlock2D","CrossAttnUpBlock2D","CrossAttnUpBlock2D","CrossAttnUpBlock2D"]}"#,
            ),
            (
                "stable-diffusion-xl",
                r#"{"_class_name":"UNet2DConditionModel","block_out_channels":[320,640,1280],"layers_per_block":2,"transformer_layers_per_block":[1,2,10],"cross_attention_dim":2048,"sample_size":128,"addition_embed_type":"text_time","projection_class_embeddings_input_dim":2816,"down_block_types":["DownBlock2D","CrossAttnDownBlock2D","CrossAttnDownBlock2D"],"up_block_types":["CrossAttnUpBlock2D","CrossAttnUpBlock2D","UpBlock2D"]}"#,
            ),
            (
                "flux.1-dev",
                r#"{"_class_name":"FluxTransformer2DModel","num_layers":19,"num_single_layers":38,"attention_head_dim":128,"num_attention_heads":24,"joint_attention_dim":4096,"in_channels":64}"#,
            ),
            (
                "stable-diffusion-3.5-large",
                r#"{"_class_name":"SD3Transformer2DModel","num_layers":38,"attention_head_dim":64,"num_attention_heads":38,"joint_attention_dim":4096,"qk_norm":"rms_norm"}"#,
            ),
            (
                "stable-diffusion-3.5-medium",
                r#"{"_class_name":"SD3Transformer2DModel","num_layers":24,"attention_head_dim":64,"num_attention_heads":24,"joint_attention_dim":4096,"qk_norm":"rms_norm","dual_attention_layers":[0,1,2,3,4,5,6,7,8,9,10,11,12]}"#,
            ),
            (
                "pixart-alpha",
                r#"{"_class_name":"Transformer2DModel","norm_type":"ada_norm_single","num_layers":28,"attention_head_dim":72,"num_attention_heads":16,"sample_size":128,"caption_channels":4096}"#,
            ),
            (
                "dit-xl-2",
                r#"{"_class_name":"DiTTransformer2DModel","norm_type":"ada_norm_zero","num_layers":28,"attention_head_dim":72,"num_attention_heads":16,"sample_size":32}"#,
            ),
            (
                "ltx-video",
                r#"{"_class_name":"LTXVideoTransformer3DModel","num_layers":28,"attention_head_dim":64,"num_attention_heads":32,"caption_channels":4096,"qk_norm":"rms_norm_across_heads"}"#,
            ),
            (
                "cogvideox-5b",
                r#"{"_class_name":"CogVideoXTransformer3DModel","num_layers":42,"attention_head_dim":64,"num_attention_heads":48,"text_embed_dim":4096}"#,
            ),
            (
                "hunyuanvideo-1.5",
                r#"{"_class_name":"HunyuanVideo15Transformer3DModel","num_layers":54,"attention_head_dim":128,"num_attention_heads":16,"text_embed_dim":3584,"qk_norm":"rms_norm"}"#,
            ),
            (
                "ltx-2",
                r#"{"_class_name":"LTX2Transformer3DModel","num_layers":48,"attention_head_dim":128,"num_attention_heads":32,"caption_channels":3840}"#,
            ),
            (
                "cogview4-6b",
                r#"{"_class_name":"CogView4Transformer2DModel","num_layers":28,"attention_head_dim":128,"num_attention_heads":32,"sample_size":128,"text_embed_dim":4096}"#,
            ),
            (
                "cogview3-plus-3b",
                r#"{"_class_name":"CogView3PlusTransformer2DModel","num_layers":30,"attention_head_dim":40,"num_attention_heads":64,"sample_size":128,"text_embed_dim":4096}"#,
            ),
            (
                "wan2.1-t2v-14b",
                r#"{"_class_name":"WanTransformer3DModel","num_layers":40,"attention_head_dim":128,"num_attention_heads":40,"ffn_dim":13824,"text_dim":4096}"#,
            ),
        ] {
            let known = Models::embedded().unwrap().find(id).unwrap().to_model();
            let read = model(text).unwrap();
            if let Some(layers) = known.pipeline.as_ref().filter(|pipeline| pipeline.is_transformer()) {
                let read = read.pipeline.as_ref().unwrap();
                let trained =
                    (layers.trained_tokens(512.0, 33), layers.query_key_norm, layers.ffn_hidden, layers.hidden);
                assert_eq!(
                    (read.trained_tokens(512.0, 33), read.query_key_norm, read.ffn_hidden, read.hidden),
                    trained,
                    "{id}"
                );
            }
            let ratios =
                [read.parameters / known.parameters, read.forward_flops_per_sample / known.forward_flops_per_sample];
            assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.02), "{id}: {ratios:?}");
            assert_eq!(read.sample_side, known.sample_side, "{id}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (text, part) in [
            (r#"{"_class_name":"AutoencoderKL"}"#, "AutoencoderKL"),
            (r#"{"_class_name":"UNet2DConditionModel"}"#, "`block_out_channels` is missing"),
            (r#"{"_class_name":"FluxTransformer2DModel","num_attention_heads":24}"#, "`attention_head_dim` is missing"),
            (
                r#"{"_class_name":"FluxPipeline","transformer":["diffusers","FluxTransformer2DModel"]}"#,
                "transformer/config.json",
            ),
        ] {
            let said = model(text).unwrap_err().to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
