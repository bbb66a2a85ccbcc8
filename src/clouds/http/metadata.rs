//! `Metadata`: asks the metadata service of the machine itself. Never through a proxy, never twice, never for long.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::{one_line, root_cause};
use gpuplan_agent::NoticeError;
use gpuplan_runstore::store::install_tls;

/// The service answers from the host below; AWS's own handler of notices allows it as much.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

pub struct Metadata {
    client: reqwest::Client,
    base: String,
}

/// An answer of any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub status: u16,
    pub body: String,
    /// When the service answered, by its own clock.
    pub at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<'a> {
    Get,
    Put,
    Post(&'a str),
}

impl Metadata {
    pub fn new(base: String) -> Result<Self, NoticeError> {
        install_tls();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
        client.map(|client| Self { client, base }).map_err(|error| NoticeError(root_cause(&error)))
    }

    /// `extra` is added to the time that an answer may take, for questions that wait for a change.
    pub async fn ask(
        &self,
        way: Way<'_>,
        path: &str,
        headers: &[(&str, &str)],
        extra: Duration,
    ) -> Result<Said, NoticeError> {
        let url = format!("{}{path}", self.base);
        let request = match way {
            Way::Get => self.client.get(url),
            Way::Put => self.client.put(url),
            Way::Post(body) => self.client.post(url).header("content-type", "application/json").body(body.to_owned()),
        };
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let failed = |error: reqwest::Error| NoticeError(one_line(&root_cause(&error.without_url())));
        let answer = request.timeout(ANSWERS_WITHIN + extra).send().await.map_err(failed)?;
        let at =
            answer.headers().get("date").and_then(|date| date.to_str().ok()).and_then(|date| rfc2822::parse(date).ok());
        let status = answer.status().as_u16();
        Ok(Said { status, body: answer.text().await.map_err(failed)?, at: at.map(|at| at.timestamp()) })
    }
}
