//! `gpuplan mcp`: the planner as tools of an agent, by the Model Context Protocol on standard input and output.
//!
//! A tool is a command of this program, run as a process of its own: its answer is the JSON that a person would get, and what a tool can do
//! is what the table in `tool.rs` lets through. Only `launch` can spend, and only after a person has typed the name of the run.

pub mod call;
pub mod client;
pub mod launch;
pub mod message;
pub mod pages;
pub mod resource;
pub mod tool;

use serde_json::{Map, Value, json};

use crate::mcp::call::Answer;
use crate::mcp::client::Client;
use crate::mcp::message::{Failure, Message};
use crate::mcp::tool::Tool;
use crate::session::Session;
use crate::session::diagnostic::{Diagnostic, Exit};

/// Serves until standard input ends. `commands` are those of the program, whose arguments the tools take.
pub fn run(mut commands: clap::Command, session: &Session) -> Result<Exit, Diagnostic> {
    commands.build();
    let mut client = Client::new(commands, session)?;
    while let Some(message) = client.next_message()? {
        let Some(id) = message.id.clone() else { continue };
        match answer(&mut client, &message) {
            Ok(result) => client.send(&message::result(&id, result))?,
            Err(Refused::Failure(failure)) => client.send(&message::failure(&id, &failure))?,
            Err(Refused::Broken(broken)) => return Err(broken),
        }
    }
    Ok(Exit::Done)
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

fn answer(client: &mut Client, message: &Message) -> Result<Value, Refused> {
    let text = |key: &str| message.params.get(key).and_then(Value::as_str).unwrap_or_default();
    match message.method.as_str() {
        "initialize" => {
            client.asks_people = message::asks_people(&message.params);
            Ok(message::greeting(text("protocolVersion")))
        }
        "ping" => Ok(json!({})),
        "tools/list" => {
            let tools: Vec<Value> = tool::TOOLS.iter().map(|tool| tool.described(&client.commands)).collect();
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
            Ok(call(client, tool, given, message)?.result())
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

fn call(
    client: &mut Client,
    tool: &Tool,
    mut given: Map<String, Value>,
    message: &Message,
) -> Result<Answer, Diagnostic> {
    if tool.spends {
        return launch::call(client, tool, given, message);
    }
    let is_full = given.remove("full").and_then(|full| full.as_bool()).unwrap_or(false);
    match tool.typed(&client.commands, &given) {
        Ok(typed) => {
            let answer = client.program.json(&typed);
            Ok(if is_full { answer } else { answer.shortened() })
        }
        Err(wrong) => Ok(Answer::refused(&wrong, "tools/list shows the arguments")),
    }
}
