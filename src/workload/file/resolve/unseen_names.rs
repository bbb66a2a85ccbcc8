//! Names as people type them, written down with their published parameters before any was tried: how many are known.

#![cfg(test)]

use crate::assumption::Assumption;
use crate::file::{WorkloadFile, WorkloadFileError};
use crate::model::catalog::Models;

/// Published counts are rounded by so much, and differ by heads and towers that are counted or not.
const ROUNDED: f64 = 0.05;

/// How the names of a list are read.
#[derive(Debug, Default, PartialEq)]
struct Score {
    /// The model that is meant, with its own sizes.
    right: u32,
    /// An estimate by the size in the name, which says so.
    by_size: u32,
    /// Refused, with what to type.
    refused: u32,
    /// Another model, or another size.
    wrong: Vec<String>,
}

/// Each line has a name, its published parameters (`?`: the name leaves open which model is meant), and where it was seen.
fn score(list: &str) -> Score {
    let models = Models::embedded().unwrap();
    let mut score = Score::default();
    for line in list.lines().skip(1) {
        let mut fields = line.split('\t');
        let (Some(name), Some(published)) = (fields.next(), fields.next()) else { panic!("{line}") };
        let published = published.parse::<f64>().ok();
        let file = WorkloadFile::parse(&format!("model.preset = {name:?}")).unwrap();
        let mut assumed = Vec::new();
        let read = super::model::resolve(&file.model, &models, None, &mut assumed);
        let like = assumed.iter().find_map(|one| match one {
            Assumption::ModelShape { like, .. } | Assumption::ModelOfName { like } => Some(like.as_str()),
            _ => None,
        });
        let is_by_size = assumed.iter().any(|one| matches!(one, Assumption::ModelShape { .. }));
        match read {
            Ok(read) => {
                let off = published.map_or(0.0, |published| read.model.parameters / published - 1.0);
                let how = match (off.abs() <= ROUNDED, is_by_size) {
                    // A size in a name is rounded more coarsely.
                    (_, true) if off.abs() <= 2.0 * ROUNDED => {
                        score.by_size += 1;
                        "size"
                    }
                    (true, false) => {
                        score.right += 1;
                        "right"
                    }
                    _ => {
                        score.wrong.push(name.to_owned());
                        "WRONG"
                    }
                };
                println!("{how}\t{name}\t{}\t{}\t{off:+.3}", read.model.name, like.unwrap_or_default());
            }
            Err(said) => {
                score.refused += 1;
                assert!(matches!(said, WorkloadFileError::UnknownModel { .. }), "{name}: {said}");
                println!("refused\t{name}\t{said:?}");
            }
        }
    }
    println!("{} right, {} by size, {} refused, {:?} wrong", score.right, score.by_size, score.refused, score.wrong);
    score
}

/// `GPUPLAN_MODEL_NAMES=FILE cargo test -p gpuplan-workload a_list_of_names -- --nocapture` says how each name of a list is read.
#[test]
fn a_list_of_names() {
    let Some(path) = std::env::var_os("GPUPLAN_MODEL_NAMES") else {
        println!("WAIVED: GPUPLAN_MODEL_NAMES names no file");
        return;
    };
    let score = score(&std::fs::read_to_string(path).unwrap());
    assert!(score != Score::default());
}

/// What was not seen before the catalog grew stays right, and what is open is asked.
#[test]
fn names_that_were_unseen_mean_their_model() {
    let first = score(include_str!("../../../../tests/fixtures/huggingface/unseen-1.tsv"));
    assert!(first.right >= 177 && first.wrong.is_empty() && first.refused <= 9, "{first:?}");
    let second = score(include_str!("../../../../tests/fixtures/huggingface/unseen-2.tsv"));
    assert!(second.right >= 43 && second.wrong.len() <= 1 && second.refused <= 21, "{second:?}");
}
