//! The client of an engine, run as a process: no shell, a time limit, and its own words where it fails.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use gpuplan_launch::engine::EngineError;

/// A question may take so long.
pub const QUICK: Duration = Duration::from_mins(2);
/// A submission: SkyPilot starts a controller first, on a machine of its own.
pub const SLOW: Duration = Duration::from_mins(30);
/// Longest part of a client's words in an error.
const MOST_WORDS: usize = 400;

/// A program, and what to install where it is missing.
#[derive(Clone, Debug)]
pub struct Client {
    pub engine: &'static str,
    pub program: &'static str,
    pub install: &'static str,
    /// Instead of `PATH`.
    pub path: Option<OsString>,
}

/// What a client wrote, and whether it ended well.
#[derive(Clone, Debug)]
pub struct Answer {
    pub is_done: bool,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Client {
    pub async fn ask(&self, arguments: &[&str], options: &[String]) -> Result<Answer, EngineError> {
        self.run(arguments, options, "", QUICK).await
    }

    /// Asks what only a client that ends well answers.
    pub async fn answer(&self, arguments: &[&str], options: &[String]) -> Result<Answer, EngineError> {
        let answer = self.ask(arguments, options).await?;
        if answer.is_done { Ok(answer) } else { Err(self.unclear(&answer)) }
    }

    pub async fn run(
        &self,
        arguments: &[&str],
        options: &[String],
        input: &str,
        limit: Duration,
    ) -> Result<Answer, EngineError> {
        let unclear = |detail: String| EngineError::Unclear { engine: self.engine, detail };
        let mut command = Command::new(self.program);
        command.args(arguments).args(options).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => EngineError::Missing { program: self.program, install: self.install },
            _ => unclear(format!("`{}` cannot be run: {error}", self.program)),
        })?;
        let mut stdin = child.stdin.take();
        let conversation = async {
            if let Some(pipe) = &mut stdin {
                // A client that does not read its input has said why on stderr.
                let _ = pipe.write_all(input.as_bytes()).await;
            }
            drop(stdin);
            child.wait_with_output().await
        };
        let ended = timeout(limit, conversation)
            .await
            .map_err(|_| unclear(format!("`{}` took more than {limit:?}", self.program)))?;
        let output = ended.map_err(|error| unclear(error.to_string()))?;
        Ok(Answer {
            is_done: output.status.success(),
            stdout: output.stdout,
            stderr: shortened(&String::from_utf8_lossy(&output.stderr)),
        })
    }

    pub fn refused(&self, answer: &Answer) -> EngineError {
        let detail = if answer.stderr.is_empty() { shortened(&answer.text()) } else { answer.stderr.clone() };
        EngineError::Refused { engine: self.engine, detail }
    }

    pub fn unclear(&self, answer: &Answer) -> EngineError {
        let detail = if answer.stderr.is_empty() { shortened(&answer.text()) } else { answer.stderr.clone() };
        EngineError::Unclear { engine: self.engine, detail }
    }
}

/// The end of what was said, where the reason stands.
fn shortened(text: &str) -> String {
    let plain = text.trim();
    let from = plain.char_indices().rev().nth(MOST_WORDS).map_or(0, |(at, _)| at);
    plain[from..].to_owned()
}
