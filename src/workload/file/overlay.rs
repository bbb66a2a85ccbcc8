//! Laying one workload file over another, key by key, and keys that are stated one at a time, as `--set` takes them.

use serde::Deserialize;
use toml::{Table, Value};

use crate::file::error::{WorkloadFileError, unknown_key};
use crate::file::scalar::invalid;
use crate::file::written::WorkloadFile;

/// Keys that say the same thing in different ways: stating one takes the others back.
const ALTERNATIVES: [(&str, &[&str]); 4] = [
    ("training", &["tokens", "samples", "epochs", "steps"]),
    ("training", &["global_batch", "global_batch_tokens"]),
    (
        "serving",
        &[
            "requests_per_second",
            "tokens_per_day",
            "images_per_second",
            "audio_hours_per_day",
            "requests",
            "tokens",
            "images",
            "audio_hours",
        ],
    ),
    ("serving", &["hours", "duration"]),
];
/// Of `[serving]`: work that is done some day, ...
const JOBS: [&str; 4] = ["requests", "tokens", "images", "audio_hours"];
/// ... which has none of what users of a service wait for.
const OF_A_SERVICE: [&str; 5] = ["hours", "duration", "availability", "time_to_first_token", "time_per_token"];

impl WorkloadFile {
    /// This file with what `over` states laid over it. A key replaces what it contradicts: `steps` a stated `tokens`, `preset` a
    /// `config` and its sizes. A job in place of a service has no hours, and phases are not touched.
    pub fn overlay(self, over: Self) -> Self {
        let mut stated = stated_keys(&self);
        lay_over(&mut stated, stated_keys(&Self { phase: Vec::new(), ..over }));
        Self::deserialize(stated).expect("what was read is written so that it reads back, as a test proves")
    }

    /// A file that states single keys, each as `section.key=value`. The value is TOML or, without quotes, text; a later assignment
    /// wins over an earlier one.
    pub fn from_assignments<'a>(assignments: impl IntoIterator<Item = &'a str>) -> Result<Self, WorkloadFileError> {
        assignments.into_iter().try_fold(Self::default(), |file, assignment| {
            let stated = assignment.split_once('=').filter(|(key, _)| !key.trim().is_empty());
            let (key, value) = stated.ok_or_else(|| {
                invalid(assignment.trim(), "state a key and its value, such as training.micro_batch=4")
            })?;
            Ok(file.overlay(Self::from_key(key.trim(), value.trim())?))
        })
    }

    /// A file that states one key, such as `training.lora.rank`.
    fn from_key(key: &str, value: &str) -> Result<Self, WorkloadFileError> {
        let section = |inner, name: &str| Value::Table([(name.trim().to_owned(), inner)].into_iter().collect());
        let nested = |value| key.rsplit('.').fold(value, section);
        let text = Value::String(value.to_owned());
        let toml = value.parse::<Value>().ok();
        // A number is also text (`10M`, `2.5`), which a key may be kept as; what has brackets or quotes is written as TOML.
        let candidates = match toml {
            Some(toml @ (Value::String(_) | Value::Array(_) | Value::Table(_))) => [Some(toml), None],
            toml => [Some(text), toml],
        };
        let mut refused = String::new();
        for candidate in candidates.into_iter().flatten() {
            match Self::deserialize(nested(candidate)) {
                Ok(file) => return Ok(file),
                Err(error) => refused = error.message().trim().replace('\n', "; "),
            }
        }
        Err(invalid(
            key,
            match unknown_key(&refused) {
                Some((_, Some(known))) => format!("there is no such key; did you mean `{known}`?"),
                Some((_, None)) => "there is no such key".to_owned(),
                None => refused,
            },
        ))
    }
}

/// The keys that a file states. An empty list of clouds or regions limits nothing.
fn stated_keys(file: &WorkloadFile) -> Table {
    let mut stated = Table::try_from(file).expect("keys are text and values are of TOML, as a test proves");
    if let Some(Value::Table(limits)) = stated.get_mut("limits") {
        limits.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
    stated
}

/// Sections go into sections; any other value replaces what stood there.
fn lay_over(base: &mut Table, over: Table) {
    for (section, value) in over {
        match (base.get_mut(&section), value) {
            (Some(Value::Table(base)), Value::Table(over)) => {
                take_back(&section, base, &over);
                lay_over(base, over);
            }
            (_, value) => drop(base.insert(section, value)),
        }
    }
}

/// Drops what `over` contradicts without naming it.
fn take_back(section: &str, base: &mut Table, over: &Table) {
    // Another model: the sizes that were stated belonged to the first.
    if section == "model" && (over.contains_key("preset") || over.contains_key("config")) {
        base.clear();
    }
    if section == "serving" && JOBS.iter().any(|key| over.contains_key(*key)) {
        base.retain(|key, _| !OF_A_SERVICE.contains(&key));
    }
    for (_, keys) in ALTERNATIVES.iter().filter(|(of, _)| *of == section) {
        if keys.iter().any(|key| over.contains_key(*key)) {
            base.retain(|key, _| !keys.contains(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{ModelSection, Scalar};

    const BASE: &str = r#"
[model]
config = "config.json"
layers = 4
[training]
tokens = "300B"
global_batch_tokens = "4M"
overlap = ["tensor-parallel"]
[training.lora]
rank = 8
[serving]
requests = 5
hours = 3
[limits]
clouds = ["aws", "gcp"]
max_nodes = 8
[[phase]]
name = "train"
"#;

    fn file(text: &str) -> WorkloadFile {
        WorkloadFile::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_stated_key_replaces_what_it_contradicts() {
        let flags = "training = { steps = 10, global_batch = 8, overlap = [], lora.dropout = true }\nlimits.clouds = [\"azure\"]\nmodel.heads = 4";
        let mixed = file(BASE).overlay(file(flags));
        assert_eq!((mixed.training.steps, mixed.training.tokens), (Some(Scalar::Whole(10)), None));
        assert_eq!((mixed.training.global_batch_tokens, mixed.limits.clouds), (None, vec!["azure".to_owned()]));
        assert_eq!((mixed.training.lora.rank, mixed.training.lora.dropout), (Some(Scalar::Whole(8)), Some(true)));
        assert_eq!((mixed.training.overlap, mixed.limits.max_nodes), (Some(Vec::new()), Some(8)));
        assert_eq!((mixed.model.config.as_deref(), mixed.model.layers), (Some("config.json"), Some(Scalar::Whole(4))));
        assert_eq!(mixed.phase, file(BASE).phase);
    }

    #[test]
    fn nothing_stated_changes_nothing() {
        assert_eq!(file(BASE).overlay(WorkloadFile::default()), file(BASE));
        let without_phases = WorkloadFile { phase: Vec::new(), ..file(BASE) };
        assert_eq!(WorkloadFile::default().overlay(file(BASE)), without_phases);
    }

    #[test]
    fn another_model_and_another_service_are_new_ones() {
        let other = file(BASE).overlay(file("model.preset = \"gpt-2\"\nserving.images = 7"));
        assert_eq!(other.model, ModelSection { preset: Some("gpt-2".to_owned()), ..ModelSection::default() });
        assert_eq!((other.serving.requests, other.serving.images), (None, Some(Scalar::Whole(7))));
        assert_eq!(other.serving.hours, None);
    }

    /// Flags state keys one at a time, alone or over a file.
    #[test]
    fn a_service_is_stated_key_by_key() {
        let stated = ["serving.requests_per_second=5", "serving.prompt_tokens=1000", "serving.answer_tokens=300"];
        let service = WorkloadFile::from_assignments(stated).unwrap().serving;
        assert_eq!(service.requests_per_second, Some(Scalar::from("5".to_owned())));
        assert_eq!(service.prompt_tokens, Some(Scalar::from("1000".to_owned())));
        assert_eq!(service.answer_tokens, Some(Scalar::from("300".to_owned())));
        let busier = file("serving = { requests_per_second = 2, prompt_tokens = 7, hours = 3 }")
            .overlay(file("serving.requests_per_second = 9"));
        assert_eq!(
            (busier.serving.requests_per_second, busier.serving.hours),
            (Some(Scalar::Whole(9)), Some(Scalar::Whole(3)))
        );
        assert_eq!(busier.serving.prompt_tokens, Some(Scalar::Whole(7)));
        let work =
            WorkloadFile::from_assignments(["processing.samples=10", "processing.reads=1TB"]).unwrap().processing;
        assert!(work.is_some_and(|work| work.samples.is_some() && work.reads.is_some()));
    }

    /// No key can be forgotten: the corpus of the fuzzer states each.
    #[test]
    fn every_key_is_laid_over() {
        let text = include_str!("../../../tests/fuzz/corpus/workload/every-key.toml");
        assert_eq!(WorkloadFile::default().overlay(file(text)), file(text));
    }

    #[test]
    fn a_key_is_stated_as_text_or_as_toml() {
        let stated = WorkloadFile::from_assignments([
            "name=123",
            "training.tokens=10M",
            "training.steps = 7",
            "training.compile=true",
            "training.lora.targets=[\"q_proj\", \"v_proj\"]",
            "training.overlap=tensor-parallel,weight-gather",
            "training.gradient_compression=4",
            "limits.max_nodes=8",
            "limits.deadline=2026-12-24T12:00:00Z",
            "data.location=s3://bucket/a=b",
        ])
        .unwrap();
        let expected = "name = \"123\"\nlimits = { max_nodes = 8, deadline = \"2026-12-24T12:00:00Z\" }\ndata.location = \"s3://bucket/a=b\"\n\
            [training]\nsteps = \"7\"\ncompile = true\noverlap = [\"tensor-parallel\", \"weight-gather\"]\ngradient_compression = 4\n\
            lora.targets = [\"q_proj\", \"v_proj\"]";
        assert_eq!(stated, file(expected));
    }

    #[test]
    fn a_key_that_does_not_exist_is_answered_with_the_nearest() {
        let refused = |assignment| WorkloadFile::from_assignments([assignment]).unwrap_err().to_string();
        assert_eq!(
            refused("training.precison=bf16"),
            "`training.precison`: there is no such key; did you mean `precision`?"
        );
        assert_eq!(refused("zzz=1"), "`zzz`: there is no such key");
        assert!(refused("training.micro_batch").contains("such as training.micro_batch=4"));
        assert!(refused("limits.max_nodes=-1").starts_with("`limits.max_nodes`: invalid value"));
        assert!(refused("training.compile=yes").contains("expected a boolean"));
        let section = refused("training=5");
        assert!(
            section.starts_with("`training`: invalid type") && section.contains("expected a table of keys"),
            "{section}"
        );
        assert!(refused("=5").contains("state a key and its value"));
    }
}
