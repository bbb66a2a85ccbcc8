//! The client on the other end: messages that it sends, answers to it, and the one question that only a person may answer.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use serde_json::{Value, json};

use crate::mcp::call::Program;
use crate::mcp::message::{self, Message};
use crate::session::Session;
use crate::session::diagnostic::Diagnostic;

/// A message is a line; one that is longer than any plan document ends the session.
const LONGEST_LINE: u64 = 64 << 20;

/// The client, and the program that answers it.
pub struct Client<'a> {
    session: &'a Session,
    pub program: Program,
    pub commands: clap::Command,
    /// Can put a form before a person.
    pub asks_people: bool,
    /// Came while a person was asked something.
    waiting: VecDeque<Message>,
    questions: u32,
}

impl<'a> Client<'a> {
    pub fn new(commands: clap::Command, session: &'a Session) -> Result<Self, Diagnostic> {
        let program = Program::this(session)?;
        Ok(Self { session, program, commands, asks_people: false, waiting: VecDeque::new(), questions: 0 })
    }

    pub fn send(&self, message: &Value) -> Result<(), Diagnostic> {
        self.session.printer.data(&format!("{message}\n")).map(drop)
    }

    /// The next request or notification. `None`: the client is gone.
    pub fn next_message(&mut self) -> Result<Option<Message>, Diagnostic> {
        match self.waiting.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<Message>, Diagnostic> {
        loop {
            let mut line = Vec::new();
            let read = io::stdin().lock().take(LONGEST_LINE).read_until(b'\n', &mut line);
            if read.map_err(Diagnostic::unexpected)? == 0 {
                return Ok(None);
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            match Message::read(&line) {
                Ok(message) => return Ok(Some(message)),
                Err(failure) => self.send(&message::failure(&Value::Null, &failure))?,
            }
        }
    }

    /// What a person answers to a question that only they may answer. `None`: they do not want it, or cannot be asked any more.
    pub fn ask_person(
        &mut self,
        question: &str,
        field: &str,
        title: &str,
        for_request: &Message,
    ) -> Result<Option<String>, Diagnostic> {
        self.questions += 1;
        let id = json!(format!("question-{}", self.questions));
        self.send(&message::question(&id, question, field, title))?;
        while let Some(message) = self.read()? {
            if message.answers(&id) {
                return Ok(message.accepted(field));
            }
            if message.cancels(for_request) {
                return Ok(None);
            }
            if message.method == "ping"
                && let Some(id) = &message.id
            {
                self.send(&message::result(id, json!({})))?;
                continue;
            }
            self.waiting.push_back(message);
        }
        Ok(None)
    }
}
