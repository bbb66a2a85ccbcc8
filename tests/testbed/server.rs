//! A small HTTP server on 127.0.0.1 that answers with what a test says and keeps what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Lines of the head, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

pub enum Reply {
    /// Status, content type, body, with the time of the answer.
    Text(u16, &'static str, String),
    /// Status and body, with the time of the answer as a metadata service gives it.
    Dated(u16, String),
    /// An answer of a server whose clock is wrong by so many seconds.
    Skewed(i64, &'static str, String),
    /// Ends the connection without a word.
    Hangup,
    /// Keeps the connection open and says nothing.
    Silence,
}

pub struct Server {
    pub endpoint: String,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let kept = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer) = (kept.clone(), answer.clone());
                thread::spawn(move || serve(stream, &kept, &*answer));
            }
        });
        Self { endpoint, asked }
    }

    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

/// One request a connection.
fn serve(stream: TcpStream, kept: &Mutex<Vec<Request>>, answer: &(dyn Fn(&Request) -> Reply + Send + Sync)) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read(&mut reader) else { return };
    kept.lock().unwrap().push(request.clone());
    let mut stream = reader.into_inner();
    let (status, kind, skew, body) = match answer(&request) {
        Reply::Text(status, kind, body) => (status, Some(kind), 0, body),
        Reply::Dated(status, body) => (status, None, 0, body),
        Reply::Skewed(skew, kind, body) => (200, Some(kind), skew, body),
        Reply::Hangup => return,
        Reply::Silence => {
            // Ends when the other side gives up.
            let _ = stream.read(&mut [0]);
            return;
        }
    };
    // Some tests write a date of their own behind the type.
    let dated = if kind.is_some_and(|kind| kind.contains("Date: ")) {
        String::new()
    } else {
        format!("Date: {}\r\n", date(skew))
    };
    let kind = kind.map_or_else(String::new, |kind| format!("Content-Type: {kind}\r\n"));
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\n{dated}{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all((head + &body).as_bytes());
}

/// As a header says it, of a clock that is wrong by so many seconds.
pub fn date(skew: i64) -> String {
    let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(skew);
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&now).unwrap()
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let (method, path) = (first.split(' ').next()?.to_owned(), first.split(' ').nth(1)?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, headers, body: String::from_utf8_lossy(&body).into_owned() })
}
