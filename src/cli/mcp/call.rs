//! A call of this program as a process of its own, and its answer as a tool gives it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Map, Value, json};

use crate::mcp::tool::Typed;
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;

/// An agent reads every byte, and thinks with what is left of its window: of a longer list, the first rows.
const LONGEST_LIST: usize = 4096;

/// This program, with the settings that it was started with.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    settings: Vec<String>,
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub document: Value,
    pub is_error: bool,
}

impl Program {
    pub fn this(session: &Session) -> Result<Self, Diagnostic> {
        let path = std::env::current_exe().map_err(Diagnostic::unexpected)?;
        let offline = session.offline.then(|| "--offline".to_owned());
        let folder = session.catalog_dir().map(|folder| format!("--catalog-dir={}", folder.display()));
        Ok(Self { path, settings: offline.into_iter().chain(folder).collect() })
    }

    /// The JSON that a command prints, or its error.
    pub fn json(&self, typed: &Typed) -> Answer {
        let output = match self.output(typed, &["--output", "json"]) {
            Ok(output) => output,
            Err(error) => return not_run(&error),
        };
        match serde_json::from_slice(&output.stdout) {
            Ok(document @ Value::Object(_)) => Answer { document, is_error: !output.status.success() },
            _ => error_of(&output),
        }
    }

    /// What a command tells people, on a terminal that is not there; or its error.
    pub fn told(&self, typed: &Typed) -> Result<String, Answer> {
        let output = self.output(typed, &["--color", "never"]).map_err(|error| not_run(&error))?;
        let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if output.status.success() { Ok(told) } else { Err(Answer::refused(&told, "")) }
    }

    fn output(&self, typed: &Typed, more: &[&str]) -> io::Result<Output> {
        // What follows `--` is a command of the user's own.
        let at = typed.words.iter().position(|word| word == "--").unwrap_or(typed.words.len());
        let (ours, theirs) = typed.words.split_at(at);
        let mut command = Command::new(&self.path);
        command.args(ours).args(&self.settings).args(more).args(theirs);
        command.stdin(if typed.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), &typed.stdin) {
            // It may refuse its arguments before it reads.
            match pipe.write_all(text.as_bytes()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                _ => {}
            }
        }
        child.wait_with_output()
    }
}

/// An argument that no program can be given, or a system without room for another process.
fn not_run(error: &io::Error) -> Answer {
    Answer::refused(&format!("the command could not be run: {error}"), "")
}

/// The error document, which is the last line of stderr; or whatever stands there.
fn error_of(output: &Output) -> Answer {
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.trim().lines().last().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(document @ Value::Object(_)) => Answer { document, is_error: true },
        _ => Answer::refused(&format!("{}: {}", output.status, told.trim()), ""),
    }
}

impl Answer {
    /// An error of the tool's own, in the words of docs/schema/error.json.
    pub fn refused(message: &str, hint: &str) -> Self {
        let hint = (!hint.is_empty()).then_some(hint);
        Self { document: json!({"error": {"kind": "usage", "message": message, "hint": hint}}), is_error: true }
    }

    /// With the first rows of every list, and how many are left out.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        let Some(fields) = self.document.as_object_mut() else { return self };
        let mut left_out = Map::new();
        for (name, value) in fields.iter_mut() {
            let Some(rows) = value.as_array_mut() else { continue };
            let mut bytes = 0;
            let fits = |row: &Value| {
                bytes += row.to_string().len();
                bytes <= LONGEST_LIST
            };
            let kept = rows.iter().map(fits).take_while(|fits| *fits).count();
            if kept < rows.len() {
                left_out.insert(name.clone(), (rows.len() - kept).into());
                rows.truncate(kept);
            }
        }
        if !left_out.is_empty() {
            fields.insert("left_out".to_owned(), Value::Object(left_out));
        }
        self
    }

    pub fn result(&self) -> Value {
        let text = self.document.to_string();
        json!({"content": [{"type": "text", "text": text}], "structuredContent": self.document, "isError": self.is_error})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_and_counted() {
        let row = "x".repeat(1500);
        let document =
            json!({"version": 1, "long": [row, row, row, row], "short": [1, 2], "one": {"a": [row, row, row, row]}});
        let short = Answer { document, is_error: false }.shortened().document;
        assert_eq!((short["long"].as_array().unwrap().len(), &short["left_out"]), (2, &json!({"long": 2})));
        assert_eq!((&short["short"], short["one"]["a"].as_array().unwrap().len()), (&json!([1, 2]), 4));
        let whole = Answer { document: json!({"rows": [1]}), is_error: false };
        assert_eq!(whole.clone().shortened(), whole);
    }

    #[test]
    fn an_answer_is_text_and_structure_alike() {
        let result = Answer::refused("no", "type this").result();
        assert_eq!(result["structuredContent"]["error"]["hint"], "type this");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&text, result["isError"].as_bool()), (&result["structuredContent"], Some(true)));
    }
}
