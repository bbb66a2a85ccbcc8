//! Tests of `huggingface.rs`.

#![cfg(test)]

use super::families::FAMILIES;
use super::*;
use proptest::prelude::*;

fn fixture(file: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/fixtures/huggingface/{file}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn read(text: &str) -> Result<Model, ConfigError> {
    read_config(text.as_bytes(), "test")
}

#[test]
fn published_parameter_counts_come_out() {
    for (file, published, kind) in [
        ("llama", 8_030_261_248.0, ModelKind::Decoder),
        ("gpt2", 124_439_808.0, ModelKind::Decoder),
        ("bert", 109_482_240.0, ModelKind::Encoder),
        ("mixtral", 46_702_792_704.0, ModelKind::Moe),
        ("gemma2", 9_241_705_984.0, ModelKind::Decoder),
        ("falcon", 6_921_720_704.0, ModelKind::Decoder),
        ("t5", 222_903_552.0, ModelKind::Encdec),
        ("vit", 86_567_656.0, ModelKind::Vit),
        ("qwen2", 494_032_768.0, ModelKind::Decoder),
        ("deepseek_v3", 671_026_419_200.0, ModelKind::Moe),
    ] {
        let model = read_config(&fixture(file)[..], file).unwrap();
        let ratio = model.parameters / published;
        assert!((ratio - 1.0).abs() < 0.02, "{file}: {ratio}");
        assert_eq!(model.kind, kind, "{file}");
    }
}

#[test]
fn shapes_are_as_the_families_mean_them() {
    let model = |file: &str| read_config(&fixture(file)[..], file).unwrap();
    let falcon = model("falcon");
    assert_eq!(
        (falcon.kv_heads, falcon.ffn_hidden, falcon.parallel_residual, falcon.tied_embeddings),
        (1, 4 * 4544, true, true)
    );
    let gemma = model("gemma2");
    assert_eq!(
        (gemma.head_dim, gemma.attention_softcap, gemma.tied_embeddings, gemma.mlp),
        (256, true, true, MlpKind::Glu)
    );
    let t5 = model("t5");
    assert_eq!((t5.layers, t5.encoder_layers, t5.mlp, t5.tied_embeddings), (12, 12, MlpKind::Gelu, true));
    let vit = model("vit");
    assert_eq!((vit.max_context, vit.sample_side, vit.vocab), (197, 224, 0));
    let deepseek = model("deepseek_v3");
    let experts = deepseek.experts.unwrap();
    assert_eq!(
        (experts.experts, experts.experts_per_token, experts.shared_experts, experts.dense_layers),
        (256, 8, 1, 3)
    );
    assert_eq!((deepseek.head_dim, deepseek.latent.unwrap().kv_rank), (192, 512));
    assert!(!model("llama").tied_embeddings && model("gpt2").tied_embeddings && model("qwen2").tied_embeddings);
}

#[test]
fn other_families_come_out_too() {
    for (text, published) in [
        // Phi-2, GPT-J-6B, OPT-350M (narrow embedding), Pythia-1.4B, MPT-7B, BLOOM-560M.
        (
            r#"{"model_type":"phi","hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":32,"num_attention_heads":32,"vocab_size":51200}"#,
            2_779_683_840.0,
        ),
        (
            r#"{"model_type":"gptj","n_embd":4096,"n_layer":28,"n_head":16,"n_inner":null,"vocab_size":50400,"n_positions":2048}"#,
            6_050_882_784.0,
        ),
        (
            r#"{"model_type":"opt","hidden_size":1024,"ffn_dim":4096,"num_hidden_layers":24,"num_attention_heads":16,"word_embed_proj_dim":512,"vocab_size":50272,"max_position_embeddings":2048}"#,
            331_196_416.0,
        ),
        (
            r#"{"model_type":"gpt_neox","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":24,"num_attention_heads":16,"vocab_size":50304}"#,
            1_414_647_808.0,
        ),
        (
            r#"{"model_type":"mpt","d_model":4096,"n_layers":32,"n_heads":32,"expansion_ratio":4,"vocab_size":50432,"max_seq_len":2048}"#,
            6_649_286_656.0,
        ),
        (
            r#"{"model_type":"bloom","n_embed":1024,"n_layer":24,"num_attention_heads":16,"vocab_size":250880,"seq_length":2048}"#,
            559_214_592.0,
        ),
        // Falcon-40B, Qwen1.5-MoE-A2.7B, DistilBERT, ELECTRA-small, Whisper small.
        (
            r#"{"model_type":"falcon","hidden_size":8192,"num_hidden_layers":60,"num_attention_heads":128,"num_kv_heads":8,"new_decoder_architecture":true,"vocab_size":65024}"#,
            41_303_293_952.0,
        ),
        (
            r#"{"model_type":"qwen2_moe","hidden_size":2048,"intermediate_size":5632,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,"num_experts_per_tok":4,"num_hidden_layers":24,"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":151936}"#,
            14_315_784_192.0,
        ),
        (
            r#"{"model_type":"distilbert","dim":768,"hidden_dim":3072,"n_layers":6,"n_heads":12,"vocab_size":30522,"max_position_embeddings":512}"#,
            66_362_880.0,
        ),
        (
            r#"{"model_type":"electra","hidden_size":256,"embedding_size":128,"intermediate_size":1024,"num_hidden_layers":12,"num_attention_heads":4,"vocab_size":30522,"max_position_embeddings":512}"#,
            13_548_800.0,
        ),
        (
            r#"{"model_type":"whisper","d_model":768,"encoder_layers":12,"decoder_layers":12,"decoder_attention_heads":12,"decoder_ffn_dim":3072,"vocab_size":51865,"max_target_positions":448}"#,
            241_734_912.0,
        ),
    ] {
        let model = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!((model.parameters / published - 1.0).abs() < 0.02, "{text}: {}", model.parameters);
    }
}

#[test]
fn a_nested_text_model_has_the_defaults_of_its_class() {
    // As google/gemma-3-4b-it states it: 3.88 billion without the image tower.
    let text = r#"{"model_type":"gemma3","vision_config":{},"text_config":{"model_type":"gemma3_text",
        "hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34}}"#;
    let model = read(text).unwrap();
    assert_eq!((model.heads, model.kv_heads, model.vocab), (8, 4, 262_208));
    assert!((model.parameters / 3.88e9 - 1.0).abs() < 0.02, "{}", model.parameters);
    let outer = text.replace("text_config", "other_config");
    assert!(
        matches!(read(&outer), Err(ConfigError::UnknownModelType { suggestion: Some(near), .. }) if near.starts_with("gemma"))
    );
}

#[test]
fn hostile_files_are_refused_by_name() {
    let refused = |file: &str| read_config(&fixture(file)[..], file).unwrap_err();
    assert!(matches!(refused("truncated"), ConfigError::Malformed(_)));
    assert!(matches!(refused("deep"), ConfigError::Malformed(_)));
    assert!(matches!(refused("not_utf8"), ConfigError::Malformed(_)));
    assert_eq!(refused("empty"), ConfigError::Missing { key: "model_type".to_owned() });
    let refused = |file| refused(file).to_string();
    assert_eq!(refused("negative_layers"), "`num_hidden_layers` is -32: it must be a whole number from 1 to 10000");
    assert_eq!(
        refused("huge_numbers"),
        "`hidden_size` is 18446744073709551615: it must be a whole number from 1 to 16777216"
    );
    assert_eq!(refused("wrong_types"), r#"`hidden_size` is "big": it must be a whole number from 1 to 16777216"#);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let mut base: Map<String, Value> = serde_json::from_slice(&fixture("llama")).unwrap();
    base.insert("num_key_value_heads".to_owned(), Value::from(5));
    let error = read(&Value::Object(base.clone()).to_string()).unwrap_err();
    assert_eq!(error.to_string(), "`num_key_value_heads` is 5: it does not divide the 32 attention heads");
    base.insert("num_key_value_heads".to_owned(), Value::Null);
    assert_eq!(read(&Value::Object(base.clone()).to_string()).unwrap().kv_heads, 32);
    base.insert("hidden_size".to_owned(), Value::from(4097));
    assert!(
        matches!(read(&Value::Object(base.clone()).to_string()), Err(ConfigError::Impossible { key, .. }) if key == "hidden_size")
    );
    base.insert("model_type".to_owned(), Value::from("lama"));
    let error = read(&Value::Object(base).to_string()).unwrap_err();
    assert_eq!(
        error,
        ConfigError::UnknownModelType { model_type: "lama".to_owned(), suggestion: Some("llama".to_owned()) }
    );
    for text in ["[]", "3", "null", "\"llama\"", ""] {
        assert!(matches!(read(text), Err(ConfigError::Malformed(_))), "{text}");
    }
}

#[test]
fn an_endless_file_is_not_read_to_the_end() {
    let endless = std::io::BufReader::new(std::io::repeat(b' '));
    assert_eq!(read_config(endless, "test").unwrap_err(), ConfigError::TooLarge);
}

/// Keys that any family reads, and one that none does.
const KEYS: [&str; 24] = [
    "hidden_size",
    "n_embd",
    "d_model",
    "num_hidden_layers",
    "n_layer",
    "num_layers",
    "num_attention_heads",
    "n_head",
    "num_heads",
    "num_key_value_heads",
    "num_kv_heads",
    "head_dim",
    "d_kv",
    "intermediate_size",
    "vocab_size",
    "image_size",
    "patch_size",
    "num_local_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "multi_query",
    "max_position_embeddings",
    "text_config",
    "other",
];

fn any_value() -> impl Strategy<Value = Value> {
    let whole = prop_oneof![Just(0_i64), Just(1), Just(8), Just(64), 1_i64..20_000, any::<i64>()];
    prop_oneof![
        6 => whole.prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => ".{0,20}".prop_map(Value::from),
        1 => Just(Value::Null),
        1 => Just(serde_json::json!([1, "two", {"model_type": "llama"}])),
        1 => Just(serde_json::json!({"model_type": "llama", "hidden_size": 64})),
    ]
}

proptest! {
    #[test]
    fn any_object_is_read_or_refused(
        family in 0..FAMILIES.len(),
        pairs in proptest::collection::vec((0..KEYS.len(), any_value()), 0..24),
    ) {
        let mut object: Map<String, Value> = pairs.into_iter().map(|(key, value)| (KEYS[key].to_owned(), value)).collect();
        object.insert("model_type".to_owned(), Value::from(FAMILIES[family].model_type));
        if let Ok(model) = read(&Value::Object(object).to_string()) {
            prop_assert!(model.parameters.is_finite() && model.parameters > 0.0, "{:?}", model);
            prop_assert_eq!(model.heads % model.kv_heads, 0);
        }
    }

    #[test]
    fn any_bytes_are_no_configuration(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let refused = read_config(&bytes[..], "my-model").unwrap_err();
        prop_assert!(matches!(refused, ConfigError::Malformed(_) | ConfigError::Missing { .. }), "{refused}");
    }

    /// A configuration with one byte changed is the same model, another whole one, or refused.
    #[test]
    fn any_damage_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = fixture("llama");
        let at = at.index(bytes.len());
        bytes[at] = byte;
        match read_config(&bytes[..], "my-model") {
            Ok(model) => {
                prop_assert!(model.parameters.is_finite() && model.parameters > 0.0, "{model:?}");
                prop_assert!(model.layers > 0 && model.hidden > 0 && model.vocab > 0 && model.heads % model.kv_heads == 0, "{model:?}");
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

/// A file of published sizes with, under a key of its own, the parameters that transformers counts of it.
fn file_of_published(path: &std::path::Path, key: &str) -> (Result<Model, ConfigError>, Value) {
    let bytes = std::fs::read(path).unwrap();
    let outer: Value = serde_json::from_slice(&python::to_json(bytes.clone())).unwrap();
    (read_config(&bytes[..], "published"), outer[key].clone())
}

fn json_files(folder: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
}

/// Sizes of google/gemma-4-26B-A4B and nvidia/Gemma-4-31B-IT-NVFP4, and what they are called after.
#[test]
fn gemma_4_has_a_dense_block_beside_its_experts() {
    let read = |more: &str| {
        let text = format!(
            r#"{{"model_type": "gemma4", "text_config": {{"model_type": "gemma4_text", "head_dim": 256, "vocab_size": 262144,
            "max_position_embeddings": 262144, "sliding_window": 1024, {more}}}}}"#
        );
        read_config(text.as_bytes(), "gemma-4")
    };
    let sizes = r#""hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30, "num_attention_heads": 16,
        "num_key_value_heads": 8, "enable_moe_block": true, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704"#;
    let mixture = read(sizes).unwrap();
    let experts = mixture.experts.unwrap();
    assert_eq!((mixture.kind, experts.shared_experts, experts.experts_per_token), (ModelKind::Moe, 3, 8));
    assert!((mixture.parameters / 26e9 - 1.0).abs() < 0.05, "{}", mixture.parameters);
    let sizes = r#""hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60, "num_attention_heads": 32,
        "num_key_value_heads": 16, "enable_moe_block": false, "num_experts": null, "top_k_experts": null"#;
    let dense = read(sizes).unwrap();
    assert!(dense.experts.is_none() && (dense.parameters / 31e9 - 1.0).abs() < 0.05, "{}", dense.parameters);
    // Gemma 4 E4B: 8.0 billion with the towers, of which 2.9 are the embeddings of its layers.
    let e4b = r#""hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 42, "num_attention_heads": 8,
        "num_key_value_heads": 2, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144"#;
    let model = read(e4b).unwrap();
    assert!((model.deviations.other_parameters / 2.9e9 - 1.0).abs() < 0.01, "{model:?}");
    assert!((7.3e9..7.6e9).contains(&model.parameters), "{}", model.parameters);
}

#[test]
fn published_files_give_their_parameters_and_their_weight_format() {
    let folder = format!("{}/../../tests/fixtures/huggingface/published", env!("CARGO_MANIFEST_DIR"));
    let paths = json_files(&folder);
    assert!(paths.len() >= 12, "{}", paths.len());
    for path in paths {
        let (model, published) = file_of_published(&path, "_published");
        let model = model.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let ratio = model.parameters / published["parameters"].as_f64().unwrap();
        assert!((ratio - 1.0).abs() < 0.01, "{}: {ratio}", path.display());
        assert_eq!(Some(model.published.word()), published["weights"].as_str(), "{}", path.display());
    }
}

/// Class defaults of every decoder that transformers 5.24 knows: each is read, or refused with the type or the key that stands in the
/// way.
#[test]
fn class_defaults_are_read_or_refused_with_what_stands_in_the_way() {
    let classes = include_str!("../../../../tests/fixtures/huggingface/class_defaults.jsonl");
    let mut read = 0;
    for class in classes.lines() {
        match read_config(class.as_bytes(), "class") {
            Ok(model) => {
                assert!(model.parameters > 1e5 && model.parameters.is_finite(), "{class}: {}", model.parameters);
                read += 1;
            }
            Err(error) => assert!(error.to_string().contains('`'), "{class}: {error}"),
        }
    }
    let all = classes.lines().count();
    assert!(all >= 190 && read >= 150, "{read} of {all}");
}

/// Any folder of configurations: each is read, or refused with what is missing. Where a file states its `__count` of parameters,
/// it comes out within five percent.
#[test]
fn a_folder_of_configurations_is_read_or_refused() {
    let Some(folder) = std::env::var_os("GPUPLAN_MODEL_CONFIGS") else {
        println!("WAIVED: GPUPLAN_MODEL_CONFIGS names no folder of config.json files");
        return;
    };
    let (mut read, mut off) = (0, Vec::new());
    let paths = json_files(&folder.to_string_lossy());
    for path in &paths {
        let (model, count) = file_of_published(path, "__count");
        match model {
            Err(error) => println!("refused: {}: {error}", path.display()),
            Ok(model) => {
                read += 1;
                let ratio = count.as_f64().map_or(1.0, |count| model.parameters / count);
                if (ratio - 1.0).abs() > 0.05 {
                    off.push(format!("{}: {ratio:.3}", path.display()));
                }
            }
        }
    }
    println!("{read} of {} configurations are read", paths.len());
    assert!(off.is_empty(), "{off:#?}");
}
