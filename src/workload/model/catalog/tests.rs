//! The catalog of models: what rows must have, and what names mean.

#![cfg(test)]

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

#[test]
fn an_id_comes_before_an_alias_and_the_first_row_before_the_second() {
    let row = |id: &str, aliases: &str| {
        format!(
            "[[model]]\nid = \"{id}\"\nname = \"M\"\nfamily = \"F\"\nkind = \"cnn\"\nparameters = 1e6\naliases = [{aliases}]\n\
             forward_gflop_per_sample = 1.0\nsource = \"s\"\nas_of = \"d\"\n"
        )
    };
    let rows = [row("one", "\"two-7b\", \"both\""), row("two-7b", "\"both\", \"org/Three-8B\"")].concat();
    let mut archive = Archive::default();
    archive.add_document("models", &rows).unwrap();
    let models = Models::from_archive(&archive).unwrap();
    let found = |name: &str| models.find(name).map(|row| row.id.as_str());
    assert_eq!([found("TWO_7B"), found("Both"), found("")], [Some("two-7b"), Some("one"), None]);
    let named = |name: &str| models.named(name).map(|(row, _)| row.id.as_str());
    let expected = [Some("two-7b"), Some("two-7b"), None];
    assert_eq!([named("x/Two-7B-Instruct"), named("three-8b-it"), named("four-8b")], expected);
}

/// Names of a hub as people paste them, each with the model that it means, and one that nobody can mean.
#[test]
fn names_of_the_hub_mean_their_model() {
    let models = Models::embedded().unwrap();
    assert!(models.rows().len() >= 250, "{}", models.rows().len());
    let meant = |name: &str| models.named(name).map(|(row, format)| (row.id.as_str(), format));
    for (name, id, format) in [
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b", None),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b", None),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3-next-80b-a3b", None),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b", None),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek-r1-distill-qwen-7b", None),
        ("deepseek-r1:7b", "deepseek-r1-distill-qwen-7b", None),
        ("qwen3-coder:480b", "qwen3-coder-480b-a35b", None),
        ("qwen3:30b", "qwen3-30b-a3b", None),
        ("vit_base_patch16_224", "vit-b-16", None),
        ("RedHatAI/Llama-3_1-8B-NVFP4A16", "llama-3.1-8b", Some(StoredFormat::Nvfp4)),
        ("unsloth/Meta-Llama-3.1-8B-bnb-4bit", "llama-3.1-8b", Some(StoredFormat::Int4)),
        ("bartowski/Llama-3.3-70B-Instruct-Q4_K_M.gguf", "llama-3.3-70b", Some(StoredFormat::Int4)),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b", Some(StoredFormat::Fp8)),
        ("unsloth/gpt-oss-20b-BF16", "gpt-oss-20b", Some(StoredFormat::Bf16)),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "llama-4-maverick", None),
        ("openai/whisper-large-v3-turbo", "whisper-large-v3-turbo", None),
        ("sentence-transformers/all-MiniLM-L6-v2", "all-minilm-l6-v2", None),
        ("state-spaces/mamba-2.8b", "mamba-2.8b", None),
        ("black-forest-labs/FLUX.1-dev", "flux.1-dev", None),
    ] {
        assert_eq!(meant(name), Some((id, format)), "{name}");
    }
    let published = |name: &str| models.find(name).unwrap().weights;
    assert_eq!((published("gpt-oss-120b"), published("deepseek-v3")), (StoredFormat::Mxfp4, StoredFormat::Fp8));
    for name in ["yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "Qwen3-8B-LoRA", "gpt-4o", "7B", "/", ""] {
        assert_eq!(meant(name), None, "{name}");
    }
}

/// Names of the Hub that people use, with the row that has their sizes; empty: the catalog has none.
#[test]
fn popular_names_of_the_hub_resolve() {
    let models = Models::embedded().unwrap();
    let names = include_str!("../../../../tests/fixtures/huggingface/names.csv");
    let rows: Vec<(&str, &str)> = names.lines().skip(1).filter_map(|line| line.split_once(',')).collect();
    for (name, id) in &rows {
        let row = models.named(name).or_else(|| models.made_of(name));
        assert_eq!(row.map_or("", |(row, _)| &row.id), *id, "{name}");
    }
    let known = rows.iter().filter(|(_, id)| !id.is_empty()).count();
    assert!(rows.len() >= 240 && known == rows.len(), "{known} of {}", rows.len());
}

/// Names as people type them in 2026, written down before they were looked up; empty: nobody has cited its sizes yet.
#[test]
fn names_as_they_are_typed_mean_one_model_or_none() {
    let models = Models::embedded().unwrap();
    let names = include_str!("../../../../tests/fixtures/huggingface/typed.csv");
    let rows = names.lines().skip(1).filter_map(|line| line.rsplit_once(','));
    let mut known = 0;
    for (name, id) in rows {
        let row = models.named(name).or_else(|| models.made_of(name));
        assert_eq!(row.map_or("", |(row, _)| &row.id), id, "{name}");
        known += u32::from(!id.is_empty());
    }
    assert!(known >= 45, "{known}");
}

#[test]
fn what_is_not_known_is_suggested_by_family_and_size_or_not_at_all() {
    let models = Models::embedded().unwrap();
    let near = |name: &str| models.nearest(name).map(|row| row.id.as_str());
    for (name, id) in [
        ("NousResearch/Hermes-3-Llama-3.1-8B", "llama-3.1-8b"),
        ("llama-31-8b", "llama-3.1-8b"),
        ("resnet5", "resnet-50"),
        ("openai/gpt-oss-safeguard-20b", "gpt-oss-20b"),
        ("whisper-lage-v3", "whisper-large-v3"),
    ] {
        assert_eq!(near(name), Some(id), "{name}");
    }
    let strangers = ["acme/Kolibri-7B", "gpt-4o", "Llama-9-200B", "acme/unheard-of", "Qwen/Qwen-Studio"];
    for name in strangers {
        assert_eq!(near(name), None, "{name}");
    }
    for (name, family, size) in [("Qwen/Qwen9-8B-Dream", "Qwen", 8e9), ("google/gemma-5-27b-it", "Gemma", 27e9)] {
        let row = models.nearest(name).unwrap_or_else(|| panic!("{name}"));
        assert!(row.family == family && (row.parameters / size - 1.0).abs() < 0.25, "{name}: {}", row.id);
    }
}

/// What a row's sizes give is what is published.
#[test]
fn sizes_give_the_published_parameters() {
    for row in Models::embedded().unwrap().rows() {
        let Some(counted) = row.counted_parameters() else { continue };
        let ratio = counted / row.parameters;
        assert!((ratio - 1.0).abs() < 0.01, "{}: {ratio}", row.id);
    }
}

#[test]
fn a_name_may_be_shortened_or_leave_open_which_model_is_meant() {
    let models = Models::embedded().unwrap();
    let in_part = |name: &str| models.in_part(name).map(|(row, _)| row.id.as_str());
    assert_eq!(in_part("nemotron super 49b"), Some("llama-3.3-nemotron-super-49b"));
    // Several have these words, a repository is named in full, and a version is no part of another.
    for name in ["llama 70b", "acme/nemotron-super-49b", "gemma-9-27b", "super 49b", "sam2"] {
        assert_eq!(in_part(name), None, "{name}");
    }
    let open = |name: &str| models.left_open(name);
    assert_eq!(open("sam2"), ["sam2-hiera-tiny", "sam2-hiera-small", "sam2-hiera-base-plus", "sam2-hiera-large"]);
    assert_eq!(open("Grounding DINO"), ["grounding-dino-tiny", "grounding-dino-base"]);
    for name in ["llama-3.1-8b", "acme/unheard-of", "gpt-4o", "Qwen/Qwen-Studio"] {
        assert!(open(name).is_empty(), "{name}: {:?}", open(name));
    }
    let adapted = |name: &str| models.nearest(name).map(|row| row.id.as_str());
    assert_eq!(adapted("sdxl lora"), Some("stable-diffusion-xl"));
}
