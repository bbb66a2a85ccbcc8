//! A proxy in front of a fake AWS that goes wrong on purpose: by action, region and number of the call.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::server::{Reply, Request, Server};

/// A request as a rule sees it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Such as `DescribeSpotPriceHistory`; for a public document `GET /path`.
    pub action: String,
    /// The region that the request is signed for; empty where it is not signed.
    pub region: String,
    /// The service, likewise.
    pub service: String,
    /// Counted from zero for each action and region.
    pub number: usize,
    pub body: String,
    is_json: bool,
}

impl Call {
    fn new(request: &Request) -> Self {
        let target = request.header("x-amz-target");
        let signed_for = |part| request.header("authorization").split('/').nth(part).unwrap_or_default().to_owned();
        let (region, service) = (signed_for(2), signed_for(3));
        let action = match (target.rsplit_once('.'), form(&request.body, "Action")) {
            (Some((_, action)), _) => action.to_owned(),
            (None, Some(action)) => action,
            (None, None) if service == "scheduler" && request.method == "DELETE" => "DeleteSchedule".to_owned(),
            (None, None) if service == "scheduler" && request.method == "PUT" => "UpdateSchedule".to_owned(),
            (None, None) if service == "scheduler" => "CreateSchedule".to_owned(),
            (None, None) => format!("GET {}", request.path),
        };
        Self { action, region, service, number: 0, body: request.body.clone(), is_json: !target.is_empty() }
    }

    /// A parameter of a query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        form(&self.body, name)
    }

    /// `Name.1`, `Name.2`, ...
    pub fn parameters(&self, name: &str) -> Vec<String> {
        (1..).map_while(|number| self.parameter(&format!("{name}.{number}"))).collect()
    }

    pub fn reply(&self, body: String) -> Reply {
        Reply::Text(200, if self.is_json { "application/json" } else { "text/xml" }, body)
    }

    pub fn refusal(&self, status: u16, code: &str, message: &str) -> Reply {
        if self.is_json {
            let body = format!("{{\"__type\": \"{code}\", \"message\": \"{message}\"}}");
            return Reply::Text(status, "application/x-amz-json-1.1", body);
        }
        let error = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        // STS words its refusals as the older services do.
        let body = if self.action == "GetCallerIdentity" {
            format!("<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>")
        } else {
            format!("<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>")
        };
        Reply::Text(status, "text/xml", body)
    }
}

fn form(body: &str, name: &str) -> Option<String> {
    let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| decoded(value)).next()
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let hex = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(hex.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if hex.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Given the call and how it would go on.
type Around = Box<dyn Fn(&Call, &dyn Fn() -> Reply) -> Reply + Send + Sync>;

type When = Box<dyn Fn(&Call) -> bool + Send + Sync>;

/// What happens instead of, or to, the answer.
pub enum Fault {
    /// Status, code, message.
    Refuse(u16, &'static str, &'static str),
    /// An answer of the test's own.
    Answer(Box<dyn Fn(&Call) -> Reply + Send + Sync>),
    /// An answer of the test's own, made from what would have been answered, if it wants that.
    Around(Around),
    /// It happens, and nobody hears of it.
    Lost,
    /// Half of what would have been answered.
    CutInHalf,
    /// Nothing, until the other side gives up.
    Hang,
}

pub struct Rule {
    action: String,
    region: Option<String>,
    calls: Range<usize>,
    when: Option<When>,
    fault: Fault,
}

impl Rule {
    /// `*` is every action.
    pub fn on(action: &str, fault: Fault) -> Self {
        Self { action: action.to_owned(), region: None, calls: 0..usize::MAX, when: None, fault }
    }

    pub fn answer(action: &str, answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(action, Fault::Answer(Box::new(answer)))
    }

    pub fn around(action: &str, around: impl Fn(&Call, &dyn Fn() -> Reply) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(action, Fault::Around(Box::new(around)))
    }

    /// Asked last, so it may count.
    pub fn when(self, when: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        Self { when: Some(Box::new(when)), ..self }
    }

    pub fn region(self, region: &str) -> Self {
        Self { region: Some(region.to_owned()), ..self }
    }

    /// Counted from zero for each action and region.
    pub fn calls(self, calls: Range<usize>) -> Self {
        Self { calls, ..self }
    }

    fn applies(&self, call: &Call) -> bool {
        (self.action == "*" || self.action == call.action)
            && self.region.as_ref().is_none_or(|region| *region == call.region)
            && self.calls.contains(&call.number)
            && self.when.as_ref().is_none_or(|when| when(call))
    }
}

pub struct Proxy {
    pub endpoint: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Proxy {
    /// The first rule that applies decides; a fault that changes an answer changes that of the next one that applies, or of
    /// `upstream` (host and port). Without upstream everything else is refused.
    pub fn start(upstream: Option<String>, rules: Vec<Rule>) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (kept, counts) = (calls.clone(), Mutex::new(HashMap::new()));
        let server = Server::start(move |request| {
            let mut call = Call::new(request);
            {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry((call.action.clone(), call.region.clone())).or_insert(0);
                call.number = *count;
                *count += 1;
            }
            kept.lock().unwrap().push(call.clone());
            answer(request, &call, &rules, upstream.as_deref())
        });
        Self { endpoint: server.endpoint, calls }
    }

    /// Everything that was asked so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

fn answer(request: &Request, call: &Call, rules: &[Rule], upstream: Option<&str>) -> Reply {
    let Some(position) = rules.iter().position(|rule| rule.applies(call)) else {
        return upstream.map_or_else(
            || call.refusal(400, "InvalidAction", "nobody answers this"),
            |address| forward(request, call, address),
        );
    };
    let otherwise = || answer(request, call, &rules[position + 1..], upstream);
    match &rules[position].fault {
        Fault::Refuse(status, code, message) => call.refusal(*status, code, message),
        Fault::Answer(answer) => answer(call),
        Fault::Around(around) => around(call, &otherwise),
        Fault::Lost => {
            otherwise();
            Reply::Hangup
        }
        Fault::Hang => Reply::Silence,
        Fault::CutInHalf => {
            let mut reply = otherwise();
            if let Reply::Text(_, _, body) = &mut reply {
                *body = body.chars().take(body.chars().count() / 2).collect();
            }
            reply
        }
    }
}

fn forward(request: &Request, call: &Call, address: &str) -> Reply {
    exchange(request, address).map_or_else(
        |error| call.refusal(502, "BadGateway", &error.to_string()),
        |(status, body)| {
            Reply::Text(status, if call.is_json { "application/x-amz-json-1.1" } else { "text/xml" }, body)
        },
    )
}

fn exchange(request: &Request, address: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    let own = ["connection", "accept-encoding", "expect"];
    for (name, value) in request.headers.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "connection: close\r\n\r\n" + &request.body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(502);
    Ok((status, body.to_owned()))
}
