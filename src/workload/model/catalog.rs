//! `Models`: the named models of `catalogs/models.toml`.

use serde::Deserialize;

use crate::model::{Experts, LatentAttention, MlpKind, Model, ModelKind, NormKind};
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
    pub learned_positions: Option<u32>,
    pub image_side: Option<u32>,
    pub patch_side: Option<u32>,
    pub classes: Option<u32>,
    pub sample_side: Option<u32>,
    pub forward_gflop_per_sample: Option<f64>,
    pub source: String,
    pub as_of: String,
    #[serde(default)]
    pub notes: String,
}

/// Every named model.
#[derive(Clone, Debug)]
pub struct Models {
    rows: Vec<ModelRow>,
}

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
            None => Ok(Self { rows: document.model }),
        }
    }

    pub fn rows(&self) -> &[ModelRow] {
        &self.rows
    }

    /// By id or alias, without regard to case and separators.
    pub fn find(&self, name: &str) -> Option<&ModelRow> {
        let wanted = plain(name);
        let exact = self.rows.iter().find(|row| plain(&row.id) == wanted);
        exact.or_else(|| self.rows.iter().find(|row| row.aliases.iter().any(|alias| plain(alias) == wanted)))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().flat_map(|row| std::iter::once(row.id.as_str()).chain(row.aliases.iter().map(String::as_str)))
    }
}

impl ModelRow {
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
            stack: None,
            max_context: self.max_context.unwrap_or(0),
            sample_side: self.sample_side.or(self.image_side).unwrap_or(0),
            forward_flops_per_sample: self.forward_gflop_per_sample.unwrap_or(0.0) * 1e9,
        }
    }

    /// Tokens that the layers see for one sample: patches and class token of an image transformer.
    pub fn native_tokens(&self) -> Option<u32> {
        let (side, patch) = (self.image_side?, self.patch_side?);
        Some((side / patch.max(1)).pow(2) + 1)
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_size_of_its_kind_is_refused() {
        let read = |kind: &str, sizes: &str| {
            let row = format!(
                "[[model]]\nid = \"m\"\nname = \"M\"\nfamily = \"F\"\nkind = \"{kind}\"\nparameters = 1e6\n{sizes}source = \"s\"\nas_of = \"d\"\n"
            );
            let mut archive = Archive::default();
            archive.add_document("models", &row).unwrap();
            Models::from_archive(&archive).map_err(|error| error.to_string())
        };
        assert!(read("decoder", "layers = 2\nhidden = 64\nheads = 4\nvocab = 100\n").is_ok());
        for (kind, sizes, key) in [
            ("decoder", "layers = 2\nheads = 4\nvocab = 100\n", "hidden"),
            ("encdec", "layers = 2\nhidden = 64\nheads = 4\nvocab = 100\n", "encoder_layers"),
            ("cnn", "sample_side = 224\n", "forward_gflop_per_sample"),
        ] {
            assert!(read(kind, sizes).unwrap_err().ends_with(&format!("`m` has no `{key}`")), "{kind}");
        }
    }
}
