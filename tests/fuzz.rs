//! The corpus of the fuzzer as plain tests: what it has found once stays found, without the fuzzer.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

// The root of the fuzzer's own crate, whose modules lie beside it.
#[path = "fuzz/targets.rs"]
mod targets;

use targets::TARGETS;

fn folder(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz").join(below)
}

/// Files of a folder in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn stems(folder: &Path) -> BTreeSet<String> {
    files(folder).iter().map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_seed_of_every_target_still_holds() {
    let mut broken = Vec::new();
    for (name, target) in TARGETS {
        let seeds = files(&folder("corpus").join(name));
        assert!(!seeds.is_empty(), "the target `{name}` has no seed: put one into tests/fuzz/corpus/{name}/");
        for seed in seeds {
            let bytes = fs::read(&seed).unwrap();
            if catch_unwind(|| target(&bytes)).is_err() {
                broken.push(seed.display().to_string());
            }
        }
    }
    assert!(broken.is_empty(), "what is asserted in tests/fuzz/ does not hold of\n{}", broken.join("\n"));
}

#[test]
fn every_target_is_built_and_has_a_corpus() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems(&folder("fuzz_targets")), names, "a file of tests/fuzz/fuzz_targets/ for each target");
    assert_eq!(stems(&folder("corpus")), names, "a folder of tests/fuzz/corpus/ for each target");
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    let built: BTreeSet<String> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""))
        .map(str::to_owned)
        .collect();
    assert_eq!(built, names, "a [[bin]] of tests/fuzz/Cargo.toml for each target");
    for name in names {
        let wrapper = fs::read_to_string(folder("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(
            wrapper.contains(&format!("gpuplan_fuzz::{name}(data)")),
            "tests/fuzz/fuzz_targets/{name}.rs calls another target"
        );
    }
}
