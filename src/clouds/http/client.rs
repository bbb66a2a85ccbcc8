//! `Http`: the one HTTP client. Asks only what is harmless to ask twice, repeats what may be repeated, bounds time and size, and keeps secrets out of errors.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use futures_util::StreamExt;
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use crate::dates::{Dates, http_date};
use crate::packed::unpacked;
use crate::{one_line, root_cause};
use gpuplan_market::SourceError;
use gpuplan_runstore::store::install_tls;

const CONNECT: Duration = Duration::from_secs(5);
/// Without a byte for so long, an answer is given up.
const SILENCE: Duration = Duration::from_secs(20);
/// Tries of one question beside the first; a busy server and a broken connection may be better the next time.
const RETRIES: usize = 2;
/// Wait before the second try, doubled before the third, each with jitter.
const BACKOFF: Duration = Duration::from_millis(500);
/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
const MOST_REDIRECTS: usize = 5;
/// Largest answer that is kept in memory.
const LARGEST: usize = 128 << 20;

/// A question. It must be harmless to ask twice.
#[derive(Clone)]
pub struct Request {
    method: reqwest::Method,
    url: String,
    body: Option<(&'static str, String)>,
    headers: Vec<(&'static str, String)>,
    secrets: Vec<String>,
}

impl Request {
    pub fn get(url: impl Into<String>) -> Self {
        let (method, url) = (reqwest::Method::GET, url.into());
        Self { method, url, body: None, headers: Vec::new(), secrets: Vec::new() }
    }

    /// For interfaces that take a question as a body.
    pub fn post(url: impl Into<String>, content_type: &'static str, body: impl Into<String>) -> Self {
        Self { method: reqwest::Method::POST, body: Some((content_type, body.into())), ..Self::get(url) }
    }

    /// What is so already stays so.
    pub fn put(url: impl Into<String>, content_type: &'static str, body: impl Into<String>) -> Self {
        Self { method: reqwest::Method::PUT, ..Self::post(url, content_type, body) }
    }

    /// What is deleted already stays so.
    pub fn delete(url: impl Into<String>) -> Self {
        Self { method: reqwest::Method::DELETE, ..Self::get(url) }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// A header whose value is blanked wherever a server repeats it.
    pub fn secret(mut self, name: &'static str, value: &str, prefix: &str) -> Self {
        self.secrets.push(value.to_owned());
        self.header(name, format!("{prefix}{value}"))
    }

    /// A secret in the body, blanked likewise.
    pub fn hide(mut self, value: &str) -> Self {
        self.secrets.push(value.to_owned());
        self
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The text of an answer.
    fn text(&self, bytes: Vec<u8>) -> Result<String, SourceError> {
        let plain =
            unpacked(bytes, LARGEST).map_err(|detail| SourceError::Malformed { field: self.place(), detail })?;
        String::from_utf8(plain).map_err(|error| malformed(self, &error))
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, SourceError> {
        serde_json::from_str(text).map_err(|error| malformed(self, &error))
    }

    /// Scheme, host and path: what may be shown. Keys sometimes stand in the rest.
    fn place(&self) -> String {
        let bare = self.url.split(['?', '#']).next().unwrap_or_default();
        match (bare.split_once("://"), bare.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            _ => bare.to_owned(),
        }
    }

    fn redacted(&self, text: &str) -> String {
        one_line(&redacted(text, self.secrets.iter().map(String::as_str)))
    }

    fn unreachable(&self, error: reqwest::Error) -> SourceError {
        SourceError::Unreachable { place: self.place(), detail: self.redacted(&root_cause(&error.without_url())) }
    }
}

/// No cloud gives out a shorter key. A letter that stands in for one, as in a test, would blank every text, and tell itself by that.
const SHORTEST_SECRET: usize = 6;

/// A text without the keys that a server repeats in it.
pub fn redacted<'s>(text: &str, secrets: impl Iterator<Item = &'s str>) -> String {
    let long = secrets.filter(|secret| secret.len() >= SHORTEST_SECRET);
    long.fold(text.to_owned(), |text, secret| text.replace(secret, "[redacted]"))
}

/// An answer and when it was made.
#[derive(Clone, Debug)]
pub struct Reply<T> {
    pub value: T,
    pub answered_at: Timestamp,
    /// When the server says that the document last changed.
    pub modified_at: Option<Timestamp>,
}

/// A document as it came.
#[derive(Clone, Debug)]
pub struct Bytes {
    pub value: Vec<u8>,
    /// Name of this state of the document, to ask whether there is another.
    pub etag: Option<String>,
}

pub struct Http {
    client: reqwest::Client,
    dates: Dates,
}

impl Http {
    pub fn new() -> Result<Self, SourceError> {
        install_tls();
        let client = reqwest::Client::builder()
            .user_agent(concat!("gpuplan/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(reqwest::redirect::Policy::custom(same_host))
            .build()
            .map_err(|error| SourceError::Unreachable {
                place: "the network".to_owned(),
                detail: root_cause(&error),
            })?;
        Ok(Self { client, dates: Dates::default() })
    }

    /// Every answer tells these what the time is.
    #[must_use]
    pub fn telling(self, dates: &Dates) -> Self {
        Self { dates: dates.clone(), ..self }
    }

    /// `most`: bytes that are kept.
    async fn whole(&self, request: &Request, most: usize) -> Result<(Vec<u8>, Reply<Option<String>>), SourceError> {
        let mut bytes = Vec::new();
        let reply = self.stream(request, |chunk| {
            bytes.extend_from_slice(chunk);
            if bytes.len() > most { Err(format!("the answer is larger than {most} bytes")) } else { Ok(()) }
        });
        let reply = reply.await?;
        Ok((bytes, reply))
    }

    /// A document of at most so many bytes.
    pub async fn bytes(&self, request: &Request, most: usize) -> Result<Bytes, SourceError> {
        let (value, reply) = self.whole(request, most).await?;
        Ok(Bytes { value, etag: reply.value })
    }

    pub async fn text(&self, request: &Request) -> Result<Reply<String>, SourceError> {
        let (value, reply) = self.named_text(request).await?;
        Ok(Reply { value, answered_at: reply.answered_at, modified_at: reply.modified_at })
    }

    /// The same with the ETag.
    pub(crate) async fn named_text(&self, request: &Request) -> Result<(String, Reply<Option<String>>), SourceError> {
        let (bytes, reply) = self.whole(request, LARGEST).await?;
        Ok((request.text(bytes)?, reply))
    }

    pub async fn json<T: DeserializeOwned>(&self, request: &Request) -> Result<Reply<T>, SourceError> {
        let reply = self.text(request).await?;
        let value = request.read(&reply.value)?;
        Ok(Reply { value, answered_at: reply.answered_at, modified_at: reply.modified_at })
    }

    /// Asks until an answer begins, then hands on its pieces; the reply has its ETag. What broke off half-way is an error.
    async fn stream(
        &self,
        request: &Request,
        mut piece: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<Reply<Option<String>>, SourceError> {
        let response = self.begin(request).await?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let (modified_at, etag) = (header("last-modified").and_then(http_date), header("etag").map(str::to_owned));
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| request.unreachable(error))?;
            piece(&chunk).map_err(|detail| SourceError::Malformed { field: request.place(), detail })?;
        }
        Ok(Reply { value: etag, answered_at: Timestamp::now(), modified_at })
    }

    async fn begin(&self, request: &Request) -> Result<reqwest::Response, SourceError> {
        let attempt = || async {
            match self.send(request).await {
                Ok(response) if matches!(response.status().as_u16(), 429 | 500..=599) => {
                    Err(Failure::Busy(Box::new(response)))
                }
                Ok(response) => Ok(response),
                Err(error) => Err(Failure::Broken(error)),
            }
        };
        let pauses = ExponentialBuilder::default().with_min_delay(BACKOFF).with_max_times(RETRIES).with_jitter();
        let answer = attempt
            .retry(pauses)
            .adjust(|failure, pause| pause.map(|pause| failure.retry_after().unwrap_or(pause)))
            .await;
        match answer {
            Ok(response) => accepted(request, response).await,
            Err(Failure::Busy(response)) => accepted(request, *response).await,
            Err(Failure::Broken(error)) => Err(request.unreachable(error)),
        }
    }

    async fn send(&self, request: &Request) -> Result<reqwest::Response, reqwest::Error> {
        let builder = self.client.request(request.method.clone(), &request.url);
        let builder = match &request.body {
            None => builder,
            Some((kind, body)) => builder.header("content-type", *kind).body(body.clone()),
        };
        let response =
            request.headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, value)).send().await?;
        self.dates.hear(response.headers().get("date").and_then(|date| date.to_str().ok()));
        Ok(response)
    }
}

/// A try that is worth another one.
enum Failure {
    /// The server answers that it cannot now.
    Busy(Box<reqwest::Response>),
    /// There was no answer.
    Broken(reqwest::Error),
}

impl Failure {
    /// Seconds of `Retry-After`, within reason.
    fn retry_after(&self) -> Option<Duration> {
        let Self::Busy(response) = self else { return None };
        let seconds = response.headers().get("retry-after")?.to_str().ok()?.parse().ok()?;
        Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
    }
}

/// A key in a header of its own would follow a redirect to anybody, so only the host that was asked may redirect, to itself.
fn same_host(attempt: reqwest::redirect::Attempt) -> reqwest::redirect::Action {
    let asked = attempt.previous().first().map(reqwest::Url::origin);
    if asked == Some(attempt.url().origin()) && attempt.previous().len() < MOST_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn malformed(request: &Request, error: &dyn std::error::Error) -> SourceError {
    SourceError::Malformed { field: request.place(), detail: request.redacted(&error.to_string()) }
}

async fn accepted(request: &Request, response: reqwest::Response) -> Result<reqwest::Response, SourceError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let code = response.status().as_u16().to_string();
    let detail = match response.text().await {
        Ok(body) if body.trim().is_empty() => "without a word".to_owned(),
        Ok(body) => request.redacted(&body),
        Err(error) => request.redacted(&format!("why cannot be read: {}", root_cause(&error.without_url()))),
    };
    Err(SourceError::Refused { code, detail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_question_has_no_key() {
        let request = Request::get("https://user:word@host/path?key=K1#x")
            .secret("authorization", "key-two", "Bearer ")
            .hide("key-three");
        assert_eq!(request.place(), "https://host/path");
        assert_eq!(request.redacted("bad\nkey key-two, key-three"), "bad key [redacted], [redacted]");
        let careless = Request::get("https://host").hide("a").hide("");
        assert_eq!(careless.redacted("bad day"), "bad day");
    }
}
