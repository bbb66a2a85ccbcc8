//! The feed of prices that the settings name: fetched at most once a day, kept beside the price cache, believed only where it is signed.
//! Without `feed.toml` nobody is asked.

use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::session::diagnostic::Diagnostic;
use crate::session::home::Home;
use crate::session::input::read_text;
use crate::session::printer::Printer;
use gpuplan_clouds::ask;
use gpuplan_clouds_http::{Bytes, Http, Request, is_loopback};
use gpuplan_market::SourceError;
use gpuplan_market::feed::{Feed, LARGEST, PublicKey};

/// A feed comes once a night.
const AT_MOST: SignedDuration = SignedDuration::from_hours(24);

/// `feed.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    url: String,
    /// Any of them may have signed: two while a key is replaced.
    keys: Vec<String>,
}

/// What is remembered of the last question.
#[derive(Default, Serialize, Deserialize)]
struct Asked {
    at: Option<Timestamp>,
    etag: Option<String>,
}

/// A feed that may be believed.
pub struct Found {
    pub feed: Feed,
    /// It came just now.
    pub is_new: bool,
}

/// The newest feed that may be believed. A feed that cannot be had costs a warning and nothing else.
pub fn find(home: &Home, printer: &Printer, now: Timestamp, offline: bool) -> Result<Option<Found>, Diagnostic> {
    let Some(path) = home.config_file("feed.toml").filter(|path| path.is_file()) else { return Ok(None) };
    let Settings { url, keys } = toml::from_str(&read_text(&path)?)
        .map_err(|error| Diagnostic::usage(format!("{}: {error}", path.display())))?;
    let keys: Vec<PublicKey> =
        keys.iter().map(|key| PublicKey::parse(key)).collect::<Result<_, _>>().map_err(|error| {
            Diagnostic::usage(format!("{}: {error}", path.display())).hint("a key has 64 hexadecimal digits")
        })?;
    if !url.starts_with("https://") && !is_loopback(&url) {
        return Err(Diagnostic::usage(format!("{}: `{url}` is not an address with https", path.display())));
    }
    let (Some(file), Some(state)) = (home.cache_file("prices.feed"), home.cache_file("prices.feed.json")) else {
        return Ok(None);
    };
    let kept = fs::read(&file).ok().and_then(|bytes| Feed::open(&bytes, &keys, None, now).ok());
    let asked: Asked =
        fs::read_to_string(&state).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let is_recent = asked.at.is_some_and(|at| (SignedDuration::ZERO..AT_MOST).contains(&now.duration_since(at)));
    let earlier = |feed| Found { feed, is_new: false };
    if offline || is_recent {
        return Ok(kept.map(earlier));
    }
    let etag = asked.etag.filter(|_| kept.is_some());
    let known = kept.as_ref().and_then(|feed| feed.published_at().ok());
    let fetched = match fetch(&url, etag.as_deref())? {
        Ok(None) => Ok((None, etag)),
        Ok(Some(Bytes { value, etag })) => match Feed::open(&value, &keys, known, now) {
            Ok(feed) => Ok((Some((feed, value)), etag)),
            Err(error) => Err(error.to_string()),
        },
        Err(error) => Err(error.to_string()),
    };
    match fetched {
        Ok((news, etag)) => {
            let text = serde_json::to_string(&Asked { at: Some(now), etag }).map_err(Diagnostic::unexpected)?;
            let kept_now = news
                .as_ref()
                .map_or(Ok(()), |(_, bytes)| write(&file, bytes))
                .and_then(|()| write(&state, text.as_bytes()));
            if let Err(error) = kept_now {
                printer.warning(&format!("the feed of prices could not be kept: {error}"));
            }
            Ok(news.map(|(feed, _)| Found { feed, is_new: true }).or(kept.map(earlier)))
        }
        Err(why) => {
            printer.warning(&format!("the feed of prices at {url}: {why}; what is here is used"));
            Ok(kept.map(earlier))
        }
    }
}

/// `None`: it has not changed.
fn fetch(url: &str, etag: Option<&str>) -> Result<Result<Option<Bytes>, SourceError>, Diagnostic> {
    let request = Request::get(url);
    let request = match etag {
        Some(etag) => request.header("if-none-match", etag),
        None => request,
    };
    let question = Box::pin(async move {
        match Http::new()?.bytes(&request, LARGEST).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(SourceError::Refused { code, .. }) if code == "304" => Ok(None),
            Err(error) => Err(error),
        }
    });
    let mut answers = ask::all(vec![("feed", question)], &|_| {}).map_err(Diagnostic::unexpected)?;
    Ok(answers.pop().expect("one question has one answer"))
}

/// Readers never see half of it.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let temporary = path.with_extension("new");
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}
