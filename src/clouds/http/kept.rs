//! Public documents that are kept with the name of their state (ETag): what has not changed since is not sent again.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::{Http, Reply, Request};
use gpuplan_market::SourceError;
use gpuplan_runstore::sha256;

/// First line of a kept document.
#[derive(Serialize, Deserialize)]
struct Head {
    url: String,
    etag: String,
    modified_at: Option<Timestamp>,
}

impl Http {
    /// A public document: its address may have no key, and what it says may be read by whoever reads the folder. Where a copy is in
    /// the folder, the server is asked for another state only. A folder that cannot be written costs nothing but the next transfer.
    pub async fn kept_json<T: DeserializeOwned>(
        &self,
        request: &Request,
        folder: Option<&Path>,
    ) -> Result<Reply<T>, SourceError> {
        let Some(file) = folder.map(|folder| file(folder, request.url())) else { return self.json(request).await };
        let kept = read(&file, request.url()).and_then(|(head, text)| Some((head, serde_json::from_str(&text).ok()?)));
        let question = match &kept {
            Some((head, _)) => request.clone().header("if-none-match", head.etag.clone()),
            None => request.clone(),
        };
        match (self.named_text(&question).await, kept) {
            (Err(SourceError::Refused { code, .. }), Some((head, value))) if code == "304" => {
                Ok(Reply { value, answered_at: Timestamp::now(), modified_at: head.modified_at })
            }
            (Err(error), _) => Err(error),
            (Ok((text, Reply { value: etag, answered_at, modified_at })), _) => {
                let value = request.read(&text)?;
                if let Some(etag) = etag {
                    let head = Head { url: request.url().to_owned(), etag, modified_at };
                    let _ = write(&file, &head, &text);
                }
                Ok(Reply { value, answered_at, modified_at })
            }
        }
    }
}

fn file(folder: &Path, url: &str) -> PathBuf {
    folder.join(sha256(url.as_bytes())).with_extension("json.gz")
}

/// `None` for what is not there, is of another address or damaged: it is asked for again.
fn read(file: &Path, url: &str) -> Option<(Head, String)> {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(file).ok()?).read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once('\n')?;
    let head: Head = serde_json::from_str(head).ok()?;
    (head.url == url).then(|| (head, body.to_owned()))
}

/// Readers never see half of it.
fn write(file: &Path, head: &Head, body: &str) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(serde_json::to_string(head)?.as_bytes())?;
    packed.write_all(b"\n")?;
    packed.write_all(body.as_bytes())?;
    let temporary = file.with_extension(format!("{}.new", std::process::id()));
    fs::write(&temporary, packed.finish()?)?;
    fs::rename(&temporary, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_of_one_address_and_whole_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let url = "http://127.0.0.1/a";
        let place = file(folder.path(), url);
        assert!(read(&place, url).is_none());
        let head = Head { url: url.to_owned(), etag: "\"1\"".to_owned(), modified_at: None };
        write(&place, &head, "{}\n[]").unwrap();
        let (head, body) = read(&place, url).unwrap();
        assert_eq!((head.etag.as_str(), body.as_str()), ("\"1\"", "{}\n[]"));
        assert!(read(&place, "http://127.0.0.1/b").is_none());
        let bytes = fs::read(&place).unwrap();
        fs::write(&place, &bytes[..bytes.len() - 9]).unwrap();
        assert!(read(&place, url).is_none(), "a part of one");
        assert_ne!(file(folder.path(), url), file(folder.path(), "http://127.0.0.1/b"));
    }
}
