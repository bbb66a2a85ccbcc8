//! The training settings of a workload file: read, checked, and completed with defaults that are listed.

use crate::assumption::{Assumption, SequenceBasis};
use crate::file::resolve::batch::{Local, global_batch};
use crate::file::resolve::latents;
use crate::file::resolve::model::ResolvedModel;
use crate::file::resolve::objective;
use crate::file::resolve::precision::{low_precision, precision};
use crate::file::resolve::task::unknown_task;
use crate::file::scalar::{choice, invalid, missing, not_among, whole};
use crate::file::{LoraSection, TrainingSection, WorkloadFileError};
use crate::model::catalog::Models;
use crate::model::pipeline::Pipeline;
use crate::model::{Model, ModelKind};
use crate::stack::Stacks;
use crate::training::objective::Objective;
use crate::training::precision::BaseWeights;
use crate::training::{
    Framework, Kernels, Lora, LoraTargets, MemorySavings, Optimizer, Overlap, Synchronization, Task, Training,
};

/// Longest sequence that a file may state, in tokens.
const LONGEST_SEQUENCE: u32 = 16_777_216;

/// Context where nothing is known: Brown et al. 2020 (arXiv 2005.14165) section 2.1.
const UNKNOWN_CONTEXT: u32 = 2048;

/// The same of an encoder, whose texts are seldom longer whatever it allows: Devlin et al. 2018 (arXiv 1810.04805) appendix A.2.
const UNKNOWN_ENCODER_CONTEXT: u32 = 512;

/// Longer sequences are stated, not assumed.
const LONGEST_ASSUMED: u32 = 4096;

const LARGEST_RANK: u32 = 65_536;
/// Rank of adapters where nothing is said.
const ASSUMED_RANK: u32 = 16;

const TASKS: [(&str, Task); 5] = [
    ("pretrain", Task::Pretrain),
    ("full-fine-tune", Task::FullFineTune),
    ("lora", Task::Lora),
    ("qlora", Task::Qlora),
    ("train", Task::Train),
];

pub(super) fn task_word(task: Task) -> &'static str {
    TASKS.iter().find(|(_, known)| *known == task).map_or("run", |(word, _)| word)
}

pub(super) fn resolve(
    section: &TrainingSection,
    network: &ResolvedModel,
    models: &Models,
    gpus: Option<u64>,
    assumed: &mut Vec<Assumption>,
) -> Result<Training, WorkloadFileError> {
    let model = &network.model;
    let task = task(section, model, assumed)?;
    if section.channels_last.is_some() && model.kind.is_transformer() {
        return Err(invalid("training.channels_last", format!("`{}` is not built of convolutions", model.name)));
    }
    let objective = objective::read(section, model)?;
    let sequence_length = sequence_length(section, network, assumed)?;
    let local = Local::read(section, objective, gpus)?;
    let mut training = Training::new(task, sequence_length);
    training.objective = objective;
    if objective == Objective::Grpo {
        assumed.push(Assumption::RolloutsApart);
    }
    training.teacher = objective::teacher(section, objective, models)?;
    training.global_batch = Some(global_batch(section, local, task, model, sequence_length, assumed)?);
    training.micro_batch = local.micro_batch;
    training.grad_accumulation = local.grad_accumulation;
    training.precision = precision(section, task, assumed)?;
    training.base_weights = base_weights(section, model, task, assumed)?;
    training.optimizer = optimizer(section, task, assumed)?;
    training.ema = section.ema.unwrap_or(false);
    training.lora = lora(&section.lora, model, task, assumed)?;
    training.latents = latents::read(section, model, assumed)?;
    training.recompute = choice("training.recompute", section.recompute.as_deref())?;
    training.dropout = section.dropout.unwrap_or(false);
    training.kernels = Kernels {
        attention: choice("training.attention", section.attention.as_deref())?,
        loss: choice("training.loss", section.loss.as_deref())?,
        compile: section.compile.unwrap_or(false),
        cuda_graphs: section.cuda_graphs.unwrap_or(false),
        channels_last: section.channels_last.unwrap_or(false),
        low_precision: low_precision(section, training.precision, assumed)?,
    };
    training.memory = MemorySavings {
        offload: choice("training.offload", section.offload.as_deref())?,
        fsdp: choice("training.fsdp", section.fsdp.as_ref().map(ToString::to_string).as_deref())?,
        optimizer_in_backward: section.optimizer_in_backward.unwrap_or(false),
        head_quantized: section.head_quantized.unwrap_or(false),
    };
    training.synchronization = synchronization(section)?;
    training.framework = framework(section)?;
    training.framework_year = section.framework_year.map(framework_year).transpose()?;
    Ok(training)
}

/// A misspelt stack would be estimated as one that nobody knows.
fn framework(section: &TrainingSection) -> Result<Framework, WorkloadFileError> {
    let (stacks, text) = (Stacks::embedded(), section.framework.as_deref().unwrap_or_default());
    stacks.framework(text).map_err(|_| not_among("training.framework", text, &stacks.ids()))
}

/// No stack is older than the first GPU with matrix units.
fn framework_year(year: u32) -> Result<u32, WorkloadFileError> {
    if (2017..2100).contains(&year) {
        return Ok(year);
    }
    Err(invalid("training.framework_year", format!("`{year}` is not a year from 2017 on, such as 2024")))
}

fn synchronization(section: &TrainingSection) -> Result<Synchronization, WorkloadFileError> {
    let overlap = section.overlap.clone().map(Overlap::try_from).transpose();
    let overlap = overlap.map_err(|why| invalid("training.overlap", why))?;
    let gradient_compression = section.gradient_compression.unwrap_or(1.0);
    if !(1.0..=1000.0).contains(&gradient_compression) {
        let detail =
            format!("`{gradient_compression}` is not a ratio from 1 to 1000: bytes of gradients over bytes sent");
        return Err(invalid("training.gradient_compression", detail));
    }
    let local_steps = section.local_steps.unwrap_or(1);
    if !(1..=100_000).contains(&local_steps) {
        return Err(invalid("training.local_steps", format!("`{local_steps}` is not a whole number from 1 to 100000")));
    }
    Ok(Synchronization { overlap, gradient_compression, local_steps })
}

fn task(section: &TrainingSection, model: &Model, assumed: &mut Vec<Assumption>) -> Result<Task, WorkloadFileError> {
    let words = TASKS.map(|(word, _)| word);
    let Some(text) = section.task.as_deref() else {
        if model.kind.counts_samples() {
            assumed.push(Assumption::Task { task: Task::Train });
            return Ok(Task::Train);
        }
        return Err(missing("training.task", format!("choose one of {}", words.join(", "))));
    };
    let word = text.trim().to_ascii_lowercase().replace('_', "-");
    let task = match word.as_str() {
        "full-ft" | "finetune" | "fine-tune" | "full-finetune" => Task::FullFineTune,
        word => TASKS
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, task)| *task)
            .ok_or_else(|| unknown_task(text, &words))?,
    };
    // U-Nets and diffusion transformers have attention, which adapters are beside.
    let is_adapted = model.kind.is_transformer()
        || model.kind == ModelKind::Diffusion && (task == Task::Lora || is_diffusion_transformer(model));
    if model.kind == ModelKind::Diffusion && task.has_adapters() && !is_adapted {
        let why =
            format!("the frozen weights of `{}` are not those of a transformer and stay in 16 bits: lora", model.name);
        return Err(invalid("training.task", why));
    }
    if task.has_adapters() && !is_adapted {
        let why = format!("`{}` adapts transformer layers, and `{}` has none", task_word(task), model.name);
        return Err(invalid("training.task", why));
    }
    Ok(task)
}

fn sequence_length(
    section: &TrainingSection,
    network: &ResolvedModel,
    assumed: &mut Vec<Assumption>,
) -> Result<u32, WorkloadFileError> {
    let key = "training.sequence_length";
    let model = &network.model;
    let is_text = !model.kind.counts_samples();
    // Beyond the positions of the model too: people stretch them, and the plan says so.
    if let Some(length) = whole(key, section.sequence_length.as_ref(), 1..=LONGEST_SEQUENCE)? {
        return Ok(length);
    }
    let (length, basis) = match (is_text, model.max_context) {
        (true, 0) if model.kind == ModelKind::Encoder => (UNKNOWN_ENCODER_CONTEXT, SequenceBasis::Bert),
        (true, 0) => (UNKNOWN_CONTEXT, SequenceBasis::Gpt3),
        (true, context) if model.kind == ModelKind::Encoder && context > UNKNOWN_ENCODER_CONTEXT => {
            (UNKNOWN_ENCODER_CONTEXT, SequenceBasis::ShorterThanModel)
        }
        (true, context) if context <= LONGEST_ASSUMED => (context, SequenceBasis::LongestOfModel),
        (true, _) => (LONGEST_ASSUMED, SequenceBasis::ShorterThanModel),
        (false, _) => match (network.native_tokens, model.kind.is_transformer(), model.sample_side) {
            (Some(tokens), ..) => (tokens, SequenceBasis::NativePatches),
            (None, false, side) if side > 0 => (side, SequenceBasis::NativeSide),
            _ => return Err(missing(key, "state it; the native size of this model's samples is not known")),
        },
    };
    assumed.push(Assumption::SequenceLength { length, basis });
    Ok(length)
}

fn base_weights(
    section: &TrainingSection,
    model: &Model,
    task: Task,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<BaseWeights>, WorkloadFileError> {
    let stated = choice("training.base_weights", section.base_weights.as_deref())?;
    if stated.is_some() && model.kind == ModelKind::Diffusion && !is_diffusion_transformer(model) {
        let why = format!("`{}` is not built of transformer layers: its frozen weights stay in 16 bits", model.name);
        return Err(invalid("training.base_weights", why));
    }
    if stated.is_some() && !task.has_adapters() {
        let why = format!("only a frozen base can be quantised, and `{}` trains it", task_word(task));
        return Err(invalid("training.base_weights", why));
    }
    if stated.is_none() && task == Task::Qlora {
        // Dettmers et al. 2023 (arXiv 2305.14314) section 3.
        let base_weights = BaseWeights::Nf4Dq;
        assumed.push(Assumption::BaseWeights { base_weights });
        return Ok(Some(base_weights));
    }
    Ok(stated)
}

fn optimizer(
    section: &TrainingSection,
    task: Task,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<Optimizer>, WorkloadFileError> {
    let stated = choice("training.optimizer", section.optimizer.as_deref())?;
    let optimizer = match (stated, task) {
        // Dettmers et al. 2023 (arXiv 2305.14314) section 3.
        (None, Task::Qlora) => Optimizer::AdamwPaged,
        (None, Task::Lora) => Optimizer::AdamwBf16,
        (stated, _) => return Ok(stated),
    };
    assumed.push(Assumption::Optimizer { optimizer });
    Ok(Some(optimizer))
}

fn is_diffusion_transformer(model: &Model) -> bool {
    model.pipeline.as_ref().is_some_and(Pipeline::is_transformer)
}

fn lora(
    section: &LoraSection,
    model: &Model,
    task: Task,
    assumed: &mut Vec<Assumption>,
) -> Result<Option<Lora>, WorkloadFileError> {
    if !task.has_adapters() {
        if *section == LoraSection::default() {
            return Ok(None);
        }
        return Err(invalid("training.lora", format!("the task is `{}`, which has no adapters", task_word(task))));
    }
    let rank = whole("training.lora.rank", section.rank.as_ref(), 1..=LARGEST_RANK)?.unwrap_or_else(|| {
        assumed.push(Assumption::LoraRank { rank: ASSUMED_RANK });
        ASSUMED_RANK
    });
    let targets = match &section.targets {
        Some(names) if names.is_empty() => {
            return Err(invalid("training.lora.targets", "it is empty, so nothing would be trained"));
        }
        Some(names) => LoraTargets::try_from(names.clone()).map_err(|why| invalid("training.lora.targets", why))?,
        // As the scripts of diffusers adapt them, such as examples/dreambooth/train_dreambooth_lora_flux.py: to_k, to_q, to_v, to_out.0.
        None if model.kind == ModelKind::Diffusion => {
            assumed.push(Assumption::LoraTargetsOfAttention);
            LoraTargets { q: true, k: true, v: true, o: true, ..LoraTargets::default() }
        }
        None => {
            // Dettmers et al. 2023 (arXiv 2305.14314) section 4.
            assumed.push(Assumption::LoraTargets);
            LoraTargets::ALL_LINEAR
        }
    };
    let dropout = section.dropout.unwrap_or_else(|| {
        assumed.push(Assumption::LoraDropout { dropout: false });
        false
    });
    Ok(Some(Lora { rank, targets, dropout }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assumption::BatchBasis;
    use crate::file::{Resolved, WorkloadFile};
    use crate::training::precision::{LowPrecision, Precision, Scaling};
    use crate::training::{AttentionKernel, FsdpStyle, LossKernel, Offload, Recompute};

    fn resolved(preset: &str, training: &str) -> Result<Resolved, WorkloadFileError> {
        let toml = format!("[model]\npreset = \"{preset}\"\n[training]\nsteps = 10\n{training}");
        WorkloadFile::parse(&toml)?.resolve(&Models::embedded().unwrap(), None)
    }

    fn refused(preset: &str, training: &str) -> String {
        resolved(preset, training).unwrap_err().to_string()
    }

    #[test]
    fn texts_of_encoders_are_short_whatever_they_allow() {
        let length = |preset: &str| resolved(preset, "task = \"full-ft\"").unwrap().workload.training.sequence_length;
        assert_eq!((length("modernbert-large"), length("bert-base"), length("llama-3.1-8b")), (512, 512, 4096));
    }

    #[test]
    fn rollouts_that_are_not_counted_are_said_to_be() {
        let is_said = |objective: &str| {
            let assumed =
                resolved("llama-3.1-8b", &format!("task = \"lora\"\nobjective = \"{objective}\"")).unwrap().assumed;
            assumed.contains(&Assumption::RolloutsApart)
        };
        assert!(is_said("grpo") && !is_said("dpo"));
    }

    #[test]
    fn qlora_follows_its_paper_and_says_so() {
        let Resolved { workload, assumed } = resolved("llama-2-7b", "task = \"qlora\"").unwrap();
        let training = workload.training;
        assert_eq!((training.precision, training.base_weights), (Precision::PureBf16, Some(BaseWeights::Nf4Dq)));
        assert_eq!((training.optimizer, training.global_batch), (Some(Optimizer::AdamwPaged), Some(16)));
        assert_eq!(training.lora, Some(Lora { rank: 16, targets: LoraTargets::ALL_LINEAR, dropout: false }));
        assert_eq!(
            assumed,
            [
                Assumption::SequenceLength { length: 4096, basis: SequenceBasis::LongestOfModel },
                Assumption::GlobalBatch { sequences: 16, basis: BatchBasis::Qlora },
                Assumption::Precision { precision: Precision::PureBf16 },
                Assumption::BaseWeights { base_weights: BaseWeights::Nf4Dq },
                Assumption::Optimizer { optimizer: Optimizer::AdamwPaged },
                Assumption::LoraRank { rank: 16 },
                Assumption::LoraTargets,
                Assumption::LoraDropout { dropout: false },
                Assumption::CheckpointInterval,
            ]
        );
    }

    #[test]
    fn a_batch_that_nobody_stated_is_that_of_a_published_recipe() {
        for (preset, training, batch, length) in [
            ("gpt-3-125m", "task = \"pretrain\"\nsequence_length = 2048", 256, 2048),
            ("gpt-3-1.3b", "task = \"pretrain\"\nsequence_length = 2048", 512, 2048),
            ("llama-3.1-8b", "task = \"pretrain\"", 512, 4096),
            ("llama-3.1-70b", "task = \"pretrain\"", 768, 4096),
            ("llama-3.1-405b", "task = \"pretrain\"", 4096, 4096),
            ("llama-3.1-8b", "task = \"full_ft\"\nsequence_length = 512", 128, 512),
            ("llama-3.1-8b", "task = \"full_ft\"\nsequence_length = 4096", 128, 4096),
            ("llama-3.1-8b", "task = \"full_ft\"\nsequence_length = 131072", 32, 131_072),
            ("llama-3.1-8b", "task = \"lora\"\nsequence_length = 100000", 16, 100_000),
            ("llama-3.1-8b", "task = \"lora\"\nsequence_length = 524288", 8, 524_288),
            ("llama-3.1-8b", "task = \"lora\"", 16, 4096),
            ("llama-3.1-8b", "task = \"lora\"\nmicro_batch = 12", 24, 4096),
            ("llama-3.1-8b", "task = \"pretrain\"\nglobal_batch_tokens = \"4M\"", 1024, 4096),
            ("bert-base", "task = \"pretrain\"", 256, 512),
            ("bert-base", "task = \"full-fine-tune\"", 32, 512),
            ("t5-large", "task = \"pretrain\"\nsequence_length = 512", 128, 512),
            ("whisper-large-v3", "task = \"pretrain\"", 256, 448),
            ("resnet-50", "", 256, 224),
            ("vit-b-16", "task = \"train\"", 4096, 197),
            ("stable-diffusion-1.5", "task = \"train\"", 256, 512),
        ] {
            let training_settings = resolved(preset, training).unwrap().workload.training;
            assert_eq!(training_settings.global_batch, Some(batch), "{preset} {training}");
            assert_eq!(training_settings.sequence_length, length, "{preset} {training}");
        }
    }

    #[test]
    fn every_setting_is_taken_as_stated() {
        let toml = "task = \"finetune\"\nsequence_length = \"8k\"\nglobal_batch = 64\nmicro_batch = 2\ngrad_accumulation = 4\n\
            precision = \"fp8\"\noptimizer = \"adamw_8bit\"\nrecompute = \"full\"\nattention = \"eager\"\nloss = \"bf16-chunked\"\n\
            compile = true\ndropout = 0.1\noffload = \"activations\"\nframework = \"torchtitan\"\noptimizer_in_backward = true\nfsdp = 2\n\
            gradient_compression = 4\nlocal_steps = 16\nfp8_attention = true\nhalf_precision_share = 0.16\nfp8_scaling = \"block\"";
        let Resolved { workload, assumed } = resolved("llama-3.1-8b", toml).unwrap();
        let training = workload.training;
        assert_eq!(
            (training.task, training.sequence_length, training.precision),
            (Task::FullFineTune, 8000, Precision::Fp8)
        );
        assert_eq!(
            (training.recompute, training.kernels.attention),
            (Some(Recompute::Full), Some(AttentionKernel::Eager))
        );
        assert_eq!(
            (training.kernels.loss, training.memory.offload),
            (Some(LossKernel::Bf16Chunked), Some(Offload::Activations))
        );
        assert_eq!((training.memory.fsdp, training.optimizer), (Some(FsdpStyle::Two), Some(Optimizer::Adamw8bit)));
        assert_eq!((training.synchronization.gradient_compression, training.synchronization.local_steps), (4.0, 16));
        let low = LowPrecision { attention: true, half_share: 0.16, scaling: Scaling::Block };
        assert_eq!((training.kernels.low_precision, training.timed_as()), (low, Precision::Mxfp8));
        assert!(
            training.kernels.compile
                && training.dropout
                && training.memory.optimizer_in_backward
                && !training.memory.head_quantized
        );
        assert_eq!(assumed.len(), 1, "{assumed:?}");
    }

    #[test]
    fn what_a_recipe_of_few_bits_leaves_open_is_told() {
        let assumed =
            |toml: &str| resolved("llama-3.1-8b", &format!("task = \"finetune\"\n{toml}")).map(|made| made.assumed);
        let of_fp8 = assumed("precision = \"fp8\"\nfp8_attention = true").unwrap();
        assert!(of_fp8.contains(&Assumption::HalfPrecisionShare { share: 0.0 }));
        assert!(of_fp8.contains(&Assumption::Fp8Scaling { scaling: Scaling::Tensor }));
        assert!(!of_fp8.contains(&Assumption::Fp8Attention { attention: false }));
        let open = assumed("precision = \"bf16\"").unwrap();
        assert!(!open.iter().any(|one| matches!(one, Assumption::HalfPrecisionShare { .. })));
        let why = assumed("precision = \"bf16\"\nfp8_scaling = \"block\"").unwrap_err().to_string();
        assert!(why.contains("training.fp8_scaling") && why.contains("only recipes in fp8"), "{why}");
    }

    #[test]
    fn positions_can_be_stretched() {
        let stretched = resolved("gpt-2", "task = \"lora\"\nsequence_length = 16384").unwrap();
        assert_eq!(stretched.workload.training.sequence_length, 16_384);
    }

    #[test]
    fn impossible_settings_are_refused_by_key() {
        let long = "`training.sequence_length`: `16777217` is not a whole number from 1 to 16777216";
        for (preset, training, message) in [
            ("gpt-2", "", "`training.task` is missing: choose one of pretrain, full-fine-tune, lora, qlora, train"),
            (
                "gpt-2",
                "task = \"lora\"\nsequence_length = 0",
                "`training.sequence_length`: `0` is not a whole number from 1 to 16777216",
            ),
            ("gpt-2", "task = \"lora\"\nsequence_length = 16777217", long),
            (
                "gpt-2",
                "task = \"lora\"\nglobal_batch = -1",
                "`training.global_batch`: `-1` is not a whole number from 1 to 1000000000",
            ),
            (
                "gpt-2",
                "task = \"lora\"\ngradient_compression = 0.5",
                "`training.gradient_compression`: `0.5` is not a ratio from 1 to 1000: bytes of gradients over bytes sent",
            ),
            (
                "gpt-2",
                "task = \"lora\"\nlocal_steps = 0",
                "`training.local_steps`: `0` is not a whole number from 1 to 100000",
            ),
            (
                "gpt-2",
                "task = \"lora\"\nlora.rank = 65537",
                "`training.lora.rank`: `65537` is not a whole number from 1 to 65536",
            ),
            (
                "resnet-50",
                "task = \"qlora\"",
                "`training.task`: `qlora` adapts transformer layers, and `resnet-50` has none",
            ),
            (
                "gpt-2",
                "task = \"inference\"",
                "`training.task`: `inference` is not known; choose one of pretrain, full-fine-tune, lora, qlora, train; \
                 a served model is stated under [serving] of a file",
            ),
            (
                "gpt-2",
                "task = \"embed\"",
                "`training.task`: `embed` trains nothing: in place of --task and --samples say --requests 1M --prompt-tokens 500, or state \
                 the same under [serving] of a file, as in examples/embed-a-billion.toml",
            ),
            (
                "gpt-2",
                "task = \"pretrain\"\nlora.rank = 8",
                "`training.lora`: the task is `pretrain`, which has no adapters",
            ),
            (
                "gpt-2",
                "task = \"pretrain\"\nbase_weights = \"nf4\"",
                "`training.base_weights`: only a frozen base can be quantised, and `pretrain` trains it",
            ),
            (
                "gpt-2",
                "task = \"pretrain\"\nglobal_batch = 10\nmicro_batch = 4",
                "`training.global_batch`: 10 sequences are not a multiple of micro_batch x grad_accumulation = 4",
            ),
            (
                "gpt-2",
                "task = \"pretrain\"\nglobal_batch = 10\nglobal_batch_tokens = 40",
                "`training.global_batch` and `training.global_batch_tokens` exclude each other",
            ),
        ] {
            assert_eq!(refused(preset, training), message);
        }
        let wrong = refused("gpt-2", "task = \"pretrain\"\nprecision = \"bf61\"");
        assert!(wrong.contains("choose one of fp32, tf32") && wrong.ends_with("did you mean `bf16`?"), "{wrong}");
        assert!(refused("gpt-2", "task = \"lora\"\nlora.targets = []").contains("nothing would be trained"));
        assert!(refused("gpt-2", "task = \"lora\"\nlora.targets = \"q,w\"").contains("`w` is not an adapter target"));
    }
}
