//! The sentence of an assumption: `key=value (why)`, with the key of the workload file that states it.

use std::borrow::Cow;

use crate::sentences::sample_work::{processing_work, training_work};
use gpuplan_units::Seconds;
use gpuplan_units::names::word;
use gpuplan_units::quantity::short_count;
use gpuplan_workload::assumption::{Assumption, BatchBasis, JobAssumption, SequenceBasis};
use gpuplan_workload::model::deviations::Simplification;
use gpuplan_workload::{DataKind, MlpKind, NormKind, Optimizer, Precision, Storage};

/// One sentence for each, in the same order.
pub fn sentences(assumptions: &[Assumption]) -> Vec<String> {
    assumptions.iter().map(sentence).collect()
}

/// What was taken of a job that leaves it open.
pub fn job_sentence(assumption: &JobAssumption) -> String {
    match assumption {
        JobAssumption::OneMachine => "1 machine: the job does not say how many (--nodes N)".to_owned(),
        JobAssumption::OnDemandOnly => "on-demand machines: Slurm knows no spot".to_owned(),
        JobAssumption::MachinePerPod => "a machine for each pod".to_owned(),
        JobAssumption::NoSpotNodes => "on-demand machines: no pod asks for spot nodes".to_owned(),
        JobAssumption::PodsAtATime { parallelism, completions } => {
            format!("{parallelism} at a time of {completions} completions")
        }
        JobAssumption::RecomputeOfStack { stack, recompute } => {
            format!("recompute={}, as {stack} does when nothing is said", word(recompute))
        }
        JobAssumption::OverlapOfStack { stack } => {
            format!("gradients alone overlap, as in {stack} when nothing is said")
        }
        JobAssumption::NoAdapters => {
            "every weight is trained: the command names no adapters (--task lora says otherwise)".to_owned()
        }
        JobAssumption::EpochsOfStack { stack, epochs } => {
            format!("{epochs} epochs, as {stack} trains where nothing is said")
        }
        JobAssumption::RowsOfDataSet { name, rows } => {
            format!("{rows} rows in {name}, as published (--set data.samples=N otherwise)")
        }
        JobAssumption::RowsAtMost { rows } => {
            format!("{rows} rows, the most that the job takes of its data (--set data.samples=N if it has fewer)")
        }
        JobAssumption::BatchOfEachGpu { batch } => {
            format!("a batch of {batch} on each GPU (--set training.global_batch={batch} if it is that of all)")
        }
        JobAssumption::BatchOfAllGpus { sequences, gpus } => {
            let of = if *gpus == 1 { "GPU".to_owned() } else { format!("{gpus} GPUs") };
            format!("a global batch of {sequences}, that of its {of}")
        }
        JobAssumption::BatchOfOneGpu { sequences } => format!(
            "a global batch of {sequences}, that of one GPU: the job does not count its GPUs (--set training.global_batch=N)"
        ),
        JobAssumption::StepsAlone { steps, data: Some(data) } => {
            format!("{steps} steps: how many rows {data} has is not said (--set data.samples=N prices the epochs)")
        }
        JobAssumption::StepsAlone { steps, data: None } => {
            format!("{steps} steps: how long it trains is not said (--set training.steps=N)")
        }
        JobAssumption::ModelOfSize { name, parameters } => {
            format!(
                "a dense language model of {parameters}: `{name}` is in no catalog, and its name says no more (--model CONFIG.json)"
            )
        }
        JobAssumption::Vocabulary { tokens } => {
            format!("a vocabulary of {tokens} tokens, that of GPT-2 (--set model.vocab=N)")
        }
        JobAssumption::NominalLoad { requests_per_second, prompt_tokens, answer_tokens } => format!(
            "{requests_per_second} request a second of {prompt_tokens} tokens, answered with {answer_tokens}: the job states no load (--rps, --prompt-tokens, --answer-tokens)"
        ),
        JobAssumption::AnyGpu { gpus } => {
            format!("{gpus} of any one kind of GPU: the job names none (--gpus a100)")
        }
        JobAssumption::OneGpu => "1 GPU: the job counts none (--gpus h100:8 does)".to_owned(),
        JobAssumption::LayoutOfPlan { degrees } => {
            format!("the plan's own layout: the degrees of the job ({degrees}) are not taken over")
        }
        JobAssumption::LoraTargetsOfStack { stack, targets } => {
            format!("lora.targets={}, as {stack} does when nothing is said", Vec::<String>::from(*targets).join(","))
        }
    }
}

/// What was taken, and why, such as `lora.rank=16 (not stated)`.
pub fn sentence(assumption: &Assumption) -> String {
    let (key, why) = key_and_why(assumption);
    format!("{key}={} ({why})", value(assumption))
}

const NOT_STATED: &str = "not stated";
const ROLLOUTS_APART: &str =
    "the updates alone are counted: writing the answers is a phase of its own, as in examples/grpo-7b.toml";
const SIXTEEN_BITS: &str = "not stated: recipes keep attention in 16 bits by default";
const ENCODED_BEFORE: &str =
    "not stated: prompts and pictures are encoded once, before the training, as most trainers do";
const BY_ITS_NAME: &str = "by its name a fine-tune or another packaging of it; --config config.json knows for certain";
const ONLY_THE_SIZE: &str = "only the size is known: the shape of another model of about this size, with a wide band";
const ONLY_THE_OPERATIONS: &str =
    "only parameters and operations are known: memory traffic as in this kind, with a wide band";
const UNVERIFIED: &str = "sizes not compared with their source yet, with a wide band";

fn key_and_why(assumption: &Assumption) -> (&'static str, Cow<'static, str>) {
    let (key, why) = match *assumption {
        Assumption::Task { .. } => ("task", NOT_STATED),
        Assumption::RolloutsApart => ("rollouts", ROLLOUTS_APART),
        Assumption::SequenceLength { basis, .. } => ("sequence_length", sequence_basis(basis)),
        Assumption::GlobalBatch { sequences, basis } => return ("global_batch", recipe(sequences, basis)),
        Assumption::GlobalBatchOfGpt3 { tokens, .. } => return ("global_batch", batch_of_gpt3(tokens)),
        Assumption::GlobalBatchRounded { tokens, sequence_length, .. } => {
            return ("global_batch", rounded_batch(tokens, sequence_length));
        }
        Assumption::Precision { precision } => ("precision", precision_basis(precision)),
        Assumption::Fp8Attention { .. } => ("fp8_attention", SIXTEEN_BITS),
        Assumption::HalfPrecisionShare { .. } => ("half_precision_share", "not stated: every linear layer in few bits"),
        Assumption::Fp8Scaling { .. } => ("fp8_scaling", "not stated: one scale a tensor"),
        Assumption::BaseWeights { .. } => ("base_weights", "QLoRA, arXiv 2305.14314 section 3"),
        Assumption::Optimizer { optimizer } => ("optimizer", optimizer_basis(optimizer)),
        Assumption::LoraRank { .. } => ("lora.rank", NOT_STATED),
        Assumption::LoraTargets => ("lora.targets", "QLoRA, arXiv 2305.14314 section 4"),
        Assumption::LoraTargetsOfAttention => ("lora.targets", "not stated: as diffusers' scripts adapt attention"),
        Assumption::Frames { .. } => ("frames", "not stated: as many as the model was made for"),
        Assumption::CachedLatents => ("cache_latents", ENCODED_BEFORE),
        Assumption::LoraDropout { .. } => ("lora.dropout", NOT_STATED),
        Assumption::CheckpointInterval => ("checkpoint.interval", "the cheapest for the risk of the machines"),
        Assumption::SweepParallel { .. } => ("sweep.parallel", "not stated: as many as a machine has room for"),
        Assumption::SweepGpusPerRun { .. } => ("sweep.gpus_per_run", "not stated: a whole card for each run"),
        Assumption::ModelKind { .. } => ("kind", NOT_STATED),
        Assumption::Mlp { mlp } => ("mlp", as_in(mlp == MlpKind::Glu)),
        Assumption::Norm { norm } => ("norm", as_in(norm == NormKind::Rms)),
        Assumption::TiedEmbeddings { tied } => ("tied_embeddings", as_in(!tied)),
        Assumption::KvHeads { .. } => ("kv_heads", "as many as heads"),
        Assumption::HeadDim { .. } => ("head_dim", "hidden / heads"),
        Assumption::ModelOfCache { .. } => ("model", "its config.json in the cache of huggingface_hub"),
        Assumption::ModelOfName { .. } => ("model", BY_ITS_NAME),
        Assumption::ModelShape { .. } => ("model", ONLY_THE_SIZE),
        Assumption::ModelTraffic { .. } => ("model.kind", ONLY_THE_OPERATIONS),
        Assumption::ModelUnverified { ref source, .. } => return ("model", format!("{UNVERIFIED}: {source}").into()),
        Assumption::Parameters { replaces_own, .. } => ("parameters", sizes_basis(replaces_own)),
        Assumption::Simplified { simplification } => ("model", simplified(simplification)),
        Assumption::DataSize { .. } => ("data.size", "not stated: no time and no money is counted for moving data"),
        Assumption::DataStorage { storage } => ("data.storage", storage_basis(storage)),
        Assumption::DataFrameHeight { .. } => ("data.frame_height", "not stated: lines of a frame"),
        Assumption::DataFiles { data_kind, .. } => ("data.files", files_basis(data_kind)),
        Assumption::DataDiskLink => ("data.disk_link", "outside AWS nobody says what a machine sustains of its disks"),
        Assumption::DataWorkers => ("data.workers", NOT_STATED),
        Assumption::DataCpuPerSample { work, .. } => return ("data.cpu_seconds_per_sample", training_work(work)),
        Assumption::ProcessingReads { .. } => ("processing.reads", NO_READING),
        Assumption::ProcessingWrites { .. } => ("processing.writes", NO_STORING),
        Assumption::ProcessingPixels { .. } => ("processing.pixels", "not stated: side of the pictures that are made"),
        Assumption::ProcessingShard { .. } => {
            ("processing.shard", "not stated: work of a machine that is stored, or lost, together; judged")
        }
        Assumption::ProcessingCpuPerSample { work, .. } => {
            return ("processing.cpu_seconds_per_sample", processing_work(work));
        }
        Assumption::ServingLatency { writes_tokens } => ("serving.time_to_first_token", latency_basis(writes_tokens)),
        Assumption::ServingHours { .. } => ("serving.hours", "not stated: a whole month, day and night"),
        Assumption::ServingEngine { .. } => ("serving.engine", NOT_STATED),
        Assumption::ServingWeights { .. } => ("serving.weights", AS_PUBLISHED),
        Assumption::ServingKvCache { .. } => ("serving.kv_cache", AS_PUBLISHED),
        Assumption::ServingSteps { .. }
        | Assumption::ServingGuidance { .. }
        | Assumption::ServingResolution { .. }
        | Assumption::ServingAvailability { .. }
        | Assumption::ServingAudio { .. }
        | Assumption::ServingTranscript { .. }
        | Assumption::ServingBeams { .. }
        | Assumption::ServingParts { .. } => return serving_key_and_why(assumption),
    };
    (key, why.into())
}

/// Of a diffusion model that makes images, and of what users of a service see.
fn serving_key_and_why(assumption: &Assumption) -> (&'static str, Cow<'static, str>) {
    match assumption {
        Assumption::ServingSteps { source, .. } => ("serving.steps", format!("not stated; {source}").into()),
        Assumption::ServingGuidance { source, .. } => ("serving.guidance", format!("not stated; {source}").into()),
        Assumption::ServingParts { text_encoders } => ("serving", parts_basis(text_encoders.is_empty()).into()),
        Assumption::ServingResolution { .. } => {
            ("serving.resolution", "not stated: the side that the model was made for".into())
        }
        Assumption::ServingAudio { overlaps: true, .. } => (
            "serving.audio_seconds",
            "not stated: new sound of a window; transformers' pipeline hears a third of each a second time".into(),
        ),
        Assumption::ServingAudio { .. } => (
            "serving.audio_seconds",
            "not stated: all that the model hears at once; shorter sound costs as much".into(),
        ),
        Assumption::ServingTranscript { .. } => {
            ("serving.answer_tokens", "not stated: tokens of so much English speech, without silence".into())
        }
        Assumption::ServingBeams { .. } => ("serving.beams", "not stated: the engine's default".into()),
        _ => {
            let why = "not stated: share of time that enough replicas run, which spot has to keep";
            ("serving.availability", why.into())
        }
    }
}

fn parts_basis(are_unknown: bool) -> &'static str {
    if are_unknown {
        "beside the network for an image; its text encoders are not known, so that neither their memory nor their time is counted"
    } else {
        "beside the network for an image, in 16 bits, by their published sizes"
    }
}

const NO_READING: &str = "not stated: no time is counted for reading samples";
const NO_STORING: &str = "not stated: no time is counted for storing results";
const AS_PUBLISHED: &str = "not stated: as the model is published";

fn value(assumption: &Assumption) -> String {
    match *assumption {
        Assumption::Task { task } => word(task),
        Assumption::RolloutsApart => "apart".to_owned(),
        Assumption::SequenceLength { length, .. } => length.to_string(),
        Assumption::GlobalBatch { sequences, .. }
        | Assumption::GlobalBatchOfGpt3 { sequences, .. }
        | Assumption::GlobalBatchRounded { sequences, .. } => sequences.to_string(),
        Assumption::Precision { precision } => word(precision),
        Assumption::Fp8Attention { attention } => attention.to_string(),
        Assumption::HalfPrecisionShare { share } => share.to_string(),
        Assumption::Fp8Scaling { scaling } => word(scaling),
        Assumption::BaseWeights { base_weights } => word(base_weights),
        Assumption::Optimizer { optimizer } => word(optimizer),
        Assumption::LoraRank { rank } => rank.to_string(),
        Assumption::LoraTargets => "all-linear".to_owned(),
        Assumption::LoraTargetsOfAttention => "q k v o".to_owned(),
        Assumption::Frames { frames } => frames.to_string(),
        Assumption::CachedLatents => true.to_string(),
        Assumption::LoraDropout { dropout } => dropout.to_string(),
        Assumption::CheckpointInterval => "choose".to_owned(),
        Assumption::SweepParallel { runs } => runs.to_string(),
        Assumption::SweepGpusPerRun { gpus } => gpus.to_string(),
        Assumption::ModelKind { model_kind } | Assumption::ModelTraffic { model_kind } => word(model_kind),
        Assumption::Mlp { mlp } => word(mlp),
        Assumption::Norm { norm } => word(norm),
        Assumption::TiedEmbeddings { tied } => tied.to_string(),
        Assumption::KvHeads { heads } => heads.to_string(),
        Assumption::HeadDim { elements } => elements.to_string(),
        Assumption::ModelOfCache { ref name }
        | Assumption::ModelOfName { like: ref name }
        | Assumption::ModelUnverified { ref name, .. } => name.clone(),
        Assumption::ModelShape { ref like, layers } => format!("{like} with {layers} layers"),
        Assumption::Parameters { parameters, .. } => short_count(parameters),
        Assumption::Simplified { simplification } => simplified_part(simplification),
        Assumption::DataStorage { storage } => word(storage),
        Assumption::DataFrameHeight { lines } => lines.to_string(),
        Assumption::DataFiles { files, .. } => word(files),
        Assumption::DataDiskLink => "unlimited".to_owned(),
        Assumption::DataWorkers => "every vCPU but one a GPU".to_owned(),
        Assumption::DataCpuPerSample { seconds, .. } | Assumption::ProcessingCpuPerSample { seconds, .. } => {
            two_figures(seconds)
        }
        Assumption::DataSize { bytes }
        | Assumption::ProcessingReads { bytes }
        | Assumption::ProcessingWrites { bytes } => format!("{}B", bytes.0),
        Assumption::ProcessingPixels { side } => side.to_string(),
        Assumption::ProcessingShard { seconds } => format!("{}m", seconds.0 / 60.0),
        Assumption::ServingLatency { .. } => "any".to_owned(),
        Assumption::ServingHours { hours } => hours.0.to_string(),
        Assumption::ServingEngine { engine } => word(engine),
        Assumption::ServingWeights { format } | Assumption::ServingKvCache { format } => word(format),
        Assumption::ServingAvailability { share } => share.to_string(),
        Assumption::ServingSteps { steps, .. } => steps.to_string(),
        Assumption::ServingGuidance { guidance, .. } => guidance.to_string(),
        Assumption::ServingResolution { side } => side.to_string(),
        Assumption::ServingAudio { seconds, .. } => two_figures(seconds),
        Assumption::ServingTranscript { tokens } => tokens.to_string(),
        Assumption::ServingBeams { beams } => beams.to_string(),
        Assumption::ServingParts { ref text_encoders } => {
            let words = text_encoders.iter().map(|encoder| encoder.word()).chain(["the decoder of AutoencoderKL"]);
            words.collect::<Vec<&str>>().join(", ")
        }
    }
}

fn simplified_part(simplification: Simplification) -> String {
    match simplification {
        Simplification::SlidingWindow { layers, of, tokens } => {
            format!("{layers} of {of} layers attend to {tokens} tokens at most")
        }
        Simplification::Recurrent { layers, of } => format!("{layers} of {of} layers have a recurrence for attention"),
        Simplification::OtherParts { parameters } => format!("{} in other parts", short_count(parameters)),
    }
}

fn simplified(simplification: Simplification) -> &'static str {
    match simplification {
        Simplification::SlidingWindow { .. } => {
            "estimated with full attention: an upper limit for long texts, in time and in memory"
        }
        Simplification::Recurrent { .. } => {
            "their weights are counted, scores and cache as if they had attention: an upper limit for long texts"
        }
        Simplification::OtherParts { .. } => {
            "such as a tower for images or sound: counted in memory, and no work is estimated for them"
        }
    }
}

fn sequence_basis(basis: SequenceBasis) -> &'static str {
    match basis {
        SequenceBasis::Gpt3 => {
            "the model's longest sequence is not known; GPT-3 had this, arXiv 2005.14165 section 2.1"
        }
        SequenceBasis::Bert => {
            "the encoder's longest sequence is not known; BERT had this, arXiv 1810.04805 appendix A.2"
        }
        SequenceBasis::LongestOfModel => "the model's longest",
        SequenceBasis::ShorterThanModel => "the model allows more, at a higher price",
        SequenceBasis::NativePatches => "patches and class token of the native image",
        SequenceBasis::NativeSide => "side of the native image",
    }
}

fn batch_basis(basis: BatchBasis) -> &'static str {
    match basis {
        BatchBasis::Qlora => "QLoRA, arXiv 2305.14314 table 9",
        BatchBasis::Goyal => "reference minibatch of Goyal et al., arXiv 1706.02677",
        BatchBasis::Alpaca => "recipe of Stanford Alpaca",
        BatchBasis::ProLong => "4M tokens, as ProLong, arXiv 2410.02660",
        BatchBasis::Devlin => "recipe of BERT, arXiv 1810.04805 appendix A",
        BatchBasis::Raffel => "recipe of T5, arXiv 1910.10683 section 3.1.2",
        BatchBasis::Radford => "recipe of Whisper, arXiv 2212.04356 table 17",
        BatchBasis::Dosovitskiy => "recipe of ViT, arXiv 2010.11929 table 3",
        BatchBasis::Llama3 => "16M tokens, as Llama 3 405B, arXiv 2407.21783 section 3.4.1",
    }
}

/// Recipes have powers of two.
fn recipe(sequences: u64, basis: BatchBasis) -> Cow<'static, str> {
    let basis = batch_basis(basis);
    if sequences.is_power_of_two() { basis.into() } else { format!("{basis}, rounded to divide over GPUs").into() }
}

fn batch_of_gpt3(tokens: f64) -> Cow<'static, str> {
    let recipe = format!("{}M tokens at this size in GPT-3", tokens / 1e6);
    format!("{recipe}, arXiv 2005.14165 table 2.1, rounded to divide over GPUs").into()
}

fn rounded_batch(tokens: f64, sequence_length: u32) -> Cow<'static, str> {
    let stated = format!("{tokens} tokens in sequences of {sequence_length}");
    format!("{stated}, rounded by at most 5 % to divide over GPUs").into()
}

fn precision_basis(precision: Precision) -> &'static str {
    if precision == Precision::PureBf16 {
        "QLoRA computes in bf16 over a frozen base, arXiv 2305.14314"
    } else {
        NOT_STATED
    }
}

fn optimizer_basis(optimizer: Optimizer) -> &'static str {
    if optimizer == Optimizer::AdamwPaged {
        "QLoRA, arXiv 2305.14314 section 3; its states are of the adapters alone"
    } else {
        "its states are of the adapters alone"
    }
}

fn as_in(is_modern: bool) -> &'static str {
    if is_modern { "as in Llama" } else { "as in BERT" }
}

fn sizes_basis(replaces_own: bool) -> &'static str {
    if replaces_own { "counted from the sizes that replace the model's own" } else { "counted from the sizes" }
}

fn storage_basis(storage: Storage) -> &'static str {
    match storage {
        Storage::Disk | Storage::NetworkDisk => "not stated: local NVMe where it holds the data, else a network disk",
        Storage::ObjectStore => "not stated: each sample is read once from where it lies",
    }
}

fn files_basis(data_kind: Option<DataKind>) -> &'static str {
    match data_kind {
        Some(_) => "not stated: what is usual for this kind",
        None => "not stated, and the data has no kind: many samples in a file",
    }
}

fn latency_basis(writes_tokens: bool) -> &'static str {
    if writes_tokens {
        "not stated: no target for the first token, as long as the machines keep up"
    } else {
        "not stated: no target for the answer, as long as the machines keep up"
    }
}

/// Seconds with two significant figures.
fn two_figures(seconds: Seconds) -> String {
    let digits = (1 - seconds.0.log10().floor() as i32).clamp(0, 12) as usize;
    format!("{:.digits$}", seconds.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuplan_units::{Bytes, Hours};
    use gpuplan_workload::assumption::SampleWork;
    use gpuplan_workload::file::WorkloadFile;
    use gpuplan_workload::{Models, Task};

    fn of(text: &str) -> Vec<String> {
        sentences(&WorkloadFile::parse(text).unwrap().resolve(&Models::embedded().unwrap(), None).unwrap().assumed)
    }

    #[test]
    fn defaults_are_named_by_their_key_with_their_source() {
        assert_eq!(
            of("model.preset = \"llama-2-7b\"\ntraining = { task = \"qlora\", steps = 10 }"),
            [
                "sequence_length=4096 (the model's longest)",
                "global_batch=16 (QLoRA, arXiv 2305.14314 table 9)",
                "precision=pure-bf16 (QLoRA computes in bf16 over a frozen base, arXiv 2305.14314)",
                "base_weights=nf4-dq (QLoRA, arXiv 2305.14314 section 3)",
                "optimizer=adamw-paged (QLoRA, arXiv 2305.14314 section 3; its states are of the adapters alone)",
                "lora.rank=16 (not stated)",
                "lora.targets=all-linear (QLoRA, arXiv 2305.14314 section 4)",
                "lora.dropout=false (not stated)",
                "checkpoint.interval=choose (the cheapest for the risk of the machines)",
            ]
        );
        let batch = &of("model.preset = \"gpt-3-125m\"\ntraining = { task = \"pretrain\", steps = 10 }")[1];
        assert_eq!(
            batch,
            "global_batch=256 (0.5M tokens at this size in GPT-3, arXiv 2005.14165 table 2.1, rounded to divide over GPUs)"
        );
    }

    #[test]
    fn of_a_diffusion_model_it_is_said_what_it_is_trained_on() {
        let said = of("model.preset = \"wan2.1-t2v-14b\"\ntraining = { task = \"lora\", steps = 10 }").join("\n");
        for part in
            ["frames=81 (not stated: as many", "cache_latents=true (not stated: prompts", "lora.targets=q k v o (not"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn figures_are_those_of_the_assumption() {
        let image = SampleWork::CompressedImage { format: DataKind::Jpeg, bytes: Bytes(117_080.0), side_pixels: 224.0 };
        for (assumption, text) in [
            (Assumption::Task { task: Task::Train }, "task=train (not stated)"),
            (
                Assumption::Parameters { parameters: 4.54e9, replaces_own: true },
                "parameters=4.54B (counted from the sizes that replace the model's own)",
            ),
            (
                Assumption::ServingHours { hours: Hours(730.0) },
                "serving.hours=730 (not stated: a whole month, day and night)",
            ),
            (
                Assumption::ProcessingShard { seconds: Seconds(600.0) },
                "processing.shard=10m (not stated: work of a machine that is stored, or lost, together; judged)",
            ),
            (
                Assumption::DataSize { bytes: Bytes(0.0) },
                "data.size=0B (not stated: no time and no money is counted for moving data)",
            ),
            (
                Assumption::DataCpuPerSample { seconds: Seconds(0.004_57), work: image },
                "data.cpu_seconds_per_sample=0.0046 (jpeg of 117 kB cropped to 224 px with Pillow, on one core; published rates, docs/input.md)",
            ),
            (
                Assumption::ProcessingCpuPerSample {
                    seconds: Seconds(12.3),
                    work: SampleWork::Text { bytes: Some(Bytes(4200.0)) },
                },
                "processing.cpu_seconds_per_sample=12 (4.2 kB split into tokens by Hugging Face tokenizers, on one core; its published rate)",
            ),
        ] {
            assert_eq!(sentence(&assumption), text);
        }
    }

    #[test]
    fn an_assumption_is_read_back_as_it_was_written() {
        let assumption = Assumption::DataCpuPerSample { seconds: Seconds(0.25), work: SampleWork::Audio };
        let json = serde_json::to_value(&assumption).unwrap();
        let expected = serde_json::json!({
            "kind": "data-cpu-per-sample", "seconds": 0.25, "work": { "kind": "audio" }
        });
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<Assumption>(json).unwrap(), assumption);
    }
}
