//! Tests of `stack.rs`.

#![cfg(test)]

use super::*;

/// Every name of the machine interface, of the published runs and of the frameworks that people ask for.
const NAMES: [&str; 28] = [
    "accelerate",
    "axolotl",
    "colossalai",
    "deepspeed",
    "fsdp",
    "fsdp-compile",
    "fsdp2",
    "gpt-neox",
    "hf-trainer",
    "internevo",
    "jax",
    "lightning",
    "litgpt",
    "llama-factory",
    "llm-foundry",
    "maxtext",
    "megatron",
    "megatron-deepspeed",
    "nanotron",
    "nemo",
    "nvidia-examples",
    "olmo-core",
    "pytorch-eager",
    "timm",
    "torchtitan",
    "torchtune",
    "trl",
    "unsloth",
];

#[test]
fn every_name_has_a_row_and_no_name_has_two() {
    let stacks = Stacks::embedded();
    let mut ids = stacks.ids();
    ids.sort_unstable();
    assert_eq!(ids, NAMES);
    let mut names: Vec<String> = stacks.rows().iter().flat_map(Stack::names).map(plain).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_value_has_its_source_and_its_quote() {
    let mut values = 0;
    for stack in Stacks::embedded().rows() {
        assert!(!stack.version.is_empty() && !stack.name.is_empty(), "{}", stack.id);
        for evidence in stack.evidence() {
            let Evidence { key, column, source, version, quote } = evidence;
            let place = format!("{} {key} {column:?}", stack.id);
            assert!(source.starts_with("https://") && source.contains(' '), "{place}: {source}");
            assert!(!version.trim().is_empty(), "{place}");
            // Some words of a line, and no more.
            assert!((4..=120).contains(&quote.len()), "{place}: {quote}");
            values += 1;
        }
    }
    assert!(values > 200, "{values}");
}

#[test]
fn recipes_and_parsers_differ_where_they_do() {
    let stacks = Stacks::embedded();
    let stack = |id: &str| stacks.find(id).unwrap();
    let megatron = stack("megatron");
    assert_eq!((megatron.sequence_parallel(8), megatron.sequence_parallel(1)), (Some(true), Some(false)));
    assert_eq!(megatron.sequence_parallel_by(Column::Parser, 8), Some(false));
    assert_eq!((megatron.shard.recipe(), megatron.shard.parser()), (Some(Shard::Zero1), Some(Shard::None)));
    assert_eq!(megatron.gradient_bucket.recipe().map(|bucket| bucket.elements(64, 0.0, 4.0)), Some(64e6));
    for id in ["nemo", "torchtitan"] {
        assert_eq!(stack(id).sequence_parallel(2), Some(true), "{id}");
    }
    assert_eq!(stack("maxtext").attention.recipe().map(StackAttention::kernel), Some(AttentionKernel::Flash3));
    let targets = stack("hf-trainer").lora_targets.parser().unwrap();
    assert!(targets.q && targets.v && !targets.k && !targets.up);
}

#[test]
fn what_a_recipe_leaves_out_is_the_parsers_and_what_nobody_knows_is_unknown() {
    let fact = |value: bool| Fact { value, source: String::new(), version: String::new(), quote: String::new() };
    let parser = Cell { recipe: None, parser: Some(fact(true)) };
    assert_eq!((parser.recipe(), parser.parser()), (Some(true), Some(true)));
    let recipe = Cell { recipe: Some(fact(true)), parser: None };
    assert_eq!((recipe.recipe(), recipe.parser()), (Some(true), None));
    assert_eq!(Cell::<bool>::default().recipe(), None);
}

#[test]
fn names_are_read_as_people_write_them() {
    let stacks = Stacks::embedded();
    let named = |name: &str| stacks.framework(name).map(|framework| framework.id().to_owned());
    for (name, id) in [
        ("Megatron-LM", "megatron"),
        ("megatron_core", "megatron"),
        ("HF Trainer", "hf-trainer"),
        ("transformers", "hf-trainer"),
        ("FSDP2", "fsdp2"),
        ("LLaMA-Factory", "llama-factory"),
        ("", ""),
        ("none", "none"),
    ] {
        assert_eq!(named(name).as_deref(), Ok(id), "{name}");
    }
    let refused = named("megatorn").unwrap_err();
    assert_eq!(refused.to_string(), "unknown framework `megatorn`; did you mean `megatron`?");
    assert_eq!(named("kaldi").unwrap_err().to_string(), "unknown framework `kaldi`");
}

#[test]
fn a_run_that_names_no_stack_may_split_layers() {
    let stacks = Stacks::embedded();
    let splits = |name: &str| stacks.splits_layers(&Framework::new(name));
    for name in ["", "megatron", "megatron-deepspeed", "internevo", "nemo", "torchtitan"] {
        assert!(splits(name), "{name}");
    }
    for name in ["none", "fsdp", "fsdp-compile", "hf-trainer", "litgpt", "pytorch-eager"] {
        assert!(!splits(name), "{name}");
    }
}

#[test]
fn what_a_stack_is_and_does_by_itself() {
    let of = |name: &str| Framework::new(name);
    for name in ["pytorch-eager", "accelerate", "deepspeed", "fsdp", "fsdp-compile", "hf-trainer", "lightning", "jax"] {
        assert!(of(name).is_library() && !of(name).splits_experts(), "{name}");
    }
    for name in ["", "megatron", "torchtitan", "llm-foundry", "litgpt"] {
        assert!(!of(name).is_library(), "{name}");
    }
    for name in ["", "megatron", "nemo", "torchtitan", "fsdp2"] {
        assert!(of(name).splits_experts(), "{name}");
    }
    assert!(of("jax").writes_attention() && !of("maxtext").writes_attention() && !of("").writes_attention());
}

#[test]
fn a_value_that_is_no_word_of_its_key_is_refused() {
    let read = |cell: &str| {
        let row = format!(
            "[[stack]]\nid = \"a\"\nname = \"A\"\nversion = \"1\"\n{cell} = {{ source = \"s\", version = \"1\", quote = \"q\", value = "
        );
        move |value: &str| {
            let mut archive = Archive::default();
            archive.add_document("stacks", &format!("{row}{value} }}\n")).unwrap();
            Stacks::from_archive(&archive).map_err(|error| error.to_string())
        }
    };
    assert!(read("attention.recipe")("\"flash2\"").is_ok());
    assert!(read("attention.recipe")("\"flash9\"").unwrap_err().contains("flash9"));
    assert!(read("attention.guess")("\"flash2\"").unwrap_err().contains("guess"));
    assert!(read("colour.recipe")("\"flash2\"").unwrap_err().contains("colour"));
}
