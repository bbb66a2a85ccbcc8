//! `Models`: the named models of `catalogs/models.toml`.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::model::deviations::{Deviations, Hybrid, SlidingWindow};
use crate::model::names::Spelling;
use crate::model::pipeline::Pipeline;
use crate::model::{
    ConvolutionNorm, Experts, LatentAttention, MlpKind, Model, ModelKind, NormKind, QueryKeyNorm, TextTower,
};
use crate::serving::StoredFormat;
use gpuplan_embedded::{Archive, EmbeddedError};

/// One row of `catalogs/models.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRow {
    pub id: String,
    pub name: String,
    pub family: String,
    pub kind: ModelKind,
    #[serde(default)]
    pub aliases: Vec<String>,
    pub parameters: f64,
    pub active_parameters: Option<f64>,
    pub layers: Option<u32>,
    pub hidden: Option<u32>,
    pub heads: Option<u32>,
    pub kv_heads: Option<u32>,
    pub head_dim: Option<u32>,
    pub ffn_hidden: Option<u32>,
    pub vocab: Option<u32>,
    pub mlp: Option<MlpKind>,
    pub norm: Option<NormKind>,
    #[serde(default)]
    pub parallel_residual: bool,
    #[serde(default)]
    pub attention_softcap: bool,
    #[serde(default)]
    pub tied_embeddings: bool,
    pub max_context: Option<u32>,
    pub experts: Option<u32>,
    pub experts_per_token: Option<u32>,
    pub shared_experts: Option<u32>,
    pub expert_ffn_hidden: Option<u32>,
    pub dense_layers: Option<u32>,
    pub kv_lora_rank: Option<u32>,
    pub q_lora_rank: Option<u32>,
    pub qk_rope_head_dim: Option<u32>,
    pub qk_nope_head_dim: Option<u32>,
    pub v_head_dim: Option<u32>,
    pub encoder_layers: Option<u32>,
    pub encoder_tokens: Option<u32>,
    /// Tokens of a second of sound; absent: it hears none.
    #[serde(default)]
    pub audio_tokens_per_second: f64,
    /// The tower that reads captions, of a model whose layers are those of the tower that sees pictures.
    pub text_layers: Option<u32>,
    pub text_hidden: Option<u32>,
    pub text_heads: Option<u32>,
    pub text_ffn_hidden: Option<u32>,
    pub text_tokens: Option<u32>,
    pub learned_positions: Option<u32>,
    pub image_side: Option<u32>,
    pub patch_side: Option<u32>,
    pub classes: Option<u32>,
    pub sample_side: Option<u32>,
    pub forward_gflop_per_sample: Option<f64>,
    pub forward_million_elements_per_sample: Option<f64>,
    #[serde(default)]
    pub conv_norm: ConvolutionNorm,
    pub query_key_norm: Option<QueryKeyNorm>,
    /// How the published files store the weights; absent: 16 bits or more.
    #[serde(default)]
    pub weights: StoredFormat,
    /// Layers with attention, with a recurrence in its place, and with a feed-forward block, where they are not all layers.
    pub attention_layers: Option<u32>,
    #[serde(default)]
    pub recurrent_layers: u32,
    /// Weights of the recurrence of a layer.
    #[serde(default)]
    pub recurrent_parameters: f64,
    pub feed_forward_layers: Option<u32>,
    /// Layers that attend to the nearest `window_tokens` only.
    pub window_layers: Option<u32>,
    pub window_tokens: Option<u32>,
    /// Parameters beside layers and embeddings, such as an image tower.
    #[serde(default)]
    pub other_parameters: f64,
    /// How a diffusion model makes pictures.
    pub pipeline: Option<Pipeline>,
    /// Only parameters and operations of a sample are known, and the traffic is guessed from them.
    #[serde(default)]
    pub only_operations: bool,
    /// The values have not been compared with the text that `source` names.
    #[serde(default)]
    pub unverified: bool,
    pub source: String,
    pub as_of: String,
    #[serde(default)]
    pub notes: String,
}

/// Every named model.
#[derive(Clone, Debug)]
pub struct Models {
    rows: Vec<ModelRow>,
    /// Made at the first question: a table of published runs asks thousands.
    by_letters: OnceLock<Places>,
    by_spelling: OnceLock<Places>,
}

/// Where the row of a name is.
type Places = FxHashMap<String, usize>;

#[derive(Deserialize)]
struct ModelsDocument {
    model: Vec<ModelRow>,
}

impl Models {
    /// The packed catalog, for a hash of what an answer rests on.
    pub fn embedded_bytes() -> &'static [u8] {
        gpuplan_embedded::MODELS
    }

    /// The models inside this binary.
    pub fn embedded() -> Result<Self, EmbeddedError> {
        Self::from_archive(&Archive::unpack(gpuplan_embedded::MODELS)?)
    }

    pub fn from_archive(archive: &Archive) -> Result<Self, EmbeddedError> {
        let text = archive
            .documents
            .get("models")
            .ok_or_else(|| EmbeddedError::Damaged("models.toml is missing".to_owned()))?;
        let document: ModelsDocument =
            serde_json::from_str(text).map_err(|error| EmbeddedError::Damaged(format!("models.toml: {error}")))?;
        let incomplete = document.model.iter().find_map(|row| Some((row, row.missing()?)));
        match incomplete {
            Some((row, key)) => Err(EmbeddedError::Damaged(format!("models.toml: `{}` has no `{key}`", row.id))),
            None => Ok(Self { rows: document.model, by_letters: OnceLock::new(), by_spelling: OnceLock::new() }),
        }
    }

    pub fn rows(&self) -> &[ModelRow] {
        &self.rows
    }

    /// By id or alias, without regard to case and separators.
    pub fn find(&self, name: &str) -> Option<&ModelRow> {
        let places = self.by_letters.get_or_init(|| self.places(|known| Some(letters(known))));
        places.get(&letters(name)).map(|place| &self.rows[*place])
    }

    fn places(&self, told_by: impl Fn(&str) -> Option<String>) -> Places {
        let mut places = Places::default();
        self.fill(&mut places, told_by);
        places
    }

    /// By what of a name tells: an id before an alias, and the first of two that are alike.
    fn fill(&self, places: &mut Places, told_by: impl Fn(&str) -> Option<String>) {
        let ids = self.rows.iter().enumerate().map(|(place, row)| (place, &row.id));
        let aliases =
            self.rows.iter().enumerate().flat_map(|(place, row)| row.aliases.iter().map(move |name| (place, name)));
        for (place, name) in ids.chain(aliases) {
            if let Some(key) = told_by(name) {
                places.entry(key).or_insert(place);
            }
        }
    }

    /// The model that a name means, as people type it: with or without its organisation, with the words of a revision
    /// (`-Instruct-2507`) and of a format (`-FP8`) that leave the sizes as they are. With the format that the name states.
    pub fn named(&self, name: &str) -> Option<(&ModelRow, Option<StoredFormat>)> {
        if let Some(row) = self.find(name) {
            return Some((row, None));
        }
        let spelling = Spelling::parse(name)?;
        let joined = |known: &str| Spelling::parse(known).map(|spelling| spelling.joined());
        let places = self.by_spelling.get_or_init(|| {
            let mut places = self.places(joined);
            // `qwen3:30b` has parameters that a token does not meet, too.
            self.fill(&mut places, |known| Spelling::parse(known)?.without_active());
            places
        });
        spelling.readings().find_map(|(wanted, format)| Some((&self.rows[*places.get(&wanted)?], format)))
    }

    /// The model whose name the name of a fine-tune or of another packaging contains, with the format that it states;
    /// a fine-tune of a mixture says at least how many experts of which size it has.
    pub fn made_of(&self, name: &str) -> Option<(&ModelRow, Option<StoredFormat>)> {
        let spelling = Spelling::parse(name)?;
        let of_mixture = || {
            let mixture = spelling.mixture()?;
            self.rows.iter().find(|row| Spelling::parse(&row.id).is_some_and(|known| known.mixture() == Some(mixture)))
        };
        let of_hearing = || {
            let hear = self.rows.iter().filter(|row| row.audio_tokens_per_second > 0.0);
            spelling.heard()?.made_of(hear.flat_map(ModelRow::sizes))
        };
        let row = match spelling.made_of(self.sizes()).or_else(of_hearing) {
            Some(name) => self.find(name)?,
            None => of_mixture().filter(|_| spelling.is_whole())?,
        };
        Some((row, spelling.format()))
    }

    /// The one model whose name has the words of this one in their order, as people shorten names; none where several have.
    pub fn in_part(&self, name: &str) -> Option<(&ModelRow, Option<StoredFormat>)> {
        let spelling = Spelling::parse(name).filter(|_| !name.contains('/'))?;
        let is_meant = |row: &&ModelRow| {
            let mut names = std::iter::once(&row.id).chain(&row.aliases);
            names.any(|known| Spelling::parse(known).is_some_and(|known| spelling.is_part_of(&known)))
        };
        let mut meant = self.rows.iter().filter(is_meant);
        let row = meant.next()?;
        meant.next().is_none().then(|| (row, spelling.format()))
    }

    /// The model of the same family and about the same size that a name is nearest to; of an adapter, what it adapts.
    pub fn nearest(&self, name: &str) -> Option<&ModelRow> {
        let spelling = Spelling::parse(name)?;
        let adapted = || self.named(&spelling.adapted()?).map(|(row, _)| row);
        spelling.nearest(self.sizes()).and_then(|near| self.find(near)).or_else(adapted)
    }

    /// Names of the models among which a name leaves the choice, the smallest first: those of `sam2`, which has no size.
    pub fn left_open<'a>(&'a self, name: &str) -> Vec<&'a str> {
        let Some(spelling) = Spelling::parse(name) else { return Vec::new() };
        let member = |row: &'a ModelRow| {
            let names =
                std::iter::once(&row.id).chain(&row.aliases).map(|known| known.rsplit('/').next().unwrap_or(known));
            let open = names.filter(|known| Spelling::parse(known).is_some_and(|known| spelling.leaves_open(&known)));
            open.min_by_key(|known| (*known != row.id, known.len()))
        };
        let mut members: Vec<(f64, &str)> =
            self.rows.iter().filter_map(|row| Some((row.parameters, member(row)?))).collect();
        members.sort_by(|a, b| a.0.total_cmp(&b.0));
        members.into_iter().map(|(_, name)| name).collect()
    }

    /// Whether the name begins like known models of which none is a decoder, such as those that make pictures.
    pub fn is_of_other_kind(&self, name: &str) -> bool {
        let known = self.rows.iter().flat_map(|row| {
            let is_language_model = matches!(row.kind, ModelKind::Decoder | ModelKind::Moe);
            std::iter::once(&row.id).chain(&row.aliases).map(move |name| (name.as_str(), is_language_model))
        });
        Spelling::parse(name).is_some_and(|spelling| spelling.is_of_other_kind(known))
    }

    /// Every name with the parameters of its model.
    fn sizes(&self) -> impl Iterator<Item = (&str, f64)> {
        self.rows.iter().flat_map(ModelRow::sizes)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(|row| std::iter::once(row.id.as_str()).chain(row.aliases.iter().map(String::as_str)))
    }
}

impl ModelRow {
    /// Its names, each with its parameters.
    fn sizes(&self) -> impl Iterator<Item = (&str, f64)> {
        let names = std::iter::once(&self.id).chain(&self.aliases);
        names.map(|name| (name.as_str(), self.parameters))
    }

    /// A size that a model of this kind has: left out, it would count as zero.
    fn missing(&self) -> Option<&'static str> {
        let is_transformer = self.kind.is_transformer();
        let is_encoder_decoder = matches!(self.kind, ModelKind::Encdec | ModelKind::MoeEncdec);
        let has_experts = matches!(self.kind, ModelKind::Moe | ModelKind::MoeEncdec);
        let needed = [
            ("layers", is_transformer && self.layers.is_none()),
            ("hidden", is_transformer && self.hidden.is_none()),
            ("heads", is_transformer && self.heads.is_none_or(|heads| heads == 0)),
            ("vocab", is_transformer && self.kind != ModelKind::Vit && self.vocab.is_none()),
            ("encoder_layers", is_encoder_decoder && self.encoder_layers.is_none()),
            ("experts", has_experts && self.experts.is_none()),
            ("experts_per_token", has_experts && self.experts_per_token.is_none()),
            ("forward_gflop_per_sample", !is_transformer && self.forward_gflop_per_sample.is_none()),
        ];
        needed.into_iter().find_map(|(key, is_missing)| is_missing.then_some(key))
    }

    pub fn to_model(&self) -> Model {
        let heads = self.heads.unwrap_or(0);
        let hidden = self.hidden.unwrap_or(0);
        Model {
            name: self.id.clone(),
            kind: self.kind,
            parameters: self.parameters,
            layers: self.layers.unwrap_or(0),
            hidden,
            heads,
            kv_heads: self.kv_heads.unwrap_or(heads),
            head_dim: self.head_dim.unwrap_or(hidden.checked_div(heads).unwrap_or(0)),
            ffn_hidden: self.ffn_hidden.unwrap_or(4 * hidden),
            vocab: self.vocab.unwrap_or(0),
            mlp: self.mlp.unwrap_or(MlpKind::Gelu),
            norm: self.norm.unwrap_or(NormKind::Layer),
            parallel_residual: self.parallel_residual,
            attention_softcap: self.attention_softcap,
            tied_embeddings: self.tied_embeddings,
            experts: self.experts.map(|experts| Experts {
                experts,
                experts_per_token: self.experts_per_token.unwrap_or(1),
                shared_experts: self.shared_experts.unwrap_or(0),
                ffn_hidden: self.expert_ffn_hidden.or(self.ffn_hidden).unwrap_or(4 * hidden),
                dense_layers: self.dense_layers.unwrap_or(0),
            }),
            latent: self.kv_lora_rank.map(|kv_rank| LatentAttention {
                kv_rank,
                q_rank: self.q_lora_rank.unwrap_or(0),
                rope_head: self.qk_rope_head_dim.unwrap_or(0),
                nope_head: self.qk_nope_head_dim.unwrap_or(0),
                value_head: self.v_head_dim.unwrap_or(0),
            }),
            encoder_layers: self.encoder_layers.unwrap_or(0),
            encoder_tokens: self.encoder_tokens.unwrap_or(0),
            text_tower: self.text_tower(),
            audio_tokens_per_second: self.audio_tokens_per_second,
            stack: None,
            max_context: self.max_context.unwrap_or(0),
            sample_side: self.sample_side.or(self.image_side).unwrap_or(0),
            forward_flops_per_sample: self.forward_gflop_per_sample.unwrap_or(0.0) * 1e9,
            forward_elements_per_sample: self.forward_million_elements_per_sample.map(|million| million * 1e6),
            convolution_norm: self.conv_norm,
            query_key_norm: self.query_key_norm,
            published: self.weights,
            deviations: self.deviations(),
            pipeline: self.pipeline.clone(),
            shape_is_guessed: self.only_operations || self.unverified,
        }
    }

    fn text_tower(&self) -> Option<TextTower> {
        let (layers, hidden) = (self.text_layers?, self.text_hidden?);
        Some(TextTower {
            layers,
            hidden,
            heads: self.text_heads?,
            ffn_hidden: self.text_ffn_hidden.unwrap_or(4 * hidden),
            tokens: self.text_tokens?,
        })
    }

    fn deviations(&self) -> Deviations {
        let layers = self.layers.unwrap_or(0);
        let is_hybrid = self.attention_layers.is_some() || self.feed_forward_layers.is_some();
        Deviations {
            hybrid: is_hybrid.then(|| Hybrid {
                attention_layers: self.attention_layers.unwrap_or(layers),
                recurrent_layers: self.recurrent_layers,
                recurrent_parameters: self.recurrent_parameters,
                feed_forward_layers: self.feed_forward_layers.unwrap_or(layers),
            }),
            window: self
                .window_tokens
                .map(|tokens| SlidingWindow { layers: self.window_layers.unwrap_or(layers), tokens }),
            other_parameters: self.other_parameters,
            diffusion: None,
        }
    }

    /// Parameters by the closed form, with the position table, the patches and the classes that the row states: what
    /// `parameters` is checked against. `None` for what is not built of transformer layers.
    pub fn counted_parameters(&self) -> Option<f64> {
        if !self.kind.is_transformer() {
            return None;
        }
        let hidden = f64::from(self.hidden.unwrap_or(0));
        let patches = match (self.patch_side, self.native_tokens()) {
            (Some(side), Some(tokens)) => 3.0 * f64::from(side).powi(2) + f64::from(tokens),
            _ => 0.0,
        };
        let rows = patches + f64::from(self.learned_positions.unwrap_or(0) + self.classes.unwrap_or(0));
        Some(self.to_model().counted_parameters() + rows * hidden)
    }

    /// Tokens that the layers see for one sample: patches and class token of an image transformer.
    pub fn native_tokens(&self) -> Option<u32> {
        let (side, patch) = (self.image_side?, self.patch_side?);
        Some((side / patch.max(1)).pow(2) + 1)
    }
}

/// What tells names apart: without separators, and small letters as capital ones.
fn letters(name: &str) -> String {
    let told = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '.');
    told.map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests;
