//! How sound is written down: seconds and tokens of a request, transcripts that are followed at once, and how many windows together.

use crate::file::resolve::serving_layout;
use crate::file::scalar::{invalid, stated_count, whole};
use crate::file::{ServingSection, WorkloadFileError};
use crate::model::{Model, ModelKind};
use crate::{Assumption, ServingEngine, Transcription};
use gpuplan_units::Seconds;

/// Tokens that are written for a second of English speech, punctuation and marks of time included. Ten minutes take large-v3 and turbo on four
/// GPUs, without their first tokens, as long as 1,980 to 2,300 tokens, 2,080 in the median, at the speed that is stated with them
/// (TheStageAI/TheWhisper, benchmark/README.md, fp16, one window of 30 seconds at a time).
const TOKENS_PER_SECOND: f64 = 3.5;
/// Sound of a request where the model has no window of its own: as much as Whisper hears at once (arXiv 2212.04356, section 2.1).
const USUAL_SECONDS: f64 = 30.0;
/// The longest sound of a request: an hour.
const LONGEST_SECONDS: f64 = 3600.0;
/// New sound of a window in transformers' pipeline, which has a sixth of it on both sides in the windows beside it too (`stride_length_s`,
/// pipelines/automatic_speech_recognition.py).
const NEW_IN_A_PIPELINE: f64 = 1.0 - 2.0 / 6.0;
/// Beams of faster-whisper where nobody says more (SYSTRAN/faster-whisper README.md, "Comparing performance"); other engines follow one.
const BEAMS_OF_FASTER_WHISPER: u32 = 5;
const MOST_BEAMS: u32 = 64;
/// Windows of one batch.
const MOST_AT_ONCE: u32 = 4096;

/// What a request is.
pub(super) struct Heard {
    pub(super) audio: Transcription,
    /// Tokens of its sound.
    pub(super) prompt_tokens: u32,
    pub(super) answer_tokens: u32,
}

/// Whether the model hears a request: an encoder-decoder always, an encoder alone where hours or seconds of sound are stated.
pub(super) fn is_heard(section: &ServingSection, model: &Model) -> Result<bool, WorkloadFileError> {
    let stated = [
        ("serving.audio_hours_per_day", &section.audio_hours_per_day),
        ("serving.audio_hours", &section.audio_hours),
        ("serving.audio_seconds", &section.audio_seconds),
        ("serving.beams", &section.beams),
    ];
    let first = stated.into_iter().find(|(_, value)| value.is_some());
    match first {
        Some((key, _)) if model.audio_tokens_per_second <= 0.0 => {
            Err(invalid(key, format!("`{}` hears no sound that the estimate knows of", model.name)))
        }
        _ => Ok(model.audio_tokens_per_second > 0.0 && (model.encoder_layers > 0 || first.is_some())),
    }
}

/// A request of a model that hears.
pub(super) fn heard(
    section: &ServingSection,
    model: &Model,
    assumed: &mut Vec<Assumption>,
) -> Result<Heard, WorkloadFileError> {
    if section.prompt_tokens.is_some() {
        let why = "tokens of sound follow from its length; state `serving.audio_seconds`";
        return Err(invalid("serving.prompt_tokens", why));
    }
    let engine = serving_layout::stated_engine(section)?.unwrap_or_default();
    let writes = model.encoder_layers > 0;
    let seconds = seconds(section, model, engine, assumed)?;
    let own = |seconds: f64| (seconds * model.audio_tokens_per_second).ceil().max(1.0) as u32;
    let prompt_tokens = if model.encoder_tokens > 0 { model.encoder_tokens } else { own(seconds.whole) };
    let answer_tokens = if writes { transcript(section, model, seconds.whole, assumed)? } else { 0 };
    if !writes && section.answer_tokens.is_some() {
        let why = format!("`{}` is an encoder and generates no tokens", model.name);
        return Err(invalid("serving.answer_tokens", why));
    }
    let beams = beams(section, engine, writes, assumed)?;
    let batch = whole("serving.batch", section.batch.as_ref(), 1..=MOST_AT_ONCE)?;
    Ok(Heard { audio: Transcription { seconds: seconds.new, beams, batch }, prompt_tokens, answer_tokens })
}

/// Sound of a request: what it is about, and what is heard for it.
struct Sound {
    new: f64,
    whole: f64,
}

fn seconds(
    section: &ServingSection,
    model: &Model,
    engine: ServingEngine,
    assumed: &mut Vec<Assumption>,
) -> Result<Sound, WorkloadFileError> {
    let key = "serving.audio_seconds";
    let heard_at_once = match (model.encoder_tokens, model.kind, model.max_context) {
        (0, ModelKind::Encoder, 1..) => f64::from(model.max_context),
        (0, _, _) => f64::INFINITY,
        (tokens, _, _) => f64::from(tokens),
    } / model.audio_tokens_per_second;
    if let Some(stated) = &section.audio_seconds {
        let seconds = stated_count(key, stated)?;
        let most = heard_at_once.min(LONGEST_SECONDS);
        if seconds > most {
            let why = format!("`{}` hears {most:.0} seconds at once; longer sound is several requests", model.name);
            return Err(invalid(key, why));
        }
        return Ok(Sound { new: seconds, whole: seconds });
    }
    let whole = if heard_at_once.is_finite() { heard_at_once } else { USUAL_SECONDS };
    let overlaps = engine == ServingEngine::PyTorch && model.encoder_tokens > 0;
    let new = if overlaps { whole * NEW_IN_A_PIPELINE } else { whole };
    assumed.push(Assumption::ServingAudio { seconds: Seconds(new), overlaps });
    Ok(Sound { new, whole })
}

/// Tokens of a transcript.
fn transcript(
    section: &ServingSection,
    model: &Model,
    seconds: f64,
    assumed: &mut Vec<Assumption>,
) -> Result<u32, WorkloadFileError> {
    let key = "serving.answer_tokens";
    let most = if model.max_context == 0 { u32::MAX } else { model.max_context };
    if let Some(stated) = whole(key, section.answer_tokens.as_ref(), 1..=u32::MAX)? {
        if stated > most {
            return Err(invalid(key, format!("{stated} tokens are more than the {most} that `{}` writes", model.name)));
        }
        return Ok(stated);
    }
    let tokens = (TOKENS_PER_SECOND * seconds).round().clamp(1.0, f64::from(most)) as u32;
    assumed.push(Assumption::ServingTranscript { tokens });
    Ok(tokens)
}

fn beams(
    section: &ServingSection,
    engine: ServingEngine,
    writes: bool,
    assumed: &mut Vec<Assumption>,
) -> Result<u32, WorkloadFileError> {
    let stated = whole("serving.beams", section.beams.as_ref(), 1..=MOST_BEAMS)?;
    match (stated, writes) {
        (Some(beams), true) => Ok(beams),
        (Some(_), false) => Err(invalid("serving.beams", "an encoder writes nothing that could be searched for")),
        (None, false) => Ok(1),
        (None, true) => {
            let beams = if engine == ServingEngine::FasterWhisper { BEAMS_OF_FASTER_WHISPER } else { 1 };
            assumed.push(Assumption::ServingBeams { beams });
            Ok(beams)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::WorkloadFile;
    use crate::file::resolve::resolved::Resolved;
    use crate::{Load, Models, Serving};

    fn resolved(model: &str, serving: &str) -> Result<Resolved, WorkloadFileError> {
        let text = format!("[model]\npreset = \"{model}\"\n[serving]\n{serving}");
        WorkloadFile::parse(&text)?.resolve(&Models::embedded().unwrap(), None)
    }

    fn served(model: &str, serving: &str) -> Serving {
        resolved(model, serving).unwrap().workload.serving.unwrap()
    }

    #[test]
    fn hours_of_sound_are_windows_of_thirty_seconds() {
        let job = served("openai/whisper-large-v3", "audio_hours = 1000");
        assert_eq!(job.load, Load::Job { requests: 120_000.0 });
        assert_eq!((job.prompt_tokens, job.answer_tokens), (1500, 105));
        assert_eq!(job.audio.unwrap(), Transcription { seconds: 30.0, beams: 1, batch: None });
        let service = served("whisper-large-v3-turbo", "audio_hours_per_day = 720\nhours = 100");
        assert!(matches!(service.load, Load::Steady { requests_per_second, .. } if requests_per_second == 1.0));
        // An encoder alone is asked in tokens or in sound.
        let encoder = served("facebook/wav2vec2-base-960h", "audio_hours = 100");
        assert_eq!((encoder.prompt_tokens, encoder.answer_tokens), (1500, 0));
        assert!(served("facebook/wav2vec2-base-960h", "requests = 9\nprompt_tokens = 500").audio.is_none());
    }

    #[test]
    fn an_engine_says_how_it_searches_and_what_it_hears_twice() {
        let faster = resolved("whisper-large-v3", "audio_hours = 1\nengine = \"faster-whisper\"").unwrap();
        assert_eq!(faster.workload.serving.unwrap().audio.unwrap().beams, 5);
        assert!(faster.assumed.contains(&Assumption::ServingBeams { beams: 5 }), "{:?}", faster.assumed);
        assert!(faster.assumed.contains(&Assumption::ServingTranscript { tokens: 105 }), "{:?}", faster.assumed);
        let pipeline = served("whisper-large-v3", "audio_hours = 1\nengine = \"pytorch\"\nbatch = 24");
        let audio = pipeline.audio.unwrap();
        assert!((audio.seconds - 20.0).abs() < 1e-9 && audio.batch == Some(24), "{audio:?}");
        assert_eq!(pipeline.load, Load::Job { requests: 180.0 });
        let short = served("whisper-large-v3", "requests = 10\naudio_seconds = 6\nbeams = 2");
        assert_eq!((short.prompt_tokens, short.answer_tokens, short.audio.unwrap().beams), (1500, 21, 2));
    }

    #[test]
    fn what_makes_no_sense_for_sound_is_refused_with_its_key() {
        for (model, serving, part) in [
            ("whisper-large-v3", "weights = \"bf16\"", "audio_hours_per_day"),
            ("whisper-large-v3", "images = 3", "answers requests or hours of sound"),
            ("whisper-large-v3", "tokens = 3", "answers requests or hours of sound"),
            ("whisper-large-v3", "audio_hours = 1\nprompt_tokens = 100", "serving.audio_seconds"),
            ("whisper-large-v3", "audio_hours = 1\naudio_seconds = 60", "hears 30 seconds at once"),
            ("whisper-large-v3", "audio_hours = 1\nanswer_tokens = 9000", "448"),
            ("whisper-large-v3", "audio_hours = 1\nhours = 10", "exclude each other"),
            ("whisper-large-v3", "audio_hours = 1\nrequests = 10", "exclude each other"),
            ("whisper-large-v3", "audio_hours = 1\ntensor_parallel = 2", "on one GPU"),
            ("whisper-large-v3", "audio_hours = 1\nsteps = 2", "is no diffusion model"),
            ("llama-3.1-8b", "audio_hours = 1", "hears no sound"),
            ("llama-3.1-8b", "requests = 1\nprompt_tokens = 1\nanswer_tokens = 1\nbeams = 5", "hears no sound"),
            (
                "llama-3.1-8b",
                "requests = 1\nprompt_tokens = 1\nanswer_tokens = 1\nengine = \"faster-whisper\"",
                "speech alone",
            ),
            ("facebook/wav2vec2-base-960h", "audio_hours = 1\nbeams = 5", "an encoder writes nothing"),
        ] {
            let said = resolved(model, serving).unwrap_err().to_string();
            assert!(said.contains(part), "{model} {serving}: {said}");
        }
    }
}
