//! `gpuplan mcp`: the planner as tools of an agent, by the Model Context Protocol on standard input and output.
//!
//! A tool is a command of this program, run as a process of its own: its answer is the JSON that a person would get, and what a tool can do
//! is what the table in `tool.rs` lets through. Only `launch` can spend, and only after a person has typed the name of the run.

pub mod call;
pub mod launch;
pub mod message;
pub mod resource;
pub mod tool;

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use clap::CommandFactory;
use serde_json::{Map, Value, json};

use crate::command::Arguments;
use crate::mcp::call::{Answer, Program};
use crate::mcp::message::{Failure, Message};
use crate::mcp::tool::Tool;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};

/// A message is a line; one that is longer than any plan document ends the session.
const LONGEST_LINE: u64 = 64 << 20;

/// Serves until standard input ends.
pub fn run(session: &Session) -> Result<Exit, Diagnostic> {
    let mut server = Server::new(session)?;
    while let Some(message) = server.next()? {
        let Some(id) = message.id.clone() else { continue };
        match server.answer(&message) {
            Ok(result) => server.send(&message::result(&id, result))?,
            Err(Refused::Failure(failure)) => server.send(&message::failure(&id, &failure))?,
            Err(Refused::Broken(broken)) => return Err(broken),
        }
    }
    Ok(Exit::Done)
}

/// One client on the other end.
pub struct Server<'a> {
    session: &'a Session,
    program: Program,
    commands: clap::Command,
    /// Came while a person was asked something.
    waiting: VecDeque<Message>,
    asks_people: bool,
    questions: u32,
}

/// Why a request has no result: it was wrong, or nobody can be answered any more.
enum Refused {
    Failure(Failure),
    Broken(Diagnostic),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Diagnostic> for Refused {
    fn from(broken: Diagnostic) -> Self {
        Self::Broken(broken)
    }
}

impl<'a> Server<'a> {
    fn new(session: &'a Session) -> Result<Self, Diagnostic> {
        let mut commands = Arguments::command();
        commands.build();
        let program = Program::this(session)?;
        Ok(Self { session, program, commands, waiting: VecDeque::new(), asks_people: false, questions: 0 })
    }

    fn send(&self, message: &Value) -> Result<(), Diagnostic> {
        self.session.printer.data(&format!("{message}\n")).map(drop)
    }

    /// The next request or notification. `None`: the client is gone.
    fn next(&mut self) -> Result<Option<Message>, Diagnostic> {
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

    fn answer(&mut self, message: &Message) -> Result<Value, Refused> {
        let text = |key: &str| message.params.get(key).and_then(Value::as_str).unwrap_or_default();
        match message.method.as_str() {
            "initialize" => {
                self.asks_people = message::asks_people(&message.params);
                Ok(message::greeting(text("protocolVersion")))
            }
            "ping" => Ok(json!({})),
            "tools/list" => {
                let tools: Vec<Value> = tool::TOOLS.iter().map(|tool| tool.described(&self.commands)).collect();
                Ok(json!({"tools": tools}))
            }
            "tools/call" => {
                let name = text("name").to_owned();
                let tool = tool::find(&name).ok_or_else(|| Failure::parameters(tool::unknown(&name)))?;
                let given = match message.params.get("arguments") {
                    None | Some(Value::Null) => Map::new(),
                    Some(Value::Object(given)) => given.clone(),
                    Some(_) => return Err(Failure::parameters("`arguments` is no object").into()),
                };
                Ok(self.call(tool, given, message)?.result())
            }
            "resources/list" => Ok(json!({"resources": resource::listed()})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
            "resources/read" => {
                let uri = text("uri");
                let found = resource::read(uri).ok_or_else(|| Failure::no_resource(uri))?;
                Ok(json!({"contents": [found]}))
            }
            method => Err(Failure::no_method(method).into()),
        }
    }

    fn call(&mut self, tool: &Tool, mut given: Map<String, Value>, message: &Message) -> Result<Answer, Diagnostic> {
        if tool.spends {
            return launch::call(self, tool, given, message);
        }
        let is_full = given.remove("full").and_then(|full| full.as_bool()).unwrap_or(false);
        match tool.typed(&self.commands, &given) {
            Ok(typed) => {
                let answer = self.program.json(&typed);
                Ok(if is_full { answer } else { answer.shortened() })
            }
            Err(wrong) => Ok(Answer::refused(&wrong, "tools/list shows the arguments")),
        }
    }

    /// What a person answers to a question that only they may answer. `None`: they do not want it, or cannot be asked any more.
    fn ask_person(
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
