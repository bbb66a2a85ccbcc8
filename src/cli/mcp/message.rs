//! Messages of the Model Context Protocol (https://modelcontextprotocol.io/specification/2025-11-25): JSON-RPC 2.0, one message a line.

use serde_json::{Map, Value, json};

/// Versions of the protocol whose messages are these; the newest is offered to a client that asks for another.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What an agent is told before it sees the tools.
const INSTRUCTIONS: &str = "Plans GPU runs: which cloud GPUs to rent, how many, where, what the finished run costs and when it ends. \
    `plan` with a model, a task and an amount of work answers first; `explain` says why. Figures are bands, prices have an origin and an age: \
    pass both on. Lists are cut (`left_out` counts the rest); `full` gives everything. Nothing is rented unless a person types the name of the run.";

/// A request (with `id`), a notification (without), or the answer to a question of ours (no method).
#[derive(Clone, Debug)]
pub struct Message {
    pub id: Option<Value>,
    pub method: String,
    pub params: Map<String, Value>,
    answer: Option<Value>,
}

/// Why a request was not carried out, in JSON-RPC's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: i32,
    message: String,
}

impl Failure {
    pub fn parameters(message: impl Into<String>) -> Self {
        Self { code: -32602, message: message.into() }
    }

    pub fn no_method(method: &str) -> Self {
        Self { code: -32601, message: format!("there is no method `{method}`") }
    }

    pub fn no_resource(uri: &str) -> Self {
        Self { code: -32002, message: format!("there is no resource `{uri}`; resources/list names them") }
    }

    fn invalid(message: &str) -> Self {
        Self { code: -32600, message: message.to_owned() }
    }
}

impl Message {
    pub fn read(line: &[u8]) -> Result<Self, Failure> {
        let parsed = serde_json::from_slice(line);
        let value: Value = parsed
            .map_err(|error| Failure { code: -32700, message: format!("a message is a line of JSON: {error}") })?;
        let Value::Object(mut fields) = value else { return Err(Failure::invalid("a message is one JSON object")) };
        let method = fields.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        let answer = fields.remove("result");
        if method.is_empty() && answer.is_none() && !fields.contains_key("error") {
            return Err(Failure::invalid("a message has a method, a result or an error"));
        }
        let params = match fields.remove("params") {
            Some(Value::Object(params)) => params,
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err(Failure::parameters("`params` is no object")),
        };
        let id = fields.remove("id").filter(|id| !id.is_null());
        // An answer that nobody waits for any more is no request.
        Ok(Self { id: id.filter(|_| !method.is_empty() || answer.is_some()), method, params, answer })
    }

    /// It is the answer, or the refusal, of this question.
    pub fn answers(&self, question: &Value) -> bool {
        self.method.is_empty() && self.id.as_ref() == Some(question)
    }

    /// What a person entered in this field and sent off.
    pub fn accepted(&self, field: &str) -> Option<String> {
        let answer = self.answer.as_ref().filter(|answer| answer["action"] == "accept")?;
        answer["content"][field].as_str().map(str::to_owned)
    }

    pub fn cancels(&self, request: &Message) -> bool {
        self.method == "notifications/cancelled" && self.params.get("requestId") == request.id.as_ref()
    }
}

/// The client can put a form before a person (`elicitation`).
pub fn asks_people(initialize: &Map<String, Value>) -> bool {
    let elicitation = initialize.get("capabilities").and_then(|capabilities| capabilities.get("elicitation"));
    // Without modes it is forms, as before there were modes.
    elicitation.and_then(Value::as_object).is_some_and(|modes| modes.is_empty() || modes.contains_key("form"))
}

pub fn greeting(wanted: &str) -> Value {
    let version = VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}, "resources": {}},
        "serverInfo": {"name": "gpuplan", "title": "gpuplan", "version": env!("CARGO_PKG_VERSION")},
        "instructions": INSTRUCTIONS,
    })
}

pub fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub fn failure(id: &Value, failure: &Failure) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": failure.code, "message": failure.message}})
}

/// A form with one field, which the client puts before a person.
pub fn question(id: &Value, message: &str, field: &str, title: &str) -> Value {
    let properties = json!({field: {"type": "string", "title": title}});
    let form = json!({"type": "object", "properties": properties, "required": [field]});
    let params = json!({"message": message, "requestedSchema": form});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_no_message_is_refused_by_its_kind() {
        for (line, code) in [
            ("{", -32700),
            ("\u{0}", -32700),
            ("[]", -32600),
            ("7", -32600),
            (r#"{"id":1}"#, -32600),
            (r#"{"method":"ping","params":[1]}"#, -32602),
        ] {
            assert_eq!(Message::read(line.as_bytes()).unwrap_err().code, code, "{line}");
        }
        assert_eq!(Message::read(&[0xff, 0xfe]).unwrap_err().code, -32700);
        // An error of the client's is answered by nothing.
        assert_eq!(message(r#"{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"x"}}"#).id, None);
    }

    #[test]
    fn the_version_is_the_client_s_or_the_newest() {
        assert_eq!(greeting("2025-03-26")["protocolVersion"], "2025-03-26");
        for unknown in ["2026-07-28", "1.0", ""] {
            assert_eq!(greeting(unknown)["protocolVersion"], VERSIONS[0], "{unknown}");
        }
    }

    #[test]
    fn only_a_form_that_a_person_sent_off_is_a_yes() {
        let id = json!("question-1");
        let answer = |result: &str| message(&format!(r#"{{"jsonrpc":"2.0","id":"question-1","result":{result}}}"#));
        let yes = answer(r#"{"action":"accept","content":{"run":"r1"}}"#);
        assert!(yes.answers(&id) && !yes.answers(&json!("question-2")));
        assert_eq!(yes.accepted("run").as_deref(), Some("r1"));
        for no in [
            r#"{"action":"decline","content":{"run":"r1"}}"#,
            r#"{"action":"accept"}"#,
            r#"{"action":"accept","content":{"run":true}}"#,
            r#"{"content":{"run":"r1"}}"#,
            "true",
        ] {
            assert_eq!(answer(no).accepted("run"), None, "{no}");
        }
    }

    #[test]
    fn a_client_that_shows_addresses_only_asks_nobody() {
        let client = |capabilities: Value| asks_people(json!({"capabilities": capabilities}).as_object().unwrap());
        assert!(client(json!({"elicitation": {}})) && client(json!({"elicitation": {"form": {}, "url": {}}})));
        assert!(!client(json!({"elicitation": {"url": {}}})) && !client(json!({})) && !asks_people(&Map::new()));
    }
}
