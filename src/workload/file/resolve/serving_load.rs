//! How much is to be answered: requests, tokens, images or hours of sound, at a rate for so many hours or in all.

use crate::file::scalar::{conflict, invalid, invalid_near, missing, shown, stated_count};
use crate::file::{ServingSection, WorkloadFileError};
use crate::model::Model;
use crate::{Assumption, Load, Transcription};
use gpuplan_units::Hours;
use gpuplan_units::nearest::durations;

/// Hours of a billing month, as the clouds count it.
pub(super) const MONTH: Hours = Hours(730.0);
/// Longest service that is planned: a year.
const LONGEST: Hours = Hours(8766.0);
/// Requests a second beyond which nobody serves from one plan.
const MOST_REQUESTS: f64 = 1e9;

/// Requests of `tokens` in all, or of sound.
pub(super) fn load(
    section: &ServingSection,
    model: &Model,
    tokens: f64,
    audio: Option<Transcription>,
    assumed: &mut Vec<Assumption>,
) -> Result<Load, WorkloadFileError> {
    let ways = [
        ("serving.requests_per_second", &section.requests_per_second),
        ("serving.tokens_per_day", &section.tokens_per_day),
        ("serving.images_per_second", &section.images_per_second),
        ("serving.audio_hours_per_day", &section.audio_hours_per_day),
        ("serving.requests", &section.requests),
        ("serving.tokens", &section.tokens),
        ("serving.images", &section.images),
        ("serving.audio_hours", &section.audio_hours),
    ];
    let mut stated = ways.into_iter().filter_map(|(key, way)| Some((key, way.as_ref()?)));
    let images = model.kind.counts_samples();
    let Some((key, way)) = stated.next() else {
        return Err(unstated(images, audio.is_some()));
    };
    if let Some((second, _)) = stated.next() {
        return Err(conflict(key, second));
    }
    let unit = other_unit(key, images, audio.is_some());
    if let Some(unit) = unit {
        return Err(invalid(key, format!("`{}` answers {unit}", model.name)));
    }
    let much = stated_count(key, way)?;
    let windows = |hours: f64| hours * 3600.0 / audio.map_or(1.0, |audio| audio.seconds);
    let requests_per_second = match key {
        "serving.requests_per_second" | "serving.images_per_second" => much,
        "serving.tokens_per_day" => much / tokens / 86_400.0,
        "serving.audio_hours_per_day" => windows(much) / 86_400.0,
        _ => {
            if section.hours.is_some() || section.duration.is_some() {
                return Err(conflict(key, if section.hours.is_some() { "serving.hours" } else { "serving.duration" }));
            }
            let requests = match key {
                "serving.tokens" => much / tokens,
                "serving.audio_hours" => windows(much),
                _ => much,
            };
            return Ok(Load::Job { requests: requests.ceil() });
        }
    };
    if requests_per_second > MOST_REQUESTS {
        return Err(invalid(
            key,
            format!("`{requests_per_second:.3e}` requests a second are more than {MOST_REQUESTS:.0e}"),
        ));
    }
    Ok(Load::Steady { requests_per_second, hours: hours(section, assumed)? })
}

fn hours(section: &ServingSection, assumed: &mut Vec<Assumption>) -> Result<Hours, WorkloadFileError> {
    match (&section.hours, &section.duration) {
        (Some(_), Some(_)) => Err(conflict("serving.hours", "serving.duration")),
        (Some(hours), None) => {
            let hours = stated_count("serving.hours", hours)?;
            let fits = hours <= MONTH.0 + 14.0;
            if fits {
                Ok(Hours(hours))
            } else {
                Err(invalid("serving.hours", format!("`{hours}` is more than a month has; use `duration`")))
            }
        }
        (None, Some(text)) => {
            let hours = Hours::parse(text).ok().filter(|hours| hours.0 > 0.0 && *hours <= LONGEST);
            hours.ok_or_else(|| {
                let detail = format!("`{}` is not a valid duration; try 12h or 3d (a year at most)", shown(text));
                invalid_near("serving.duration", detail, durations(text))
            })
        }
        (None, None) => {
            assumed.push(Assumption::ServingHours { hours: MONTH });
            Ok(MONTH)
        }
    }
}

fn unstated(images: bool, hears: bool) -> WorkloadFileError {
    let (key, ways) = match (images, hears) {
        (true, _) => ("serving.images_per_second", "images_per_second, or images to get done"),
        (false, true) => ("serving.audio_hours_per_day", "audio_hours_per_day, or audio_hours to get done"),
        (false, false) => {
            ("serving.requests_per_second", "requests_per_second, tokens_per_day, or requests or tokens to get done")
        }
    };
    missing(key, format!("state how much is served: {ways}"))
}

/// What the model answers, where `key` counts something else.
fn other_unit(key: &str, images: bool, hears: bool) -> Option<&'static str> {
    let counts = |what: &str| key.contains(what);
    match (images, hears) {
        (true, _) => Some("images").filter(|_| !counts("images")),
        (false, true) => Some("requests or hours of sound").filter(|_| counts("images") || counts("tokens")),
        (false, false) => Some("requests or tokens").filter(|_| counts("images")),
    }
}
