//! `WorkloadFile`: what to run as a person writes it, in TOML or as flags laid over it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::error::{WorkloadFileError, unknown_key};
use crate::file::foreign::ForeignFormat;
use crate::file::scalar::invalid;
use crate::file::sections::{
    CheckpointSection, DataSection, LimitsSection, ModelSection, PhaseSection, ProcessingSection, ServingSection,
    SweepSection, TrainingSection,
};

/// A workload as written. Everything may be absent, so that flags and files have one type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadFile {
    pub name: Option<String>,
    pub model: ModelSection,
    pub training: TrainingSection,
    #[serde(skip_serializing_if = "ServingSection::is_empty")]
    pub serving: ServingSection,
    /// Work for machines without GPU, in place of training and serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing: Option<ProcessingSection>,
    pub data: DataSection,
    pub checkpoint: CheckpointSection,
    #[serde(skip_serializing_if = "SweepSection::is_empty")]
    pub sweep: SweepSection,
    pub limits: LimitsSection,
    /// Parts that run one after the other, each on machines of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phase: Vec<PhaseSection>,
}

impl WorkloadFile {
    pub fn parse(text: &str) -> Result<Self, WorkloadFileError> {
        // A table that was read has keys; what is no TOML at all may be another format.
        toml::from_str(text).map_err(|error| {
            match ForeignFormat::detect(text).filter(|_| unknown_key(error.message()).is_none()) {
                Some(format) => WorkloadFileError::Foreign { format },
                None => syntax_error(text, &error),
            }
        })
    }

    /// The stated name, checked; else a made one.
    pub(super) fn name_or(&self, made: impl FnOnce() -> String) -> Result<String, WorkloadFileError> {
        match self.name.as_deref().map(str::trim) {
            Some("") => Err(invalid("name", "it is empty")),
            Some(name) if name.chars().count() > 200 => Err(invalid("name", "it is longer than 200 characters")),
            Some(name) => Ok(name.to_owned()),
            None => Ok(made()),
        }
    }
}

fn syntax_error(text: &str, error: &toml::de::Error) -> WorkloadFileError {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..at).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let detail = error.message().trim().replace('\n', "; ");
    let suggestion = unknown_key(&detail).and_then(|(_, known)| known).map(str::to_owned);
    let (line, column) = (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
    WorkloadFileError::Syntax { line, column, detail, suggestion }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Resolved;
    use crate::model::catalog::Models;
    use crate::model::huggingface::read_config;
    use crate::training::Task;
    use proptest::prelude::*;

    const PRETRAIN: &str = r#"
name = "my-8b"
[model]
preset = "llama-3.1-8b"
[training]
task = "pretrain"
tokens = "300B"
sequence_length = 8192
global_batch_tokens = "4M"
[data]
size = "1.2TB"
place = "aws/us-east-1"
[checkpoint]
size = "110GB"
interval = "choose"
[limits]
deadline = 2026-12-24T12:00:00Z
budget = 250000
max_price = 2.5
clouds = ["aws", "gcp"]
regions = "us-east-1, us-west-2"
gpus = "H100:8..64"
max_nodes = 8
"#;
    const LORA: &str = r#"
[model]
config = "models/config.json"
index = "models/model.safetensors.index.json"
[training]
task = "lora"
epochs = 3
[training.lora]
rank = 8
targets = ["q_proj", "v_proj"]
dropout = 0.05
[data]
samples = 52_002
"#;
    const SIZES: &str = r#"
[model]
kind = "moe"
parameters = "46.7B"
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
ffn_hidden = 14336
vocab = 32000
experts = 8
experts_per_token = 2
[training]
task = "full-ft"
samples = "1M"
fsdp = 2
"#;
    const VISION: &str =
        "[model]\npreset = \"resnet-50\"\n[training]\ntask = \"train\"\nepochs = 90\n[data]\nsamples = 1_281_167\n";

    #[test]
    fn what_was_read_can_be_written_and_read_again() {
        for text in [PRETRAIN, LORA, SIZES, VISION, ""] {
            let file = WorkloadFile::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let written = toml::to_string(&file).unwrap();
            assert_eq!(WorkloadFile::parse(&written).unwrap(), file, "{written}");
        }
        let limits = WorkloadFile::parse(PRETRAIN).unwrap().limits;
        assert_eq!((limits.budget.as_deref(), limits.max_price.as_deref()), (Some("250000"), Some("2.5")));
        assert_eq!(limits.deadline.as_deref(), Some("2026-12-24T12:00:00Z"));
        assert_eq!(limits.regions, ["us-east-1", "us-west-2"]);
    }

    #[test]
    fn every_type_of_example_resolves() {
        let models = Models::embedded().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/huggingface/llama.json");
        let read = || Some(read_config(&std::fs::read(path).unwrap()[..], "local").unwrap());
        for (text, task, name) in [
            (PRETRAIN, Task::Pretrain, "my-8b"),
            (LORA, Task::Lora, "local-lora"),
            (SIZES, Task::FullFineTune, "custom-full-fine-tune"),
            (VISION, Task::Train, "resnet-50-train"),
        ] {
            let resolved = WorkloadFile::parse(text).unwrap().resolve(&models, read()).unwrap();
            assert_eq!((resolved.workload.training.task, resolved.workload.name.as_str()), (task, name));
        }
    }

    #[test]
    fn a_wrong_line_is_pointed_at() {
        let error = WorkloadFile::parse("[training]\ntask = \"lora\"\n  precison = \"bf16\"\n").unwrap_err();
        let WorkloadFileError::Syntax { line, column, detail, suggestion } = error else { panic!("{error}") };
        assert_eq!((line, column, suggestion.as_deref()), (3, 3, Some("precision")));
        assert!(detail.starts_with("unknown field `precison`"), "{detail}");
        let at = |text: &str| match WorkloadFile::parse(text).unwrap_err() {
            WorkloadFileError::Syntax { line, column, detail, .. } => (line, column, detail),
            other => panic!("{other}"),
        };
        assert_eq!((at("name = \"\u{e4}\"\ntokens").0, at("a = ").0), (2, 1));
        let (line, column, detail) = at("[training]\ntokens = [1]\n");
        assert_eq!((line, column, detail.as_str()), (2, 10, "expected a number or text, found an array"));
        assert_eq!(at("limits.max_nodes = -1").0, 1);
        assert_eq!(at("name = \"a\"\nname = \"b\"").0, 2);
        assert!(matches!(WorkloadFile::parse(&"[".repeat(100_000)), Err(WorkloadFileError::Foreign { .. })));
        at(&format!("name = {}", "[".repeat(100_000)));
        at(&"a.".repeat(100_000));
    }

    /// What is read is written and read again; what is refused is refused at a place in the text.
    fn read_or_refused(text: &str) -> Result<Option<WorkloadFile>, TestCaseError> {
        match WorkloadFile::parse(text) {
            Ok(file) => {
                let written = toml::to_string(&file).unwrap();
                let again = WorkloadFile::parse(&written).map(|again| toml::to_string(&again).unwrap());
                prop_assert_eq!(again, Ok(written));
                Ok(Some(file))
            }
            Err(WorkloadFileError::Syntax { line, column, detail, .. }) => {
                let told = text.split('\n').nth(line - 1).is_some_and(|line| column <= line.chars().count() + 1);
                prop_assert!(told && !detail.is_empty(), "line {line}, column {column}: {detail}");
                Ok(None)
            }
            Err(WorkloadFileError::Foreign { .. }) => Ok(None),
            Err(other) => Err(TestCaseError::fail(other.to_string())),
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\PC|\n){0,120}") {
            read_or_refused(&text)?;
        }

        #[test]
        fn any_damage_to_a_file_is_read_or_refused(at in 0..SIZES.len(), junk in "\\PC{0,4}") {
            let text = format!("{}{junk}{}", &SIZES[..at], &SIZES[(at + 3).min(SIZES.len())..]);
            if let Some(file) = read_or_refused(&text)? {
                match file.resolve(&Models::embedded().unwrap(), None) {
                    Ok(Resolved { workload, .. }) => {
                        prop_assert!(workload.model.parameters.is_finite() && workload.model.parameters > 0.0);
                        prop_assert!(workload.training.sequence_length > 0 && workload.training.global_batch.unwrap() > 0);
                    }
                    Err(error) => prop_assert!(error.to_string().contains('`'), "{error}"),
                }
            }
        }
    }
}
