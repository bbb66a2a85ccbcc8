//! What a job leaves open of its work, and what is taken for it so that it has a price at once. Nothing is taken unsaid.

use crate::JobRequest;
use crate::degrees::is_split;
use gpuplan_workload::Models;
use gpuplan_workload::assumption::JobAssumption;
use gpuplan_workload::file::{ModelSection, Scalar, ServingSection, TrainingSection, WorkloadFile};

/// Steps that are priced where nobody says how many there are: enough that starting up is a small part of them. Judgement.
const STEPS: u32 = 1000;
/// The vocabulary of GPT-2, 50,257 tokens (Radford et al. 2019, section 2.2), as Megatron-LM pads it (`make_vocab_size_divisible_by`, 128).
const VOCABULARY: u32 = 50_304;
/// Tokens of prompt and answer of the first scenario of InferenceX (SemiAnalysis), whose runs are in benchmarks/serving.
const TOKENS: u32 = 1024;

/// Completes the work of a job, where it says that there is some.
pub fn complete(file: &mut WorkloadFile, asked: &JobRequest, models: &Models) -> Vec<JobAssumption> {
    let mut assumed = Vec::new();
    if file.model == ModelSection::default() {
        return assumed;
    }
    // A script that trains and serves is priced for its training.
    if file.training.task.is_some() {
        file.serving = ServingSection::default();
    }
    if file.serving.is_empty() {
        if asked.trains || says_training(&file.training) {
            batch(&mut file.training, asked, &mut assumed);
            train(file, asked.data_set(), &mut assumed);
        }
    } else {
        file.training = TrainingSection::default();
        serve(file, asked, models, &mut assumed);
    }
    assumed
}

/// Whether a command has settings that only training needs. A model alone may be evaluated, converted or asked.
pub fn says_training(training: &TrainingSection) -> bool {
    let numbers = [
        &training.steps,
        &training.samples,
        &training.tokens,
        &training.epochs,
        &training.micro_batch,
        &training.global_batch,
        &training.grad_accumulation,
        &training.lora.rank,
    ];
    let words = [&training.task, &training.optimizer, &training.recompute, &training.objective];
    numbers.into_iter().any(Option::is_some) || words.into_iter().any(Option::is_some)
}

/// What each GPU takes times how many there are. A parser's own defaults, a micro-batch of one and no accumulation, are none of the job's.
fn batch(training: &mut TrainingSection, asked: &JobRequest, assumed: &mut Vec<JobAssumption>) {
    let whole =
        |number: &Option<Scalar>| number.as_ref().map_or(Some(1), |number| number.to_string().parse::<u64>().ok());
    let is_split = asked.no_effect.iter().chain(&asked.unread).any(is_split);
    // `--gradient_accumulation_steps $STEPS`: as many as only a run would tell.
    let is_open =
        training.grad_accumulation.is_none() && asked.unread.iter().any(|one| one.plain_key().contains("accum"));
    if is_split
        || is_open
        || training.micro_batch.is_none()
        || training.global_batch.is_some()
        || training.global_batch_tokens.is_some()
    {
        return;
    }
    let each = whole(&training.micro_batch).zip(whole(&training.grad_accumulation)).and_then(|(a, b)| a.checked_mul(b));
    // Steps of a recipe's batch would be another work than that of the job: it is as much as one GPU does, and may be more.
    let (replicas, taken) = match (asked.replicas(), asked.gpus()) {
        (Some(replicas), Some(gpus)) => (replicas, Some(gpus)),
        (_, None) if asked.choices.is_empty() => (1, None),
        _ => return,
    };
    if let Some(sequences) = each.and_then(|each| each.checked_mul(u64::from(replicas))) {
        training.global_batch = Some(sequences.to_string().into());
        assumed.push(match taken {
            Some(gpus) => JobAssumption::BatchOfAllGpus { sequences, gpus },
            None => JobAssumption::BatchOfOneGpu { sequences },
        });
    }
}

fn train(file: &mut WorkloadFile, data: Option<&str>, assumed: &mut Vec<JobAssumption>) {
    let (model, training) = (&mut file.model, &mut file.training);
    let has_sizes = model.layers.is_some();
    if has_sizes && model.preset.is_none() && model.vocab.is_none() {
        model.vocab = Some(VOCABULARY.to_string().into());
        assumed.push(JobAssumption::Vocabulary { tokens: VOCABULARY });
    }
    if training.task.is_none() && (model.preset.is_some() || model.parameters.is_some()) {
        training.task = Some("full-fine-tune".to_owned());
        assumed.push(JobAssumption::NoAdapters);
    }
    let is_counted = training.steps.is_some() || training.samples.is_some() || training.tokens.is_some();
    let has_epochs = training.epochs.is_some();
    if is_counted || (has_epochs && (file.data.samples.is_some() || file.data.tokens.is_some())) {
        return;
    }
    training.epochs = None;
    training.steps = Some(STEPS.to_string().into());
    let data = has_epochs.then(|| data.map_or_else(|| "its data set".to_owned(), |name| format!("`{name}`")));
    assumed.push(JobAssumption::StepsAlone { steps: STEPS, data });
}

fn serve(file: &mut WorkloadFile, asked: &JobRequest, models: &Models, assumed: &mut Vec<JobAssumption>) {
    let serving = &mut file.serving;
    let stated = [
        &serving.requests_per_second,
        &serving.tokens_per_day,
        &serving.images_per_second,
        &serving.audio_hours_per_day,
        &serving.requests,
        &serving.tokens,
        &serving.images,
        &serving.audio_hours,
    ];
    if stated.into_iter().any(Option::is_some) {
        return;
    }
    let row = file.model.preset.as_deref().and_then(|name| models.named(name)).map(|(row, _)| row.to_model());
    // Half of a short context each.
    let contexts = [row.map(|model| model.max_context), most_tokens(asked)];
    let longest = contexts.into_iter().flatten().filter(|tokens| *tokens > 0).min();
    let tokens = longest.map_or(TOKENS, |longest| TOKENS.min((longest / 2).max(1)));
    let number = |value: u32| Some(Scalar::from(value.to_string()));
    serving.requests_per_second = number(1);
    serving.prompt_tokens = serving.prompt_tokens.take().or(number(tokens));
    serving.answer_tokens = serving.answer_tokens.take().or(number(tokens));
    assumed.push(JobAssumption::NominalLoad { requests_per_second: 1, prompt_tokens: tokens, answer_tokens: tokens });
}

/// The longest request that the engine is told to take: vLLM, SGLang, text-generation-inference.
fn most_tokens(asked: &JobRequest) -> Option<u32> {
    const KEYS: [&str; 3] = ["max_model_len", "context_length", "max_total_tokens"];
    let stated = asked
        .no_effect
        .iter()
        .chain(&asked.unread)
        .find(|one| KEYS.contains(&one.key.trim_start_matches("--").replace('-', "_").as_str()))?;
    stated.value.parse().ok()
}

/// Beginnings of words in names of models that are no dense language models: they make pictures or films, move robots, hear or compare.
const OTHERS: [&str; 20] = [
    "t2v",
    "i2v",
    "t2i",
    "ti2v",
    "hunyuanvideo",
    "cogvideo",
    "ltx",
    "wan2",
    "flux",
    "sana",
    "diffusion",
    "sdxl",
    "gr00t",
    "groot",
    "pi0",
    "whisper",
    "wav2vec",
    "hubert",
    "parakeet",
    "siglip",
];

/// The model by the size in its name, where that is all that is known of it. `None`: it says none, or one of experts.
pub fn by_size(model: &ModelSection) -> Option<(ModelSection, JobAssumption)> {
    let name = model.preset.as_deref()?;
    let lower = name.to_ascii_lowercase();
    let words = || lower.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
    // `8x7b`, `30b-a3b`: of a mixture of experts one number says little.
    let is_mixture = words().any(|word| {
        let number = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let active = word.strip_prefix('a').and_then(size);
        word.starts_with(|first: char| first.is_ascii_digit()) && number.starts_with('x') || active.is_some()
    });
    // Of Wan2.1-T2V-14B the size is that of no language model.
    let is_other = words().any(|word| OTHERS.iter().any(|other| word.starts_with(other)));
    let parameters = words().find_map(size).filter(|_| !is_mixture && !is_other)?;
    let section = ModelSection { preset: None, parameters: Some(parameters.clone().into()), ..model.clone() };
    Some((section, JobAssumption::ModelOfSize { name: name.to_owned(), parameters }))
}

/// `7b` as `7B`.
fn size(word: &str) -> Option<String> {
    // `pythia2.8b`, but not the effective sizes of `e4b`.
    let digits = word.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let letters = word.len() - digits.len();
    let number = digits.strip_suffix(['b', 'm'])?;
    let is_number = number.starts_with(|first: char| first.is_ascii_digit()) && number.parse::<f64>().is_ok();
    (is_number && (letters == 0 || letters > 2)).then(|| digits.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choice, Gpus, JobKind};

    fn completed(text: &str) -> (WorkloadFile, Vec<JobAssumption>) {
        let mut file = WorkloadFile::parse(text).unwrap();
        let mut asked = JobRequest::new(JobKind::Script);
        asked.trains = true;
        asked.note_without_effect("--dataset_name", "a/b");
        asked.choices.push(Choice { gpus: Some(Gpus::PerMachine(4)), ..Choice::default() });
        let assumed = complete(&mut file, &asked, &Models::embedded().unwrap());
        (file, assumed)
    }

    #[test]
    fn only_what_is_open_is_taken_and_all_of_it_is_said() {
        let (file, assumed) = completed("model.preset = \"gpt-2\"\n[training]\nepochs = 3\n");
        assert_eq!((file.training.epochs, file.training.task.as_deref()), (None, Some("full-fine-tune")));
        let steps = JobAssumption::StepsAlone { steps: STEPS, data: Some("`a/b`".to_owned()) };
        assert_eq!(assumed, [JobAssumption::NoAdapters, steps]);
        for stated in ["steps = 7", "tokens = \"1B\"", "samples = 9"] {
            let (_, assumed) = completed(&format!("model.preset = \"gpt-2\"\n[training]\ntask = \"lora\"\n{stated}\n"));
            assert!(assumed.is_empty(), "{stated}: {assumed:?}");
        }
        let (file, assumed) = completed(
            "model.preset = \"gpt-2\"\n[training]\ntask = \"lora\"\nsteps = 1\nmicro_batch = 2\ngrad_accumulation = 3\n",
        );
        assert_eq!(assumed, [JobAssumption::BatchOfAllGpus { sequences: 24, gpus: 4 }]);
        assert_eq!(file.training.global_batch.unwrap().to_string(), "24");
        let mut file = WorkloadFile::parse("model.preset = \"gpt-2\"\n[training]\nmicro_batch = 2\n").unwrap();
        let mut asked = JobRequest::new(JobKind::Script);
        asked.leave_unread("--gradient_accumulation_steps", "$STEPS");
        asked.choices.push(Choice { gpus: Some(Gpus::PerMachine(4)), ..Choice::default() });
        asked.trains = true;
        complete(&mut file, &asked, &Models::embedded().unwrap());
        assert!(file.training.global_batch.is_none(), "what only a run would tell is not one");
        let mut file =
            WorkloadFile::parse("model.preset = \"gpt-2\"\n[training]\ntask = \"lora\"\nsteps = 1\nmicro_batch = 2\n")
                .unwrap();
        let assumed = complete(&mut file, &JobRequest::new(JobKind::Script), &Models::embedded().unwrap());
        assert_eq!(assumed, [JobAssumption::BatchOfOneGpu { sequences: 2 }], "machines are not counted");
        let (file, assumed) = completed("[training]\nepochs = 3\n");
        assert!(assumed.is_empty() && file.training.epochs.is_some(), "no model is no work");
    }

    #[test]
    fn a_served_model_gets_a_load_that_it_can_read() {
        for (model, tokens) in [("llama-3.1-8b", "1024"), ("gpt-2", "512")] {
            let (file, assumed) = completed(&format!("model.preset = \"{model}\"\n[serving]\nengine = \"vllm\"\n"));
            assert_eq!(file.serving.prompt_tokens.unwrap().to_string(), tokens);
            assert!(matches!(assumed[..], [JobAssumption::NominalLoad { .. }]));
        }
        let mut file = WorkloadFile::parse("model.preset = \"llama-3.1-8b\"\n[serving]\nengine = \"vllm\"\n").unwrap();
        let mut asked = JobRequest::new(JobKind::Script);
        asked.note_without_effect("--max_model_len", "1000");
        complete(&mut file, &asked, &Models::embedded().unwrap());
        assert_eq!(file.serving.answer_tokens.unwrap().to_string(), "500");
        let (_, assumed) = completed("model.preset = \"gpt-2\"\n[serving]\nrequests = 5\n");
        assert!(assumed.is_empty());
    }

    #[test]
    fn a_size_is_read_out_of_a_name_of_a_dense_model_alone() {
        let of = |name: &str| {
            let section = ModelSection { preset: Some(name.to_owned()), ..ModelSection::default() };
            by_size(&section).map(|(section, _)| section.parameters.unwrap().to_string())
        };
        for (name, size) in [
            ("org/My-Model-7B-Chat", "7B"),
            ("gpt-sw3-126m-instruct", "126M"),
            ("x_0.5b", "0.5B"),
            ("a/pythia2.8b-sft", "2.8B"),
        ] {
            assert_eq!(of(name).as_deref(), Some(size), "{name}");
        }
        for name in [
            "Mixtral-8x7B",
            "Qwen3-30B-A3B",
            "whisper-large",
            "Wan2.1-T2V-14B",
            "GR00T-N1.7-3B",
            "gemma-e4b",
            "b",
            "model-v2",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
