//! The table of faults in docs/launch.md: every test and mutant that it names exists, so that nobody trusts a name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::launch::simulation::mutant::Mutant;

const PAGE: &str = include_str!("../../docs/launch.md");

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Names of the functions below an attribute of a test.
fn tests_of(text: &str, names: &mut BTreeSet<String>) {
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let begins = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(name) = begins.and_then(|rest| rest.split(['(', '<']).next()).filter(|_| is_test) {
            names.insert(name.to_owned());
            is_test = false;
        }
    }
}

/// The words in backticks of the last column, with what stands before each.
fn named(row: &str) -> Vec<(bool, &str)> {
    let column = row.trim_end_matches(['|', ' ']).rsplit_once(" | ").map_or("", |(_, column)| column);
    let parts: Vec<&str> = column.split('`').collect();
    parts.chunks(2).filter_map(|pair| Some((pair[0].ends_with("mutant "), *pair.get(1)?))).collect()
}

fn rows() -> Vec<&'static str> {
    let table = PAGE.split("\n## ").find(|section| section.starts_with("What goes wrong, and what holds\n")).unwrap();
    table.lines().filter(|line| line.starts_with("| ")).skip(2).collect()
}

#[test]
fn every_test_of_the_table_of_faults_exists() {
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    let mut tests = BTreeSet::new();
    for file in &files {
        tests_of(&fs::read_to_string(file).unwrap(), &mut tests);
    }
    let mutants: Vec<String> = Mutant::ALL.iter().map(|mutant| format!("{mutant:?}")).collect();
    let mut shown = BTreeSet::new();
    assert!(rows().len() > 40, "the table was found");
    for row in rows() {
        assert!(!named(row).is_empty(), "no test holds {row}");
        for (is_mutant, name) in named(row) {
            if is_mutant {
                assert!(mutants.iter().any(|known| known == name), "there is no mutant {name}: {row}");
                shown.insert(name.to_owned());
            } else {
                assert!(tests.contains(name), "there is no test {name}: {row}");
            }
        }
    }
    let missing: Vec<&String> = mutants.iter().filter(|mutant| !shown.contains(*mutant)).collect();
    assert!(missing.is_empty(), "the table does not name {missing:?}");
}

#[test]
fn a_name_of_no_test_is_seen() {
    assert_eq!(
        named("| a `stop` | b | mutant `One`; `two`, `three` |"),
        [(true, "One"), (false, "two"), (false, "three")]
    );
    let mut tests = BTreeSet::new();
    tests_of(
        "#[test]\nfn one() {}\nfn two() {}\n#[tokio::test(start_paused = true)]\nasync fn three() {}\n",
        &mut tests,
    );
    assert_eq!(tests.into_iter().collect::<Vec<_>>(), ["one", "three"]);
}
