//! Sequences of an optimizer step: stated, counted from tokens, or what published recipes use.

use crate::assumption::{Assumption, BatchBasis};
use crate::file::TrainingSection;
use crate::file::WorkloadFileError;
use crate::file::scalar::{conflict, count, invalid, whole};
use crate::model::{Model, ModelKind};
use crate::training::Task;
use crate::training::objective::Objective;
use crate::training::usual_batch::{LARGEST_OF_GPT3, pretraining_batch_tokens};

/// Fine-tuning of all weights: the recipe of Stanford Alpaca (tatsu-lab/stanford_alpaca, README).
const FULL_FINE_TUNE_SEQUENCES: u64 = 128;

/// Adapters: Dettmers et al. 2023 (arXiv 2305.14314) table 9.
const ADAPTER_SEQUENCES: u64 = 16;

/// Most tokens of a step of a fine-tune: ProLong, which has sequences of 64 Ki and more (Gao et al. 2024, arXiv 2410.02660). Longer sequences
/// come fewer at a time.
const FINE_TUNE_TOKENS: u64 = 1 << 22;

/// Encoders: Devlin et al. 2018 (arXiv 1810.04805) appendix A.2 and A.3, of the batches for fine-tuning the larger.
const ENCODER_SEQUENCES: u64 = 256;
const ENCODER_FINE_TUNE_SEQUENCES: u64 = 32;

/// Encoder-decoders of text, trained and fine-tuned: Raffel et al. 2019 (arXiv 1910.10683) section 3.1.2.
const T5_SEQUENCES: u64 = 128;

/// Those whose encoder hears sound: Radford et al. 2022 (arXiv 2212.04356) table 17.
const SPEECH_SEQUENCES: u64 = 256;

/// Image transformers: Dosovitskiy et al. 2020 (arXiv 2010.11929) table 3.
const PATCHED_IMAGES: u64 = 4096;

/// Images: the reference minibatch of Goyal et al. 2017 (arXiv 1706.02677).
const IMAGES: u64 = 256;

/// Rounding of a batch that is no whole number of sequences moves it by at most this share.
const ROUNDING: f64 = 0.05;

pub(super) const LARGEST_BATCH: u64 = 1_000_000_000;

/// What one rank does in a step.
#[derive(Clone, Copy, Default)]
pub(super) struct Local {
    pub micro_batch: Option<u32>,
    pub grad_accumulation: Option<u32>,
    /// Sequences of a sample, of which batches are stated.
    each: u32,
    /// GPUs that are asked for, where that is one number.
    gpus: Option<u64>,
}

impl Local {
    pub fn read(section: &TrainingSection, objective: Objective, gpus: Option<u64>) -> Result<Self, WorkloadFileError> {
        let micro_batch = whole("training.micro_batch", section.micro_batch.as_ref(), 1..=1 << 20)?;
        let grad_accumulation = whole("training.grad_accumulation", section.grad_accumulation.as_ref(), 1..=1 << 20)?;
        let each = objective.sequences();
        let local = Self { micro_batch: micro_batch.map(|samples| samples * each), grad_accumulation, each, gpus };
        if local.sequences() > LARGEST_BATCH {
            return Err(invalid(
                "training.grad_accumulation",
                format!("{} sequences of one rank are too many", local.sequences()),
            ));
        }
        Ok(local)
    }

    /// Sequences of one rank in a step, as far as they are stated.
    fn sequences(self) -> u64 {
        u64::from(self.micro_batch.unwrap_or(1)) * u64::from(self.grad_accumulation.unwrap_or(1))
    }

    /// A recipe's batch in multiples of what one rank does; where it is larger than that of all GPUs and has no equal parts for them, the nearest
    /// that has.
    fn shared(self, sequences: u64) -> u64 {
        let sequences = sequences.next_multiple_of(self.sequences());
        let all = self.sequences().saturating_mul(self.gpus.unwrap_or(1).max(1));
        if sequences < all || sequences.is_multiple_of(all) {
            return sequences;
        }
        (sequences + all / 2) / all * all
    }
}

/// The number of GPUs in a choice of GPUs, where it is one: `H100:24`, and neither `H100:8..64` nor two choices.
pub(super) fn gpus_asked(choice: Option<&str>) -> Option<u64> {
    let (name, count) = choice?.rsplit_once(':')?;
    count.trim().parse().ok().filter(|_| !name.contains(','))
}

pub(super) fn global_batch(
    section: &TrainingSection,
    local: Local,
    task: Task,
    model: &Model,
    sequence_length: u32,
    assumed: &mut Vec<Assumption>,
) -> Result<u64, WorkloadFileError> {
    if section.global_batch.is_some() && section.global_batch_tokens.is_some() {
        return Err(conflict("training.global_batch", "training.global_batch_tokens"));
    }
    let stated = match whole("training.global_batch", section.global_batch.as_ref(), 1..=LARGEST_BATCH)? {
        Some(samples) => Some(("training.global_batch", samples * u64::from(local.each))),
        None => from_tokens(section, model, sequence_length, assumed)?
            .map(|sequences| ("training.global_batch_tokens", sequences)),
    };
    let Some((key, sequences)) = stated else {
        return Ok(recipe(task, model, sequence_length, local, assumed));
    };
    if !sequences.is_multiple_of(local.sequences()) {
        let rank = local.sequences();
        return Err(invalid(
            key,
            format!("{sequences} sequences are not a multiple of micro_batch x grad_accumulation = {rank}"),
        ));
    }
    Ok(sequences)
}

fn from_tokens(
    section: &TrainingSection,
    model: &Model,
    length: u32,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<u64>, WorkloadFileError> {
    let key = "training.global_batch_tokens";
    let Some(tokens) = count(key, section.global_batch_tokens.as_ref())? else { return Ok(None) };
    if model.kind.counts_samples() {
        return Err(invalid(key, "this model is trained on samples; state global_batch"));
    }
    let sequences = tokens / f64::from(length);
    if !(1.0..=LARGEST_BATCH as f64).contains(&sequences) {
        let why = format!("{tokens} tokens are {sequences:.3} sequences of {length}, outside 1 to {LARGEST_BATCH}");
        return Err(invalid(key, why));
    }
    let rounded = divisible(sequences);
    if rounded as f64 != sequences {
        assumed.push(Assumption::GlobalBatchRounded { sequences: rounded, tokens, sequence_length: length });
    }
    Ok(Some(rounded))
}

/// Sequences of a published recipe, as they are shared out over ranks.
fn recipe(task: Task, model: &Model, sequence_length: u32, local: Local, assumed: &mut Vec<Assumption>) -> u64 {
    let published = match (task, model.kind) {
        (task, _) if task.has_adapters() => Some((ADAPTER_SEQUENCES, BatchBasis::Qlora)),
        (_, ModelKind::Vit) => Some((PATCHED_IMAGES, BatchBasis::Dosovitskiy)),
        (_, kind) if kind.counts_samples() => Some((IMAGES, BatchBasis::Goyal)),
        (Task::FullFineTune, ModelKind::Encoder) => Some((ENCODER_FINE_TUNE_SEQUENCES, BatchBasis::Devlin)),
        (_, ModelKind::Encoder) => Some((ENCODER_SEQUENCES, BatchBasis::Devlin)),
        (_, ModelKind::Encdec | ModelKind::MoeEncdec) if model.encoder_tokens > 0 => {
            Some((SPEECH_SEQUENCES, BatchBasis::Radford))
        }
        (_, ModelKind::Encdec | ModelKind::MoeEncdec) => Some((T5_SEQUENCES, BatchBasis::Raffel)),
        (Task::FullFineTune, _) => Some((FULL_FINE_TUNE_SEQUENCES, BatchBasis::Alpaca)),
        _ => None,
    };
    if let Some((mut sequences, mut basis)) = published {
        // A power of two, which divides over GPUs.
        let most = 1 << (FINE_TUNE_TOKENS / u64::from(sequence_length)).max(1).ilog2();
        if matches!(basis, BatchBasis::Qlora | BatchBasis::Alpaca) && sequences > most {
            (sequences, basis) = (most, BatchBasis::ProLong);
        }
        let sequences = local.shared(sequences);
        assumed.push(Assumption::GlobalBatch { sequences, basis });
        return sequences;
    }
    let tokens = pretraining_batch_tokens(model.parameters);
    let sequences = local.shared(divisible((tokens / f64::from(sequence_length)).max(1.0)));
    assumed.push(if model.parameters > LARGEST_OF_GPT3 {
        Assumption::GlobalBatch { sequences, basis: BatchBasis::Llama3 }
    } else {
        Assumption::GlobalBatchOfGpt3 { sequences, tokens }
    });
    sequences
}

/// A whole number within `ROUNDING` of `sequences` that the largest power of two divides; a whole number stays as it is.
fn divisible(sequences: f64) -> u64 {
    if sequences.fract() == 0.0 {
        return sequences as u64;
    }
    let candidates =
        (0..=30).rev().map(|power| f64::from(1_u32 << power)).map(|step| (sequences / step).round() * step);
    let near = candidates.into_iter().find(|whole| *whole >= 1.0 && (whole / sequences - 1.0).abs() <= ROUNDING);
    near.unwrap_or_else(|| sequences.round()).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Models;
    use crate::file::WorkloadFile;
    use proptest::prelude::*;

    #[test]
    fn batches_divide_over_gpus() {
        assert_eq!(divisible(4e6 / 4096.0), 1024);
        assert_eq!(divisible(3.2e6 / 2048.0), 1536);
        assert_eq!(divisible(0.5e6 / 2048.0), 256);
        assert_eq!(divisible(977.0), 977);
        assert_eq!(divisible(1.4), 1);
    }

    /// BLOOM on its 384 GPUs and Falcon 7B on its own were refused for a batch that nobody had stated.
    #[test]
    fn a_batch_that_nobody_states_is_shared_by_the_gpus_that_are_asked_for() {
        let models = Models::embedded().unwrap();
        let batch = |model: &str, training: &str, gpus: &str| {
            let text =
                format!("model.preset = \"{model}\"\nlimits.gpus = \"{gpus}\"\n[training]\ntokens = 1e12\n{training}");
            let resolved = WorkloadFile::parse(&text).unwrap().resolve(&models, None).unwrap();
            resolved.workload.training.global_batch.unwrap()
        };
        let pretrain = "task = \"pretrain\"\nsequence_length = 2048";
        assert_eq!(batch("bloom-176b", pretrain, "A100:80GB:384"), 1536);
        assert_eq!(batch("falcon-7b", pretrain, "A100-40GB:384"), 1152);
        assert_eq!(batch("falcon-7b", pretrain, "A100-40GB:8..384"), 1024);
        assert_eq!(batch("falcon-7b", pretrain, "A100:384, H100:384"), 1024);
        assert_eq!(batch("llama-3.1-8b", "task = \"full-fine-tune\"", "H100:24"), 120);
        assert_eq!(batch("llama-3.1-8b", "task = \"full-fine-tune\"\nmicro_batch = 2", "H100:24"), 144);
        // Sixteen are fewer than the GPUs: whether tensor parallelism carries it is the planner's to say.
        assert_eq!(batch("llama-3.1-8b", "task = \"lora\"", "H100:24"), 16);
        assert_eq!(batch("llama-3.1-8b", "task = \"full-fine-tune\"\nglobal_batch = 128", "H100:24"), 128);
    }

    proptest! {
        #[test]
        fn rounding_stays_near(sequences in 20.0_f64..1e9) {
            let ratio = divisible(sequences) as f64 / sequences;
            prop_assert!((ratio - 1.0).abs() <= ROUNDING + 1e-9, "{}", ratio);
        }
    }
}
