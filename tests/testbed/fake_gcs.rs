//! A stand-in for Google Cloud Storage: the XML interface as `object_store` speaks it, and one object by the JSON interface, which a
//! machine asks with the token of its service account. No parts: nothing here is large.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use jiff::Timestamp;

use crate::fake_gce::decoded;
use crate::gce_groups::KEPT_TOKEN;
use crate::gce_machines::TOKEN;

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

pub struct FakeGcs {
    pub endpoint: String,
    objects: Objects,
}

struct Asked {
    verb: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl FakeGcs {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (endpoint, objects) = (format!("http://{}", listener.local_addr().unwrap()), Objects::default());
        let kept = objects.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = kept.clone();
                thread::spawn(move || serve(stream, &kept));
            }
        });
        Self { endpoint, objects }
    }

    /// `bucket/name` of every object.
    pub fn keys(&self) -> Vec<String> {
        self.objects.lock().unwrap().keys().cloned().collect()
    }
}

/// One request a connection.
fn serve(stream: TcpStream, objects: &Objects) {
    let mut reader = BufReader::new(stream);
    let Some(asked) = read(&mut reader) else { return };
    let (status, headers, body) = answer(&asked, &mut objects.lock().unwrap());
    let head = format!(
        "HTTP/1.1 {status} -\r\n{headers}ETag: \"e\"\r\nx-goog-generation: 1\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if asked.verb == "HEAD" { Vec::new() } else { body };
    let _ = reader.into_inner().write_all(&[head.into_bytes(), body].concat());
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut words = first.split(' ');
    let (verb, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { verb, path: decoded(path), query: query.to_owned(), headers, body })
}

fn answer(asked: &Asked, objects: &mut BTreeMap<String, Vec<u8>>) -> (u16, String, Vec<u8>) {
    let plain = |status: u16| (status, String::new(), Vec::new());
    let token = asked
        .headers
        .get("authorization")
        .map(|key| [TOKEN, KEPT_TOKEN].iter().any(|token| *key == format!("Bearer {token}")));
    if token == Some(false) {
        return plain(401);
    }
    let by_json = asked.path.strip_prefix("/storage/v1/b/").map(|rest| rest.replacen("/o/", "/", 1));
    if by_json.is_some() && token != Some(true) {
        return plain(401);
    }
    let key = by_json.unwrap_or_else(|| asked.path.trim_start_matches('/').to_owned());
    match asked.verb.as_str() {
        "GET" if asked.query.contains("list-type=2") => {
            (200, String::new(), listed(&key, &asked.query, objects).into_bytes())
        }
        "PUT" if asked.headers.contains_key("x-goog-if-generation-match") && objects.contains_key(&key) => plain(412),
        "PUT" => {
            objects.insert(key, asked.body.clone());
            plain(200)
        }
        "DELETE" => plain(if objects.remove(&key).is_some() { 204 } else { 404 }),
        "GET" | "HEAD" => {
            objects.get(&key).map_or_else(|| plain(404), |whole| ranged(whole, asked.headers.get("range")))
        }
        _ => plain(501),
    }
}

/// `bytes=FROM-TO`, both of them in it.
fn ranged(whole: &[u8], range: Option<&String>) -> (u16, String, Vec<u8>) {
    let ends = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = ends else { return (200, String::new(), whole.to_vec()) };
    let from: usize = from.parse().unwrap();
    let end = to.parse::<usize>().map_or(whole.len(), |to| (to + 1).min(whole.len()));
    let last = end.saturating_sub(1);
    (206, format!("Content-Range: bytes {from}-{last}/{}\r\n", whole.len()), whole[from.min(end)..end].to_vec())
}

fn listed(bucket: &str, query: &str, objects: &BTreeMap<String, Vec<u8>>) -> String {
    let of = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(decoded).unwrap_or_default()
    };
    let (start, delimiter) = (format!("{}/{}", bucket.trim_end_matches('/'), of("prefix")), of("delimiter"));
    let mut text = String::from("<ListBucketResult>");
    let mut folders: Vec<String> = Vec::new();
    for (key, body) in objects.iter().filter(|(key, _)| key.starts_with(&start)) {
        let name = key.split_once('/').unwrap().1;
        match key[start.len()..].split_once('/').filter(|_| !delimiter.is_empty()) {
            Some((folder, _)) => folders.push(format!("{}{folder}/", of("prefix"))),
            None => text.push_str(&format!(
                "<Contents><Key>{name}</Key><Size>{}</Size><LastModified>{:.3}</LastModified><ETag>\"e\"</ETag></Contents>",
                body.len(),
                // Whoever leads a run goes by the time of its store.
                Timestamp::now()
            )),
        }
    }
    folders.dedup();
    for folder in folders {
        text.push_str(&format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"));
    }
    text + "</ListBucketResult>"
}
