//! A stand-in for Compute Engine that knows Google's own schema: what the schema does not allow is refused by name.
//!
//! Routes, parameters and messages come from the discovery document in `tests/fixtures/gcp`. A test says what a method
//! answers; an answer that Google could not give is refused too. Other interfaces of Google at the same address, such as
//! billing, are not checked: they come to the test as `GET /path`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;

use jiff::Timestamp;
use regex_lite::Regex;
use serde_json::{Value, json};

use crate::server::date;

/// Every interface of Google takes them (cloud.google.com/apis/docs/system-parameters); the document does not list them.
const SYSTEM_PARAMETERS: [&str; 2] = ["$alt", "$apiVersion"];

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../fixtures/gcp/compute.v1.trimmed.json")).unwrap());
static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(routes);

/// A question that the schema allows.
#[derive(Clone, Debug)]
pub struct Call {
    /// Such as `compute.regions.get`, or verb and path of another interface.
    pub method: String,
    /// Of path and query, decoded.
    pub parameters: BTreeMap<String, String>,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

pub enum Answer {
    Json(Value),
    /// Status, reason as Google words it, message.
    Refused(u16, &'static str, String),
    /// What was asked is done, and the answer does not arrive.
    Lost,
}

pub struct FakeGce {
    pub endpoint: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl FakeGce {
    pub fn start(answer: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (calls, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let kept = calls.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer) = (kept.clone(), answer.clone());
                thread::spawn(move || serve(stream, &kept, &*answer));
            }
        });
        Self { endpoint, calls }
    }

    /// Every call that the schema allowed, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

struct Route {
    id: String,
    verb: String,
    path: Regex,
    names: Vec<String>,
    method: &'static Value,
}

fn routes() -> Vec<Route> {
    let methods = DOCUMENT["methods"].as_object().unwrap();
    let named = Regex::new(r"\{(\w+)\}").unwrap();
    let route = |(id, method): (&String, &'static Value)| {
        let path = format!("/{}{}", DOCUMENT["servicePath"].as_str().unwrap(), method["flatPath"].as_str().unwrap());
        Route {
            id: id.clone(),
            verb: method["httpMethod"].as_str().unwrap().to_owned(),
            names: named.captures_iter(&path).map(|name| name[1].to_owned()).collect(),
            path: Regex::new(&format!("^{}$", named.replace_all(&path, "([^/]+)"))).unwrap(),
            method,
        }
    };
    methods.iter().map(route).collect()
}

/// One request a connection.
fn serve(stream: TcpStream, kept: &Mutex<Vec<Call>>, answer: &(dyn Fn(&Call) -> Answer + Send + Sync)) {
    let mut reader = BufReader::new(stream);
    let Some((verb, target, headers, body)) = read(&mut reader) else { return };
    let (status, body) = match understand(&verb, &target, headers, &body) {
        Err(problem) => refused(400, "invalid", &problem),
        Ok((call, response)) => {
            kept.lock().unwrap().push(call.clone());
            match answer(&call) {
                Answer::Refused(status, reason, message) => refused(status, reason, &message),
                Answer::Lost => return,
                Answer::Json(value) => {
                    match response.map(|schema| problems(&value, &DOCUMENT["schemas"][schema], schema, false)) {
                        Some(wrong) if !wrong.is_empty() => {
                            refused(500, "testAnswer", &format!("this test's answer: {}", wrong.join("; ")))
                        }
                        _ => (200, value),
                    }
                }
            }
        }
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} -\r\nDate: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        date(0),
        body.len()
    );
    let _ = reader.into_inner().write_all((head + &body).as_bytes());
}

fn refused(status: u16, reason: &str, message: &str) -> (u16, Value) {
    let error = json!({"message": message, "domain": "global", "reason": reason});
    (status, json!({"error": {"code": status, "message": message, "errors": [error]}}))
}

type Head = (String, String, BTreeMap<String, String>, String);

fn read(reader: &mut BufReader<TcpStream>) -> Option<Head> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut words = first.split(' ');
    let (verb, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((verb, target, headers, String::from_utf8(body).ok()?))
}

/// The call and the name of its answer's schema, or what the schema does not allow.
fn understand(
    verb: &str,
    target: &str,
    headers: BTreeMap<String, String>,
    body: &str,
) -> Result<(Call, Option<&'static str>), String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parameters: BTreeMap<String, String> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect();
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(body).map_err(|error| format!("body: {error}"))?
    };
    let service = format!("/{}", DOCUMENT["servicePath"].as_str().unwrap());
    if !path.starts_with(&service) {
        return Ok((Call { method: format!("{verb} {path}"), parameters, headers, body }, None));
    }
    let found =
        ROUTES.iter().filter(|route| route.verb == verb).find_map(|route| Some((route, route.path.captures(path)?)));
    let (route, values) = found.ok_or_else(|| format!("no method {verb} {path}"))?;
    let known = |name: &str| {
        let schemas = [&route.method["parameters"][name], &DOCUMENT["parameters"][name]];
        schemas.into_iter().find(|schema| schema.is_object())
    };
    let given = route
        .names
        .iter()
        .zip(values.iter().skip(1).flatten())
        .map(|(name, value)| (name.clone(), decoded(value.as_str())));
    parameters.extend(given.collect::<Vec<_>>());
    for (name, value) in parameters.iter().filter(|(name, _)| !SYSTEM_PARAMETERS.contains(&name.as_str())) {
        let schema =
            known(name).ok_or_else(|| format!("Unknown name \"{name}\": no such parameter of {}", route.id))?;
        first(text_problems(value, schema, name))?;
    }
    match route.method["request"].as_str() {
        Some(schema) => first(problems(&body, &DOCUMENT["schemas"][schema], schema, true))?,
        // The SDK sends an empty object where a method takes nothing.
        None if !body.is_null() && body != Value::Object(serde_json::Map::new()) => {
            return Err(format!("{} takes no body", route.id));
        }
        None => {}
    }
    Ok((Call { method: route.id.clone(), parameters, headers, body }, route.method["response"].as_str()))
}

fn first(problems: Vec<String>) -> Result<(), String> {
    problems.into_iter().next().map_or(Ok(()), Err)
}

/// A parameter arrives as text whatever its type is.
fn text_problems(text: &str, schema: &'static Value, at: &str) -> Vec<String> {
    let value = match schema["type"].as_str() {
        Some("boolean") => text.parse().map(Value::Bool).ok(),
        Some("integer") => text.parse::<i64>().map(Value::from).ok(),
        _ => None,
    };
    problems(&value.unwrap_or_else(|| text.into()), schema, at, true)
}

/// What of a value is not as its schema says. Google adds words to a list in its answers, never in what it accepts.
fn problems(value: &Value, schema: &'static Value, at: &str, is_request: bool) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return problems(value, &DOCUMENT["schemas"][name], at, is_request);
    }
    let wrong = |what: &str| vec![format!("Invalid value at '{at}': {value} is not {what}")];
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(fields)) => fields
            .iter()
            .flat_map(|(name, field)| {
                let schema = [&schema["properties"][name], &schema["additionalProperties"]]
                    .into_iter()
                    .find(|schema| schema.is_object());
                match schema {
                    Some(schema) => problems(field, schema, &format!("{at}.{name}"), is_request),
                    None => vec![format!("Unknown name \"{name}\" at '{at}': Cannot find field.")],
                }
            })
            .collect(),
        (Some("array"), Value::Array(items)) => {
            let each = items.iter().enumerate();
            each.flat_map(|(index, item)| problems(item, &schema["items"], &format!("{at}[{index}]"), is_request))
                .collect()
        }
        (Some("boolean"), Value::Bool(_)) | (Some("number"), Value::Number(_)) | (Some("any"), _) => Vec::new(),
        (Some("integer"), Value::Number(number)) => {
            let range = if schema["format"] == "uint32" {
                0..=i64::from(u32::MAX)
            } else {
                i64::from(i32::MIN)..=i64::from(i32::MAX)
            };
            if number.as_i64().is_some_and(|number| range.contains(&number)) {
                Vec::new()
            } else {
                wrong("an integer of 32 bits")
            }
        }
        (Some("string"), Value::String(text)) => {
            string_problem(text, schema, is_request).map_or_else(Vec::new, |what| wrong(&what))
        }
        // The text of a 64-bit integer may be a number too.
        (Some("string"), Value::Number(number))
            if schema["format"].as_str().is_some_and(|format| format.ends_with("int64")) =>
        {
            if number.is_i64() || number.is_u64() { Vec::new() } else { wrong("an integer of 64 bits") }
        }
        (kind, _) => wrong(&format!("of type {}", kind.unwrap_or("unknown"))),
    }
}

fn string_problem(text: &str, schema: &Value, is_request: bool) -> Option<String> {
    let words = schema["enum"].as_array().filter(|_| is_request);
    if words.is_some_and(|words| !words.iter().any(|word| word == text)) {
        return Some("one of its words".to_owned());
    }
    let is_whole = |pattern: &str| Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(text);
    if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !is_whole(pattern)) {
        return Some(format!("of the form {pattern}"));
    }
    let is_right = match schema["format"].as_str() {
        Some("int64") => text.parse::<i64>().is_ok(),
        Some("uint64") => text.parse::<u64>().is_ok(),
        Some("google-datetime") => text.parse::<Timestamp>().is_ok(),
        Some("google-duration") => text.strip_suffix('s').is_some_and(|seconds| seconds.parse::<f64>().is_ok()),
        _ => true,
    };
    (!is_right).then(|| format!("a {}", schema["format"].as_str().unwrap_or_default()))
}

pub fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [byte, after @ ..] = rest {
        let escaped = (*byte == b'%').then(|| after.get(..2)).flatten();
        let value = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(value.unwrap_or(if *byte == b'+' { b' ' } else { *byte }));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
