//! A bucket in memory behind the part of S3 that a store needs, which fails where a test says so. One request a connection.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub type Objects = BTreeMap<String, Vec<u8>>;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Done,
    /// Nothing happens and nobody answers.
    Lost,
    /// It happens and nobody answers.
    AnswerLost,
    /// Status and code of the error.
    Refused(u16, &'static str),
    Slow(Duration),
}

#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// Key and query, without the bucket.
    pub path: String,
}

type Judge = Arc<dyn Fn(&Asked) -> Fate + Send + Sync>;

pub struct Bucket {
    pub endpoint: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: Objects,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
}

impl Bucket {
    pub fn start(objects: Objects, judge: impl Fn(&Asked) -> Fate + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { objects, ..State::default() }));
        let (judge, shared): (Judge, _) = (Arc::new(judge), state.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (judge, shared) = (judge.clone(), shared.clone());
                thread::spawn(move || serve(stream, &judge, &shared));
            }
        });
        Self { endpoint, state }
    }

    pub fn environment(&self) -> [(&'static str, &str); 4] {
        [
            ("AWS_ENDPOINT_URL", &self.endpoint),
            ("AWS_ACCESS_KEY_ID", "t"),
            ("AWS_SECRET_ACCESS_KEY", "t"),
            ("AWS_REGION", "us-east-1"),
        ]
    }

    pub fn objects(&self) -> Objects {
        self.state.lock().unwrap().objects.clone()
    }
}

struct Request {
    asked: Asked,
    range: Option<(usize, usize)>,
    only_if_new: bool,
    body: Vec<u8>,
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut from = BufReader::new(stream);
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    // Below `/bucket/`; a list has only a query.
    let path = target.trim_start_matches('/').split_once(['/', '?']).map_or("", |(_, rest)| rest).to_owned();
    let path = if target.contains("/?") || !target.trim_start_matches('/').contains('/') {
        format!("?{}", path.trim_start_matches('?'))
    } else {
        path
    };
    let (mut length, mut range, mut only_if_new) = (0, None, false);
    loop {
        line.clear();
        from.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "if-none-match" => only_if_new = value == "*",
            "range" => {
                range = value
                    .strip_prefix("bytes=")?
                    .split_once('-')
                    .map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()));
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some(Request { asked: Asked { method, path }, range, only_if_new, body })
}

fn serve(mut stream: TcpStream, judge: &Judge, state: &Mutex<State>) {
    let Some(request) = read(&stream) else { return };
    let fate = judge(&request.asked);
    let answer = match fate {
        Fate::Lost => return thread::sleep(Duration::from_mins(10)),
        Fate::Refused(status, code) => {
            (status, String::new(), format!("<Error><Code>{code}</Code><Message>no</Message></Error>").into_bytes())
        }
        _ => act(&request, &mut state.lock().unwrap()),
    };
    match fate {
        Fate::AnswerLost => return thread::sleep(Duration::from_mins(10)),
        Fate::Slow(time) => thread::sleep(time),
        _ => {}
    }
    let (status, headers, body) = answer;
    let length =
        if request.asked.method == "HEAD" { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status} X\r\n{headers}{length}Connection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    if request.asked.method != "HEAD" {
        let _ = stream.write_all(&body);
    }
}

/// Status, headers, body.
fn act(request: &Request, state: &mut State) -> (u16, String, Vec<u8>) {
    let (key, query) = request.asked.path.split_once('?').unwrap_or((&request.asked.path, ""));
    let plain = |status, text: &str| (status, "ETag: \"e\"\r\n".to_owned(), text.as_bytes().to_vec());
    let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    match request.asked.method.as_str() {
        "GET" if key.is_empty() => {
            plain(200, &listing(&state.objects, &parameter("prefix").unwrap_or("").replace("%2F", "/")))
        }
        "POST" if key.is_empty() => {
            let text = String::from_utf8_lossy(&request.body).into_owned();
            let keys = text.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned()));
            let gone: Vec<String> = keys.inspect(|key| drop(state.objects.remove(key))).collect();
            let said =
                gone.iter().fold(String::new(), |text, key| text + &format!("<Deleted><Key>{key}</Key></Deleted>"));
            plain(200, &format!("<DeleteResult>{said}</DeleteResult>"))
        }
        "POST" if query.starts_with("uploads") => {
            let id = format!("u{}", state.uploads.len());
            state.uploads.insert(id.clone(), BTreeMap::new());
            plain(
                200,
                &format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"),
            )
        }
        "POST" => {
            let parts = state.uploads.remove(parameter("uploadId").unwrap()).unwrap();
            state.objects.insert(key.to_owned(), parts.into_values().flatten().collect());
            plain(
                200,
                "<CompleteMultipartUploadResult><ETag>\"e\"</ETag><Location>l</Location></CompleteMultipartUploadResult>",
            )
        }
        "PUT" if query.contains("partNumber") => {
            let upload = state.uploads.get_mut(parameter("uploadId").unwrap()).unwrap();
            upload.insert(parameter("partNumber").unwrap().parse().unwrap(), request.body.clone());
            plain(200, "")
        }
        "PUT" if request.only_if_new && state.objects.contains_key(key) => {
            plain(412, "<Error><Code>PreconditionFailed</Code><Message>it is there</Message></Error>")
        }
        "PUT" => {
            state.objects.insert(key.to_owned(), request.body.clone());
            plain(200, "")
        }
        "DELETE" => {
            state.objects.remove(key);
            plain(204, "")
        }
        _ => match state.objects.get(key) {
            None => plain(404, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>"),
            Some(bytes) => found(bytes, request),
        },
    }
}

fn found(bytes: &[u8], request: &Request) -> (u16, String, Vec<u8>) {
    let dates = "ETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
    if request.asked.method == "HEAD" {
        return (200, format!("{dates}Content-Length: {}\r\n", bytes.len()), Vec::new());
    }
    let Some((from, to)) = request.range else { return (200, dates.to_owned(), bytes.to_vec()) };
    let to = to.min(bytes.len().saturating_sub(1));
    (206, format!("{dates}Content-Range: bytes {from}-{to}/{}\r\n", bytes.len()), bytes[from..=to].to_vec())
}

fn listing(objects: &Objects, prefix: &str) -> String {
    let one = |(key, bytes): (&String, &Vec<u8>)| {
        let about = format!("<ETag>\"e\"</ETag><Size>{}</Size>", bytes.len());
        format!("<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>{about}</Contents>")
    };
    let all: String = objects.iter().filter(|(key, _)| key.starts_with(prefix)).map(one).collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{all}</ListBucketResult>")
}
