//! What a step minimises, whose answers it meets, and how many sequences the samples of the data are for it.

use crate::amount::Amount;
use crate::file::resolve::model::unknown_model;
use crate::file::scalar::{choice, count, invalid, missing, shown};
use crate::file::{DataSection, TrainingSection, WorkloadFileError};
use crate::model::catalog::Models;
use crate::model::{Model, ModelKind};
use crate::training::Training;
use crate::training::objective::Objective;

/// The key; what compares answers is trained on a model that writes some.
pub(super) fn read(section: &TrainingSection, model: &Model) -> Result<Objective, WorkloadFileError> {
    let key = "training.objective";
    let objective: Objective = choice(key, section.objective.as_deref())?.unwrap_or_default();
    let is_decoder = matches!(model.kind, ModelKind::Decoder | ModelKind::Moe);
    if objective == Objective::NextToken || is_decoder {
        return Ok(objective);
    }
    let stated = section.objective.as_deref().map(shown).unwrap_or_default();
    Err(invalid(key, format!("`{stated}` is estimated for language models, and `{}` is none", model.name)))
}

/// The teacher of a distillation.
pub(super) fn teacher(
    section: &TrainingSection,
    objective: Objective,
    models: &Models,
) -> Result<Option<Box<Model>>, WorkloadFileError> {
    let key = "training.teacher";
    match (objective, section.teacher.as_deref()) {
        (Objective::Distill, None) => Err(missing(key, "name the model whose answers are met, such as llama-3.1-70b")),
        (Objective::Distill, Some(name)) => {
            let Some((row, _)) = models.named(name).or_else(|| models.made_of(name)) else {
                return Err(unknown_model(name, models));
            };
            let teacher = row.to_model();
            if matches!(teacher.kind, ModelKind::Decoder | ModelKind::Moe) {
                return Ok(Some(Box::new(teacher)));
            }
            Err(invalid(key, format!("`{}` is no language model", teacher.name)))
        }
        (_, Some(_)) => Err(invalid(key, "only objective = \"distill\" has a teacher")),
        (_, None) => Ok(None),
    }
}

/// Samples as sequences: two of a pair, and as many as share one where they are packed.
pub(super) fn sequences(
    amount: Amount,
    training: &Training,
    section: &TrainingSection,
    data: &DataSection,
) -> Result<Amount, WorkloadFileError> {
    let each = count("data.tokens_per_sample", data.tokens_per_sample.as_ref())?;
    let Amount::Samples(samples) = amount else { return Ok(amount) };
    let padded = f64::from(training.objective.sequences()) * f64::from(training.sequence_length);
    match (section.packing.unwrap_or(false), each) {
        (false, _) => Ok(Amount::Samples(samples * f64::from(training.objective.sequences()))),
        // What is longer is cut off.
        (true, Some(tokens)) => Ok(Amount::Tokens(samples * tokens.min(padded))),
        (true, None) => Err(missing("data.tokens_per_sample", "how many sequences packed samples fill depends on it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::WorkloadFile;

    fn resolved(training: &str) -> Result<(Training, Amount), WorkloadFileError> {
        let toml = format!("[model]\npreset = \"llama-3.1-8b\"\n[training]\ntask = \"full-ft\"\n{training}");
        let workload = WorkloadFile::parse(&toml)?.resolve(&Models::embedded().unwrap(), None)?.workload;
        Ok((workload.training, workload.amount))
    }

    #[test]
    fn pairs_are_two_sequences_everywhere() {
        let keys = "objective = \"dpo\"\nsamples = 1000\nglobal_batch = 32\nmicro_batch = 2";
        let (training, amount) = resolved(keys).unwrap();
        assert_eq!((training.global_batch, training.micro_batch), (Some(64), Some(4)));
        assert_eq!(amount, Amount::Samples(2000.0));
        let (training, amount) = resolved("objective = \"kto\"\nsamples = 1000\nglobal_batch = 32").unwrap();
        assert_eq!((training.global_batch, amount), (Some(32), Amount::Samples(1000.0)));
        assert_eq!(resolved("objective = \"simpo\"\nsamples = 9").unwrap().0.objective, Objective::Orpo);
    }

    #[test]
    fn packed_samples_fill_as_many_tokens_as_they_have() {
        let packed = |each: &str, more: &str| {
            resolved(&format!("samples = 1000\nsequence_length = 4096\npacking = true\n{more}\n[data]\n{each}"))
        };
        assert_eq!(packed("tokens_per_sample = 500", "").unwrap().1, Amount::Tokens(500_000.0));
        assert_eq!(packed("tokens_per_sample = 9000", "").unwrap().1, Amount::Tokens(4_096_000.0));
        assert_eq!(packed("tokens_per_sample = 9000", "objective = \"dpo\"").unwrap().1, Amount::Tokens(8_192_000.0));
        assert!(
            matches!(packed("", "").unwrap_err(), WorkloadFileError::Missing { key, .. } if key == "data.tokens_per_sample")
        );
        assert_eq!(resolved("samples = 9\n[data]\ntokens_per_sample = 5").unwrap().1, Amount::Samples(9.0));
    }

    #[test]
    fn a_teacher_belongs_to_a_distillation() {
        let (training, _) = resolved("steps = 9\nobjective = \"distill\"\nteacher = \"llama-3.1-70b\"").unwrap();
        assert_eq!(training.teacher.unwrap().name, "llama-3.1-70b");
        let refused = |keys: &str| resolved(&format!("steps = 9\n{keys}")).unwrap_err().to_string();
        assert!(refused("objective = \"distill\"").contains("`training.teacher` is missing"));
        assert!(refused("teacher = \"llama-3.1-70b\"").contains("has a teacher"));
        assert!(refused("objective = \"distill\"\nteacher = \"resnet-50\"").contains("no language model"));
        assert!(refused("objective = \"dpoo\"").ends_with("did you mean `dpo`?"));
        let task = resolved("steps = 9").map(|_| ()).and(
            WorkloadFile::parse("[model]\npreset = \"gpt-2\"\n[training]\nsteps = 9\ntask = \"dpo\"")
                .unwrap()
                .resolve(&Models::embedded().unwrap(), None)
                .map(|_| ()),
        );
        assert!(task.unwrap_err().to_string().contains("--set training.objective=dpo"));
    }
}
