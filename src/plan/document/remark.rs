//! `Remark`: a reason, a suggestion, a warning or an assumption, as figures beside a sentence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Sentences without their figures, as people read them.
pub(super) fn sentences(remarks: &[Remark]) -> Vec<String> {
    remarks.iter().map(|remark| remark.sentence.clone()).collect()
}

/// Something that is said, for programs and for people: `{"kind": "...", figures, "sentence": "..."}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// What is said, as a word. A newer program may write words that are not known here.
    pub kind: String,
    /// The figures of this kind by name; a name says the unit.
    #[serde(flatten)]
    pub figures: Map<String, Value>,
    /// The same as a sentence in English; its wording may change at any time.
    pub sentence: String,
}

impl Remark {
    /// From an enumeration whose variants are told apart by `kind`, and its sentence.
    pub fn new(figures: &impl Serialize, sentence: String) -> Self {
        let value = serde_json::to_value(figures).expect("figures have text keys");
        let mut figures = value.as_object().cloned().expect("a variant with a kind is an object");
        let kind = figures.shift_remove("kind").and_then(|kind| kind.as_str().map(str::to_owned));
        Self { kind: kind.expect("every variant has a kind"), figures, sentence }
    }
}
