//! What each `model_type` of transformers calls its sizes and how its layers are built.
//!
//! Key names and class defaults: huggingface/transformers `models/<type>/configuration_<type>.py`, releases 4.51 and 5.23.

use crate::model::{MlpKind, ModelKind, NormKind};

/// Keys of a size; the first that is present counts.
pub(super) type Keys = &'static [&'static str];

/// How many KV heads a layer has.
#[derive(Clone, Copy)]
pub(super) enum KvHeads {
    /// As many as query heads; there is no key.
    All,
    /// The key, and where it is absent as many as query heads.
    KeyOrAll,
    /// The key, which transformers never leaves out of a file.
    Key,
    /// `num_kv_heads` of the new architecture, one with `multi_query`.
    Falcon,
}

/// Attention and feed-forward block side by side.
#[derive(Clone, Copy)]
pub(super) enum Parallel {
    Never,
    Always,
    /// As this key says, with the class default.
    Key(&'static str, bool),
}

#[derive(Clone, Copy)]
pub(super) enum Mlp {
    Is(MlpKind),
    /// `feed_forward_proj`: a gate where it starts with `gated-`.
    FeedForwardProj,
}

/// Width of the feed-forward block.
#[derive(Clone, Copy)]
pub(super) enum FeedForward {
    Key(&'static str),
    /// The key, and where it is absent four times the hidden width.
    KeyOrFourHidden(&'static str),
    FourHidden,
    /// `expansion_ratio` times the hidden width.
    Expansion,
}

/// Where the sizes of a mixture of experts stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpertKeys {
    None,
    Mixtral,
    Qwen,
    DeepSeek,
    /// `intermediate_size` is the width of an expert, `intermediate_size_mlp` that of a dense block.
    Llama4,
    /// Whichever keys the file has; none of them: no mixture.
    Any,
}

/// Default width of a head where the file names none.
#[derive(Clone, Copy)]
pub(super) enum HeadDim {
    HiddenByHeads,
    ClassDefault(u32),
    /// `d_kv`, which transformers never leaves out of a file.
    Dkv,
}

#[derive(Clone, Copy)]
pub(super) struct Family {
    pub model_type: &'static str,
    pub kind: ModelKind,
    pub hidden: Keys,
    pub layers: Keys,
    /// Layers of the encoder of an encoder-decoder, whose `layers` are the decoder's.
    pub encoder_layers: Keys,
    pub heads: Keys,
    pub kv: KvHeads,
    pub head_dim: HeadDim,
    pub feed_forward: FeedForward,
    pub mlp: Mlp,
    pub norm: NormKind,
    pub parallel: Parallel,
    /// Class default of `tie_word_embeddings`.
    pub tied: bool,
    pub experts: ExpertKeys,
    /// Class default of `attn_logit_softcapping` is a number.
    pub softcap: bool,
    /// A learned table of positions, `max_context` rows.
    pub learned_positions: bool,
    /// Width of an embedding narrower than the layers.
    pub narrow_embedding: Keys,
    /// What a nested `text_config` leaves out, since it is saved as a difference to the class.
    pub nested_defaults: &'static [(&'static str, u32)],
}

/// The type whose keys most decoders have.
pub(super) const LLAMA_TYPE: &str = "llama";

const LLAMA: Family = Family {
    model_type: LLAMA_TYPE,
    kind: ModelKind::Decoder,
    hidden: &["hidden_size"],
    layers: &["num_hidden_layers", "num_layers"],
    encoder_layers: &[],
    heads: &["num_attention_heads"],
    kv: KvHeads::KeyOrAll,
    head_dim: HeadDim::HiddenByHeads,
    feed_forward: FeedForward::Key("intermediate_size"),
    mlp: Mlp::Is(MlpKind::Glu),
    norm: NormKind::Rms,
    parallel: Parallel::Never,
    tied: false,
    experts: ExpertKeys::None,
    softcap: false,
    learned_positions: false,
    narrow_embedding: &[],
    nested_defaults: &[],
};

const GEMMA: Family = Family {
    model_type: "gemma",
    kv: KvHeads::Key,
    head_dim: HeadDim::ClassDefault(256),
    tied: true,
    nested_defaults: &[],
    ..LLAMA
};

/// Two matrices and LayerNorm, tied: the shape before Llama.
const GPT: Family = Family {
    model_type: "gpt2",
    hidden: &["n_embd", "hidden_size"],
    layers: &["n_layer", "num_hidden_layers"],
    heads: &["n_head", "num_attention_heads"],
    kv: KvHeads::All,
    feed_forward: FeedForward::KeyOrFourHidden("n_inner"),
    mlp: Mlp::Is(MlpKind::Gelu),
    norm: NormKind::Layer,
    tied: true,
    learned_positions: true,
    ..LLAMA
};

const BERT: Family = Family {
    model_type: "bert",
    kind: ModelKind::Encoder,
    hidden: &["hidden_size"],
    layers: &["num_hidden_layers"],
    heads: &["num_attention_heads"],
    feed_forward: FeedForward::Key("intermediate_size"),
    ..GPT
};

const T5: Family = Family {
    model_type: "t5",
    kind: ModelKind::Encdec,
    hidden: &["d_model"],
    layers: &["num_decoder_layers", "num_layers"],
    encoder_layers: &["num_layers"],
    heads: &["num_heads"],
    kv: KvHeads::All,
    head_dim: HeadDim::Dkv,
    feed_forward: FeedForward::Key("d_ff"),
    mlp: Mlp::FeedForwardProj,
    tied: true,
    ..LLAMA
};

/// Two stacks of two-matrix blocks with learned positions and one shared embedding.
const BART: Family = Family {
    model_type: "bart",
    kind: ModelKind::Encdec,
    hidden: &["d_model"],
    layers: &["decoder_layers"],
    encoder_layers: &["encoder_layers"],
    heads: &["decoder_attention_heads"],
    feed_forward: FeedForward::Key("decoder_ffn_dim"),
    ..GPT
};

/// Keys of Mamba alone: every layer is a recurrence, and there is no attention to have heads.
const MAMBA: Family = Family {
    model_type: "mamba",
    hidden: &["hidden_size", "d_model"],
    layers: &["num_hidden_layers", "n_layer"],
    tied: true,
    ..LLAMA
};

pub(super) static FAMILIES: [Family; 53] = [
    Family { model_type: "glm4_moe", head_dim: HeadDim::ClassDefault(128), experts: ExpertKeys::Any, ..LLAMA },
    MAMBA,
    Family { model_type: "falcon_mamba", tied: false, ..MAMBA },
    Family { model_type: "mamba2", tied: false, ..MAMBA },
    Family { model_type: "nemotron_h", mlp: Mlp::Is(MlpKind::Gelu), experts: ExpertKeys::Any, ..LLAMA },
    Family { model_type: "llama4_text", kv: KvHeads::Key, experts: ExpertKeys::Llama4, ..LLAMA },
    Family {
        nested_defaults: &[
            ("hidden_size", 4096),
            ("intermediate_size", 11008),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("vocab_size", 32000),
        ],
        ..LLAMA
    },
    Family {
        model_type: "mistral",
        kv: KvHeads::Key,
        nested_defaults: &[
            ("hidden_size", 4096),
            ("intermediate_size", 14336),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("num_key_value_heads", 8),
            ("vocab_size", 32000),
        ],
        ..LLAMA
    },
    Family { model_type: "mixtral", kind: ModelKind::Moe, kv: KvHeads::Key, experts: ExpertKeys::Mixtral, ..LLAMA },
    Family {
        model_type: "qwen2",
        kv: KvHeads::Key,
        nested_defaults: &[
            ("hidden_size", 4096),
            ("intermediate_size", 22016),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("num_key_value_heads", 32),
            ("vocab_size", 151_936),
        ],
        ..LLAMA
    },
    Family { model_type: "qwen2_moe", kind: ModelKind::Moe, kv: KvHeads::Key, experts: ExpertKeys::Qwen, ..LLAMA },
    Family { model_type: "qwen3", kv: KvHeads::Key, head_dim: HeadDim::ClassDefault(128), ..LLAMA },
    Family { model_type: "qwen3_moe", kind: ModelKind::Moe, kv: KvHeads::Key, experts: ExpertKeys::Qwen, ..LLAMA },
    Family {
        nested_defaults: &[
            ("hidden_size", 3072),
            ("intermediate_size", 24576),
            ("num_hidden_layers", 28),
            ("num_attention_heads", 16),
            ("num_key_value_heads", 16),
            ("vocab_size", 256_000),
        ],
        ..GEMMA
    },
    Family {
        model_type: "gemma2",
        softcap: true,
        nested_defaults: &[
            ("hidden_size", 2304),
            ("intermediate_size", 9216),
            ("num_hidden_layers", 26),
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("vocab_size", 256_000),
        ],
        ..GEMMA
    },
    Family {
        model_type: "gemma3_text",
        nested_defaults: &[
            ("hidden_size", 2304),
            ("intermediate_size", 9216),
            ("num_hidden_layers", 26),
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("vocab_size", 262_208),
            ("max_position_embeddings", 131_072),
        ],
        ..GEMMA
    },
    Family { model_type: "gemma3n_text", ..GEMMA },
    Family { model_type: "gemma4_text", experts: ExpertKeys::Any, ..GEMMA },
    Family { model_type: "gemma4_unified_text", experts: ExpertKeys::Any, ..GEMMA },
    Family { model_type: "diffusion_gemma_text", experts: ExpertKeys::Any, ..GEMMA },
    Family { model_type: "gpt_bigcode", kv: KvHeads::Falcon, ..GPT },
    Family { model_type: "biogpt", ..GPT },
    Family { model_type: "codegen", parallel: Parallel::Always, tied: false, learned_positions: false, ..GPT },
    Family {
        model_type: "xglm",
        hidden: &["d_model"],
        layers: &["num_layers"],
        heads: &["attention_heads"],
        feed_forward: FeedForward::Key("ffn_dim"),
        learned_positions: false,
        ..GPT
    },
    Family {
        model_type: "gpt_neox_japanese",
        kv: KvHeads::All,
        feed_forward: FeedForward::KeyOrFourHidden("intermediate_size"),
        mlp: Mlp::Is(MlpKind::Gelu),
        norm: NormKind::Layer,
        tied: true,
        ..LLAMA
    },
    Family { model_type: "umt5", ..T5 },
    Family { model_type: "longt5", ..T5 },
    Family {
        model_type: "phi",
        mlp: Mlp::Is(MlpKind::Gelu),
        norm: NormKind::Layer,
        parallel: Parallel::Always,
        ..LLAMA
    },
    Family { model_type: "phi3", ..LLAMA },
    GPT,
    Family {
        model_type: "gpt_neo",
        hidden: &["hidden_size"],
        layers: &["num_layers", "num_hidden_layers"],
        heads: &["num_heads", "num_attention_heads"],
        feed_forward: FeedForward::KeyOrFourHidden("intermediate_size"),
        ..GPT
    },
    Family {
        model_type: "gpt_neox",
        kv: KvHeads::All,
        mlp: Mlp::Is(MlpKind::Gelu),
        norm: NormKind::Layer,
        parallel: Parallel::Key("use_parallel_residual", true),
        ..LLAMA
    },
    Family { model_type: "gptj", parallel: Parallel::Always, tied: false, learned_positions: false, ..GPT },
    Family {
        model_type: "opt",
        hidden: &["hidden_size"],
        layers: &["num_hidden_layers"],
        heads: &["num_attention_heads"],
        feed_forward: FeedForward::Key("ffn_dim"),
        narrow_embedding: &["word_embed_proj_dim"],
        ..GPT
    },
    Family {
        model_type: "mpt",
        hidden: &["d_model", "hidden_size"],
        layers: &["n_layers", "num_hidden_layers"],
        heads: &["n_heads", "num_attention_heads"],
        feed_forward: FeedForward::Expansion,
        learned_positions: false,
        ..GPT
    },
    Family {
        model_type: "bloom",
        hidden: &["n_embed", "hidden_size"],
        feed_forward: FeedForward::FourHidden,
        learned_positions: false,
        ..GPT
    },
    Family {
        model_type: "falcon",
        hidden: &["hidden_size"],
        layers: &["num_hidden_layers", "n_layer"],
        heads: &["num_attention_heads", "n_head"],
        kv: KvHeads::Falcon,
        feed_forward: FeedForward::KeyOrFourHidden("ffn_hidden_size"),
        parallel: Parallel::Key("parallel_attn", true),
        learned_positions: false,
        ..GPT
    },
    Family { model_type: "deepseek_v2", kind: ModelKind::Moe, experts: ExpertKeys::DeepSeek, ..LLAMA },
    Family { model_type: "deepseek_v3", kind: ModelKind::Moe, experts: ExpertKeys::DeepSeek, ..LLAMA },
    BERT,
    Family { model_type: "roberta", ..BERT },
    Family {
        model_type: "distilbert",
        hidden: &["dim", "hidden_size"],
        layers: &["n_layers", "num_hidden_layers"],
        heads: &["n_heads", "num_attention_heads"],
        feed_forward: FeedForward::Key("hidden_dim"),
        ..BERT
    },
    Family { model_type: "electra", narrow_embedding: &["embedding_size"], ..BERT },
    T5,
    Family { model_type: "mt5", tied: false, ..T5 },
    Family { model_type: "whisper", ..BART },
    Family { model_type: "vit", kind: ModelKind::Vit, ..BERT },
    Family {
        model_type: "stablelm",
        kv: KvHeads::Key,
        norm: NormKind::Layer,
        parallel: Parallel::Key("use_parallel_residual", false),
        ..LLAMA
    },
    Family { model_type: "olmo", norm: NormKind::Layer, ..LLAMA },
    Family { model_type: "olmo2", ..LLAMA },
    Family { model_type: "cohere", norm: NormKind::Layer, parallel: Parallel::Always, tied: true, ..LLAMA },
    Family {
        model_type: "starcoder2",
        kv: KvHeads::Key,
        mlp: Mlp::Is(MlpKind::Gelu),
        norm: NormKind::Layer,
        tied: true,
        ..LLAMA
    },
    Family { model_type: "granite", ..LLAMA },
];

/// Decoders whose files have Llama's keys, with gated blocks; mixtures, latent attention, windows and recurrences are read from
/// the keys that say so.
#[rustfmt::skip]
const LIKE_LLAMA: [&str; 104] = [
    "afmoe", "aquila", "aria_text", "axk1", "axk2", "baichuan", "bailing_hybrid", "bailing_moe", "bamba", "bitnet",
    "cohere2", "cohere2_moe", "cohere_compass_text", "cwm", "deepseek_ocr2_text", "deepseek_ref", "deepseek_v32", "deepseek_v4",
    "diffllama", "dots1", "ernie4_5", "ernie4_5_moe", "ernie4_5_vl_moe_text", "exaone", "exaone4", "exaone_moe",
    "falcon_h1", "flex_olmo", "glm", "glm4", "glm4_moe_lite", "glm4v_moe_text", "glm4v_text", "glm_moe_dsa",
    "glm_ocr_text", "gpt_oss", "granite4_vision_text", "granite_docling_text", "granite_swa", "granitemoe",
    "granitemoe_swa", "granitemoehybrid", "granitemoeshared", "helium", "hunyuan_v1_dense", "hunyuan_v1_moe",
    "hunyuan_vl_text", "hy_v3", "hyperclovax", "internlm2", "internlm3", "iquestcoder", "jamba", "kimi_k2",
    "kimi_linear", "laguna", "lfm2", "lfm2_moe", "mellum", "mimo", "mimo_v2_flash", "minicpm", "minicpm3",
    "minimax_m2", "minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text", "ministral", "ministral3", "mistral4",
    "mllama_text_model", "modernbert-decoder", "molmo2_text", "muse_glimmer_text", "nemotron-nas", "olmo3",
    "olmo_hybrid", "olmoe", "orion", "paddleocr_vl_text", "phi4_multimodal", "phimoe", "qwen2_5_omni_text",
    "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_vl", "qwen2_vl_text", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next",
    "qwen3_omni_moe_text", "qwen3_omni_text", "qwen3_vl_moe_text", "qwen3_vl_text", "sarvam_mla", "sarvam_moe",
    "seed_oss", "smollm3", "solar_open", "step3p5", "step3p7", "vaultgemma", "yi", "youtu",
];

/// Decoders with Llama's keys and blocks of two matrices.
const LIKE_LLAMA_UNGATED: [&str; 7] =
    ["apertus", "apertus1p5_text", "arcee", "jais2", "nanochat", "nemotron", "persimmon"];

/// Encoders with BERT's keys.
#[rustfmt::skip]
const LIKE_BERT: [&str; 20] = [
    "big_bird", "camembert", "data2vec-text", "deberta", "deberta-v2", "ernie", "esm", "ibert",
    "jina_embeddings_v3", "layoutlm", "luke", "megatron-bert", "mpnet", "nystromformer", "roberta-prelayernorm",
    "roc_bert", "roformer", "xlm-roberta", "xlm-roberta-xl", "xmod",
];

/// Encoders with BERT's keys and gated blocks.
const LIKE_BERT_GATED: [&str; 4] = ["eurobert", "gte", "modernbert", "nomic_bert"];

/// Encoder-decoders with BART's keys.
const LIKE_BART: [&str; 9] =
    ["bart", "blenderbot", "blenderbot-small", "m2m_100", "marian", "mbart", "mvp", "pegasus", "plbart"];

/// Image transformers with ViT's keys.
const LIKE_VIT: [&str; 7] =
    ["clip_vision_model", "deit", "dinov2", "dinov2_with_registers", "siglip_vision_model", "vit_mae", "vit_msn"];

/// How files of a `model_type` are read.
pub(super) fn family_of(model_type: &str) -> Option<Family> {
    if let Some(family) = FAMILIES.iter().find(|family| family.model_type == model_type) {
        return Some(*family);
    }
    let lists: [(&[&'static str], Family); 6] = [
        (&LIKE_LLAMA, Family { head_dim: HeadDim::HiddenByHeads, experts: ExpertKeys::Any, ..LLAMA }),
        (&LIKE_LLAMA_UNGATED, Family { mlp: Mlp::Is(MlpKind::Gelu), ..LLAMA }),
        (&LIKE_BERT, BERT),
        (&LIKE_BERT_GATED, Family { mlp: Mlp::Is(MlpKind::Glu), learned_positions: false, ..BERT }),
        (&LIKE_BART, BART),
        (
            &LIKE_VIT,
            Family { kind: ModelKind::Vit, feed_forward: FeedForward::KeyOrFourHidden("intermediate_size"), ..BERT },
        ),
    ];
    lists.into_iter().find_map(|(types, family)| {
        let model_type = types.iter().find(|known| **known == model_type)?;
        Some(Family { model_type, ..family })
    })
}

/// Every `model_type` that can be read.
pub(super) fn model_types() -> impl Iterator<Item = &'static str> {
    let lists: [&[&'static str]; 6] =
        [&LIKE_LLAMA, &LIKE_LLAMA_UNGATED, &LIKE_BERT, &LIKE_BERT_GATED, &LIKE_BART, &LIKE_VIT];
    FAMILIES.iter().map(|family| family.model_type).chain(lists.into_iter().flatten().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Fields::required` names the first of its keys.
    #[test]
    fn every_family_has_keys_for_its_sizes() {
        assert!(
            FAMILIES
                .iter()
                .all(|family| [family.hidden, family.layers, family.heads].iter().all(|keys| !keys.is_empty()))
        );
    }
}
