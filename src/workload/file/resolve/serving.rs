//! The `[serving]` section of a workload file: read, checked, and completed with defaults that are listed.

use crate::file::resolve::model::ResolvedModel;
use crate::file::resolve::resolved::Resolved;
use crate::file::resolve::{serving_images, serving_layout, serving_load, serving_speech};
use crate::file::scalar::{choice, conflict, invalid, invalid_near, missing, shown, stated_count, whole};
use crate::file::{
    DataSection, Scalar, ServingSection, SweepSection, TrainingSection, WorkloadFile, WorkloadFileError,
};
use crate::model::{Model, ModelKind};
use crate::{
    Amount, Assumption, Checkpoint, Load, Precision, Serving, StoredFormat, Task, Training, Transcription, Workload,
};
use gpuplan_units::{Bytes, Hours, Seconds};

/// Share of time with enough replicas where nothing is said. Judged: half an hour a day may miss the target.
const AVAILABILITY: f64 = 0.98;
/// Text of a token, which a job writes to its bucket. Bytes; English text has about four characters a token (OpenAI, "What are
/// tokens and how to count them").
const BYTES_PER_TOKEN: f64 = 4.0;
/// Longest prompt and answer, each.
const LONGEST_TEXT: u32 = 16_777_216;

/// A complete workload that serves.
pub(super) fn resolve(
    file: &WorkloadFile,
    network: ResolvedModel,
    mut assumed: Vec<Assumption>,
) -> Result<Resolved, WorkloadFileError> {
    let ResolvedModel { model, native_tokens } = network;
    contradictions(file)?;
    can_be_served(&model)?;
    let section = &file.serving;
    let (prompt_tokens, answer_tokens, audio) = request(section, &model, &mut assumed)?;
    let tokens = f64::from(prompt_tokens) + f64::from(answer_tokens);
    let load = serving_load::load(section, &model, tokens, audio, &mut assumed)?;
    meaningless(section, &model, answer_tokens)?;
    let weights = format(
        "serving.weights",
        section.weights.as_deref(),
        model.published,
        |format| Assumption::ServingWeights { format },
        &mut assumed,
    )?;
    let kv_cache = kv_cache(section, answer_tokens, &mut assumed)?;
    let images = serving_images::sampling(section, &model, audio.is_some(), &mut assumed)?;
    let serving = Serving {
        load,
        prompt_tokens,
        answer_tokens,
        time_to_first_token: target("serving.time_to_first_token", section.time_to_first_token.as_deref(), load)?,
        time_per_token: target("serving.time_per_token", section.time_per_token.as_deref(), load)?,
        weights,
        kv_cache,
        availability: availability(section.availability.as_ref(), load, &mut assumed)?,
        engine: serving_layout::engine(section, weights, answer_tokens, audio.is_some(), &mut assumed)?,
        layout: serving_layout::layout(section, &model, answer_tokens)?,
        speculation: serving_layout::speculation(section, &model, answer_tokens)?,
        disaggregation: serving_layout::disaggregation(
            section,
            &model,
            answer_tokens,
            matches!(load, Load::Job { .. }),
        )?,
        images,
        audio,
    };
    if matches!(load, Load::Steady { .. }) && serving.time_to_first_token.is_none() {
        assumed.push(Assumption::ServingLatency { writes_tokens: answer_tokens > 0 });
    }
    let name = file.name_or(|| format!("{}-{}", model.name, if serving.is_job() { "batch" } else { "serving" }))?;
    // Layers that write see their own tokens; an encoder of sound sees others.
    let seen = if audio.is_some() && answer_tokens > 0 { answer_tokens } else { prompt_tokens + answer_tokens };
    let sequence = images.map_or_else(|| sequence(&model, native_tokens, seen), |it| Ok(it.side))?;
    let mut training =
        Training::new(if answer_tokens == 0 { Task::InferencePrefill } else { Task::Inference }, sequence);
    training.precision = if weights == StoredFormat::Fp8 { Precision::Fp8 } else { Precision::Bf16 };
    training.global_batch = Some(1);
    let answers = serving.requests() * f64::from(answer_tokens.max(1)) * BYTES_PER_TOKEN;
    let checkpoint = Checkpoint { size: Some(Bytes(answers)), interval: None };
    let amount = Amount::Samples(serving.requests());
    let (data, overhead, sweep) = (None, None, None);
    let workload =
        Workload { name, model, training, amount, data, checkpoint, overhead, sweep, serving: Some(serving) };
    Ok(Resolved { workload, assumed })
}

/// How keys and values are kept, where there are any.
fn kv_cache(
    section: &ServingSection,
    answer_tokens: u32,
    assumed: &mut Vec<Assumption>,
) -> Result<StoredFormat, WorkloadFileError> {
    if answer_tokens == 0 {
        return Ok(StoredFormat::Bf16);
    }
    let (key, assumption) = ("serving.kv_cache", |format| Assumption::ServingKvCache { format });
    let kept = format(key, section.kv_cache.as_deref(), StoredFormat::Bf16, assumption, assumed)?;
    if kept.bytes() < 1.0 {
        return Err(invalid(key, "engines keep keys and values in 8 or 16 bits: bf16, fp8 or int8"));
    }
    Ok(kept)
}

/// Tokens that the layers see at most, or the side of an image.
fn sequence(model: &Model, native_tokens: Option<u32>, tokens: u32) -> Result<u32, WorkloadFileError> {
    match (model.kind, native_tokens) {
        (ModelKind::Vit, Some(patches)) => Ok(patches),
        (ModelKind::Vit, None) => {
            Err(invalid("serving", format!("the number of patches in an image of `{}` is not known", model.name)))
        }
        _ if model.kind.counts_samples() => Ok(model.sample_side.max(1)),
        _ => Ok(tokens),
    }
}

/// Where the task is said to be serving, as people type it beside `--requests-per-second`, and nothing about training is.
pub(super) fn is_named_as_task(training: &TrainingSection) -> bool {
    let names_serving =
        |task: &String| ["serve", "serving", "inference"].contains(&task.trim().to_ascii_lowercase().as_str());
    training.task.as_ref().is_some_and(names_serving)
        && *training == TrainingSection { task: training.task.clone(), ..TrainingSection::default() }
}

/// Sections and limits that belong to training, or mean nothing here.
fn contradictions(file: &WorkloadFile) -> Result<(), WorkloadFileError> {
    let serving = &file.serving;
    let steady = [
        &serving.requests_per_second,
        &serving.tokens_per_day,
        &serving.images_per_second,
        &serving.audio_hours_per_day,
    ];
    let steps_alone = TrainingSection { steps: file.training.steps.clone(), ..TrainingSection::default() };
    let makes_images = file.serving.images_per_second.is_some() || file.serving.images.is_some();
    if makes_images && file.training.steps.is_some() && file.training == steps_alone {
        let why =
            "these are steps of an optimizer; those of the sampler of an image are `serving.steps` (--image-steps)";
        return Err(invalid("training.steps", why));
    }
    if file.training != TrainingSection::default() && !is_named_as_task(&file.training) {
        let side_alone = ServingSection { resolution: serving.resolution.clone(), ..ServingSection::default() };
        return Err(match &serving.resolution {
            Some(side) if *serving == side_alone => invalid_near(
                "training.sequence_length",
                "images that are made have a resolution; what is trained on has its side in pixels here, in place of --resolution",
                [side.to_string()],
            ),
            _ => conflict("[serving]", "[training]"),
        });
    }
    if file.sweep != SweepSection::default() {
        return Err(conflict("[serving]", "[sweep]"));
    }
    if file.data != DataSection::default() {
        return Err(conflict("[serving]", "[data]"));
    }
    if file.limits.deadline.is_some() && steady.iter().any(|way| way.is_some()) {
        return Err(invalid(
            "limits.deadline",
            "a service runs for its hours and has no deadline; a batch job (`serving.tokens`, of sound `serving.audio_hours`) may have one",
        ));
    }
    if file.limits.max_nodes == Some(0) {
        return Err(invalid("limits.max_nodes", "at least one node is needed"));
    }
    Ok(())
}

/// Keys about answers of a model that writes none.
fn meaningless(section: &ServingSection, model: &Model, answer_tokens: u32) -> Result<(), WorkloadFileError> {
    let stated = [("serving.kv_cache", &section.kv_cache), ("serving.time_per_token", &section.time_per_token)];
    match stated.into_iter().find(|(_, text)| answer_tokens == 0 && text.is_some()) {
        Some((key, _)) => {
            Err(invalid(key, format!("`{}` generates no tokens here, so this has no meaning", model.name)))
        }
        None => Ok(()),
    }
}

fn can_be_served(model: &Model) -> Result<(), WorkloadFileError> {
    let why = match model.kind {
        ModelKind::Decoder
        | ModelKind::Moe
        | ModelKind::Encoder
        | ModelKind::Vit
        | ModelKind::Cnn
        | ModelKind::CnnDetection => {
            return Ok(());
        }
        ModelKind::Encdec if model.audio_tokens_per_second > 0.0 => return Ok(()),
        ModelKind::Encdec | ModelKind::MoeEncdec => {
            "encoder-decoders keep two caches, which the serving estimate models for speech alone"
        }
        ModelKind::Diffusion => match serving_images::refusal(model) {
            Some(why) => why,
            None => return Ok(()),
        },
        ModelKind::CnnTts | ModelKind::RnnSeq2seq | ModelKind::RnnTts => "no throughput model for this family",
    };
    Err(invalid("serving", format!("`{}` cannot be planned for serving: {why}", model.name)))
}

fn is_generative(model: &Model) -> bool {
    matches!(model.kind, ModelKind::Decoder | ModelKind::Moe)
}

/// Tokens of prompt and answer, and the sound that they are of.
fn request(
    section: &ServingSection,
    model: &Model,
    assumed: &mut Vec<Assumption>,
) -> Result<(u32, u32, Option<Transcription>), WorkloadFileError> {
    if serving_speech::is_heard(section, model)? {
        let heard = serving_speech::heard(section, model, assumed)?;
        return Ok((heard.prompt_tokens, heard.answer_tokens, Some(heard.audio)));
    }
    let (prompt, answer) = lengths(section, model)?;
    Ok((prompt, answer, None))
}

/// Tokens of prompt and answer of a model that reads.
fn lengths(section: &ServingSection, model: &Model) -> Result<(u32, u32), WorkloadFileError> {
    let prompt = whole("serving.prompt_tokens", section.prompt_tokens.as_ref(), 1..=LONGEST_TEXT)?;
    let answer = whole("serving.answer_tokens", section.answer_tokens.as_ref(), 0..=LONGEST_TEXT)?;
    if model.kind.counts_samples() {
        return match (prompt, answer) {
            (None, None | Some(0)) => Ok((1, 0)),
            _ => {
                Err(invalid("serving.prompt_tokens", format!("`{}` answers images, which have no tokens", model.name)))
            }
        };
    }
    let prompt = prompt.ok_or_else(|| missing("serving.prompt_tokens", "state the length of a prompt, in tokens"))?;
    let answer = match (is_generative(model), answer) {
        (true, Some(answer)) => answer,
        (true, None) => {
            return Err(missing(
                "serving.answer_tokens",
                "state the length of an answer, in tokens; 0 if only the prompt is read",
            ));
        }
        (false, None | Some(0)) => 0,
        (false, Some(_)) => {
            return Err(invalid(
                "serving.answer_tokens",
                format!("`{}` is an encoder and generates no tokens", model.name),
            ));
        }
    };
    let (length, context) = (prompt.saturating_add(answer), model.max_context);
    if context > 0 && length > context {
        let detail = format!(
            "{prompt} tokens of prompt and {answer} of answer are {length}, and `{}` reads {context}; shorten one, or state `model.max_context`",
            model.name
        );
        return Err(invalid("serving.prompt_tokens", detail));
    }
    Ok((prompt, answer))
}

/// As the model is published where nothing is said.
fn format(
    key: &str,
    text: Option<&str>,
    published: StoredFormat,
    assumption: fn(StoredFormat) -> Assumption,
    assumed: &mut Vec<Assumption>,
) -> Result<StoredFormat, WorkloadFileError> {
    if let Some(format) = choice(key, text)? {
        return Ok(format);
    }
    assumed.push(assumption(published));
    Ok(published)
}

fn target(key: &str, text: Option<&str>, load: Load) -> Result<Option<Seconds>, WorkloadFileError> {
    let Some(text) = text else { return Ok(None) };
    if matches!(load, Load::Job { .. }) {
        return Err(invalid(
            key,
            "a batch job has no latency target; a service (`serving.requests_per_second`) may have one",
        ));
    }
    let seconds = Hours::parse(text).ok().map(Seconds::from).filter(|seconds| seconds.0 > 0.0 && seconds.0 <= 86_400.0);
    seconds
        .map(Some)
        .ok_or_else(|| invalid(key, format!("`{}` is not a valid duration; try 300ms or 1.5s", shown(text))))
}

fn availability(stated: Option<&Scalar>, load: Load, assumed: &mut Vec<Assumption>) -> Result<f64, WorkloadFileError> {
    match (stated, load) {
        (Some(_), Load::Job { .. }) => Err(invalid(
            "serving.availability",
            "a batch job waits while machines are unavailable; limit it by deadline and budget",
        )),
        (Some(stated), Load::Steady { .. }) => {
            let share = stated_count("serving.availability", stated)?;
            let fits = (0.5..1.0).contains(&share);
            if fits {
                Ok(share)
            } else {
                Err(invalid(
                    "serving.availability",
                    format!("`{share}` is not a share of time from 0.5 to below 1, such as 0.99"),
                ))
            }
        }
        (None, Load::Job { .. }) => Ok(AVAILABILITY),
        (None, Load::Steady { .. }) => {
            assumed.push(Assumption::ServingAvailability { share: AVAILABILITY });
            Ok(AVAILABILITY)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Models;
    use crate::file::resolve::serving_load::MONTH;

    fn resolved(model: &str, serving: &str) -> Result<Resolved, WorkloadFileError> {
        let text = format!("[model]\npreset = \"{model}\"\n[serving]\n{serving}");
        WorkloadFile::parse(&text)?.resolve(&Models::embedded().unwrap(), None)
    }

    fn refused(model: &str, serving: &str) -> String {
        resolved(model, serving).unwrap_err().to_string()
    }

    const CHAT: &str = "requests_per_second = 20\nprompt_tokens = 512\nanswer_tokens = 256\n";

    #[test]
    fn a_service_is_complete_and_says_what_it_assumes() {
        let made = resolved("llama-3.1-8b", &format!("{CHAT}time_to_first_token = \"300ms\"")).unwrap();
        let serving = made.workload.serving.unwrap();
        assert_eq!(serving.load, Load::Steady { requests_per_second: 20.0, hours: MONTH });
        assert!((serving.time_to_first_token.unwrap().0 - 0.3).abs() < 1e-9);
        assert_eq!((serving.weights, serving.kv_cache), (StoredFormat::Bf16, StoredFormat::Bf16));
        assert!(made.assumed.contains(&Assumption::ServingHours { hours: MONTH }), "{:?}", made.assumed);
        assert_eq!(made.workload.name, "llama-3.1-8b-serving");
    }

    /// As people type it: `--task serve` beside `--requests-per-second`.
    #[test]
    fn a_task_that_is_serving_is_a_served_model() {
        let file = |text: &str| {
            let text = format!("[model]\npreset = \"llama-3.1-8b\"\n{text}");
            WorkloadFile::parse(&text).unwrap().resolve(&Models::embedded().unwrap(), None)
        };
        for task in ["serve", "serving", "Inference"] {
            let named = file(&format!("[training]\ntask = \"{task}\"\n[serving]\n{CHAT}")).unwrap();
            assert_eq!(named, file(&format!("[serving]\n{CHAT}")).unwrap());
            let bare = file(&format!("[training]\ntask = \"{task}\"")).unwrap_err().to_string();
            assert!(bare.starts_with("`serving.") && bare.contains("is missing"), "{bare}");
            let both = file(&format!("[training]\ntask = \"{task}\"\nsteps = 5\n[serving]\n{CHAT}"));
            assert!(both.unwrap_err().to_string().contains("exclude each other"));
        }
    }

    #[test]
    fn tokens_a_day_and_tokens_to_get_done_count_prompt_and_answer() {
        let lengths = "prompt_tokens = 700\nanswer_tokens = 300\n";
        let day = resolved("llama-3.1-8b", &format!("tokens_per_day = \"86.4M\"\nhours = 100\n{lengths}")).unwrap();
        assert_eq!(day.workload.serving.unwrap().load, Load::Steady { requests_per_second: 1.0, hours: Hours(100.0) });
        let job = resolved("llama-3.1-8b", &format!("tokens = \"1B\"\n{lengths}")).unwrap();
        assert_eq!(job.workload.serving.unwrap().load, Load::Job { requests: 1e6 });
        assert_eq!(job.workload.amount, Amount::Samples(1e6));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_key() {
        for (serving, part) in [
            ("prompt_tokens = 1\nanswer_tokens = 1", "`serving.requests_per_second` is missing"),
            ("requests_per_second = 1\nanswer_tokens = 1", "`serving.prompt_tokens` is missing"),
            ("requests_per_second = 1\nprompt_tokens = 1", "`serving.answer_tokens` is missing"),
            ("requests_per_second = 1\ntokens = 5\nprompt_tokens = 1\nanswer_tokens = 1", "exclude each other"),
            ("requests_per_second = 1\nprompt_tokens = 131000\nanswer_tokens = 100", "reads 131072"),
            ("images_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 1", "answers requests or tokens"),
            (
                "tokens = 5\nprompt_tokens = 1\nanswer_tokens = 1\ntime_per_token = \"50ms\"",
                "a batch job has no latency target",
            ),
            (
                "requests_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 1\ntime_to_first_token = 3",
                "is not a valid duration; try 300ms",
            ),
            ("requests_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 1\nkv_cache = \"int4\"", "8 or 16 bits"),
            ("requests_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 1\nweights = \"fp9\"", "did you mean `fp8`"),
            (
                "requests_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 1\navailability = 2",
                "is not a share of time",
            ),
            ("requests_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 1\nhours = 800", "more than a month has"),
            (
                "requests_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 0\nkv_cache = \"fp8\"",
                "generates no tokens here",
            ),
            (
                "requests_per_second = 1\nprompt_tokens = 1\nanswer_tokens = 0\ntime_per_token = \"50ms\"",
                "generates no tokens here",
            ),
        ] {
            let said = refused("llama-3.1-8b", serving);
            assert!(said.contains(part), "{serving}: {said}");
        }
        assert!(refused("t5-large", CHAT).contains("two caches"));
    }

    #[test]
    fn images_have_no_tokens() {
        let serving = resolved("resnet-50", "images_per_second = 5000").unwrap().workload.serving.unwrap();
        assert_eq!((serving.prompt_tokens, serving.answer_tokens), (1, 0));
        assert!(refused("resnet-50", CHAT).contains("no tokens"));
        assert!(refused("resnet-50", "requests_per_second = 1").contains("answers images"));
    }
}
